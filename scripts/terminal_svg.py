#!/usr/bin/env python3
"""Draws colored terminal output as a small SVG of text, for pictures in the docs.

    gradus synth -n 1 --solutions 4 --seed 4 -o few.jsonl
    CLICOLOR_FORCE=1 gradus score few.jsonl --show 4 2>/dev/null | head -46 |
        python3 scripts/terminal_svg.py 'gradus score few.jsonl --show 4' > docs/images/score.svg

Standard input is the output with its ANSI colors, the argument is the command that is shown above
it. Understands bold, dim, 8 colors and 24-bit colors; nothing else of a terminal.
"""

import html
import re
import sys

COLUMN, ROW, MARGIN, FONT = 7.8, 18, 16, 13
COLORS = {"31": "#ff6b68", "32": "#5fd08a", "33": "#e5c07b", "36": "#56b6c2"}


def main() -> None:
    lines = ["\x1b[32m$\x1b[0m " + sys.argv[1]] + sys.stdin.read().rstrip("\n").split("\n")
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    width = max(map(len, plain)) * COLUMN + 2 * MARGIN
    height = len(lines) * ROW + 2 * MARGIN
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}"'
        f' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{FONT}" xml:space="preserve">'
    )
    print(f'<rect width="100%" height="100%" rx="8" fill="#1e2127"/>')
    for number, line in enumerate(lines):
        y = MARGIN + (number + 0.75) * ROW
        if plain[number].strip():
            print(f'<text y="{y:.0f}" fill="#d7dae0">{spans(line)}</text>')
    print("</svg>")


def spans(line: str) -> str:
    """A tspan for each run of equal style, at its column, so that fonts of any width line up."""
    drawn, style, column = [], {}, 0
    for part in re.split(r"(\x1b\[[\d;]*m)", line):
        if part.startswith("\x1b"):
            style = styled(part[2:-1].split(";"), style)
        elif part:
            shown = part.lstrip(" ")
            start = MARGIN + (column + len(part) - len(shown)) * COLUMN
            column += len(part)
            if shown:
                length = f' textLength="{len(shown.rstrip()) * COLUMN:.1f}" lengthAdjust="spacingAndGlyphs"'
                marks = "".join(f' {key}="{value}"' for key, value in style.items())
                drawn.append(f'<tspan x="{start:.1f}"{length}{marks}>{html.escape(shown.rstrip())}</tspan>')
    return "".join(drawn)


def styled(codes: list, style: dict) -> dict:
    style = dict(style)
    if codes[:2] == ["38", "2"]:
        style["fill"] = "#%02x%02x%02x" % tuple(int(code) for code in codes[2:5])
        return style
    for code in codes:
        if code in ("", "0"):
            style = {}
        elif code == "1":
            style["font-weight"] = "bold"
        elif code == "2":
            style["opacity"] = "0.65"
        elif code in COLORS:
            style["fill"] = COLORS[code]
    return style


if __name__ == "__main__":
    main()
