"""llama.cpp's OpenAI-compatible server on a free port of loopback: prints its address, and serves until its standard input ends.

Usage: llm_server.py MODEL.gguf [SLOTS] [TOKENS_PER_SLOT]
"""

import socket
import sys

import xllamacpp


def main() -> None:
    slots = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    tokens = int(sys.argv[3]) if len(sys.argv) > 3 else 8192
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.n_parallel = slots
    params.n_ctx = slots * tokens
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        params.port = free.getsockname()[1]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
