#!/usr/bin/env python3
"""A picture (SVG) of the first lines that a command prints on a terminal of 112 columns; its progress is left out.

docs/images/score.svg, in a folder with `gradus synth -n 1 --solutions 4 --seed 4 -o few.jsonl`:
terminal_picture.py score.svg 46 gradus score few.jsonl --show 4
"""

import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unicodedata

COLUMNS, CHARACTER, LINE, LEFT, TOP = 112, 7.8, 18, 16, 30
COLORS = {"31": "#e8604c", "32": "#5fd08a", "33": "#d9b44a", "34": "#6aa8e8", "36": "#57c7c0"}
ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")


def printed(command):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 65536):
            parts.append(part)
    except OSError:
        pass  # Linux reports the end of a terminal so.
    if process.wait():
        sys.exit(f"{command[0]} ended with {process.returncode}: run it by hand to see why")
    return b"".join(parts).decode().replace("\r\n", "\n").rstrip("\n").split("\n")


def styled(line):
    """Runs of text, each with its SVG attributes."""
    style, at = {}, 0
    for escape in [*ESCAPE.finditer(line), None]:
        text = line[at : escape.start() if escape else len(line)]
        if text:
            yield text, dict(style)
        if escape is None:
            return
        at, codes = escape.end(), (escape[1] or "0").split(";")
        if codes[:2] == ["38", "2"]:
            style["fill"] = "#" + "".join(f"{int(part):02x}" for part in codes[2:5])
            continue
        for code in codes:
            if code == "0":
                style = {}
            elif code == "1":
                style["font-weight"] = "bold"
            elif code == "2":
                style["fill"] = "#8b919d"
            elif code in COLORS:
                style["fill"] = COLORS[code]


def width(text):
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def picture(lines):
    longest = max(sum(width(text) for text, _ in styled(line)) for line in lines)
    size = round(2 * LEFT + longest * CHARACTER), TOP + len(lines) * LINE
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" '
    yield 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" xml:space="preserve">\n'
    yield '<rect width="100%" height="100%" rx="8" fill="#1e2127"/>\n'
    for number, line in enumerate(lines):
        column, spans = 0, []
        for text, style in styled(line):
            attributes = "".join(f' {name}="{value}"' for name, value in style.items())
            kept = text.strip(" ")
            x = LEFT + (column + width(text) - width(text.lstrip(" "))) * CHARACTER
            if kept:
                length = f'{width(kept) * CHARACTER:.1f}" lengthAdjust="spacingAndGlyphs'
                spans.append(f'<tspan x="{x:.1f}" textLength="{length}"{attributes}>{html.escape(kept, quote=False)}</tspan>')
            column += width(text)
        if spans:
            yield f'<text y="{TOP + number * LINE}" fill="#d7dae0">{"".join(spans)}</text>\n'
    yield "</svg>\n"


if len(sys.argv) < 4:
    sys.exit(__doc__.strip())
target, count, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
prompt = f"\x1b[32m$\x1b[0m {' '.join([os.path.basename(command[0]), *command[1:]])}"
lines = [prompt, *printed(command)[:count]]
with open(target, "w") as file:
    file.writelines(picture(lines))
