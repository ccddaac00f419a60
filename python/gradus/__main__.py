"""`python -m gradus` is the command line."""

import os
import sys

from gradus.program import program_path

if __name__ == "__main__":
    program = program_path()
    os.execv(program, [program, *sys.argv[1:]])
