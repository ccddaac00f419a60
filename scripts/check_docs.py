#!/usr/bin/env python3
"""Checks the Markdown files of the repository; fast, offline, Python's standard library only.

    python3 scripts/check_docs.py          report every fault; exit status 1 if there is one
    python3 scripts/check_docs.py --wrap   wrap paragraphs and list items at 100 characters first

Rules: lines of at most 100 characters outside tables, code and link targets; relative links and
their anchors resolve; chapters of the book are listed in docs/SUMMARY.md and link only to each
other; README.md has at most 120 lines; paths, make targets and the like in backticks exist; no
path of one particular machine. Not checked: addresses on the web, spelling.
"""

import glob
import os
import re
import subprocess
import sys
import textwrap

WIDTH = 100
README_LINES = 120
# Prompts are read by models, and published numbers are described beside their data.
LEFT_OUT = ("assets/prompts/", "crates/", "fuzz/", "target/", "demo-out/", "runs/")
# Folders whose paths, in backticks, must exist.
ROOTS = ("crates/", "assets/", "recipes/", "scripts/", "benches/", "deploy/", "docs/", "fuzz/", ".ci/")
# The book's list of chapters, one to a line.
SUMMARY = "docs/SUMMARY.md"
# Names paths that are gone.
HISTORY = "CHANGELOG.md"
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|work)/[\w.-]+")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def main() -> int:
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = markdown_files()
    if "--wrap" in sys.argv[1:]:
        for path in files:
            if path != SUMMARY:
                wrap_file(path)
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", read("Makefile"), re.MULTILINE))
    faults = []
    for path in files:
        faults += check(path, targets)
    faults += check_summary()
    lines = read("README.md").count("\n")
    if lines > README_LINES:
        faults.append(f"README.md: {lines} lines, at most {README_LINES} are allowed")
    for fault in faults:
        print(fault)
    print(f"{len(files)} files, {len(faults)} fault{'' if len(faults) == 1 else 's'}")
    return 1 if faults else 0


def markdown_files() -> list:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    return sorted(p for p in listed if p and os.path.exists(p) and not p.startswith(LEFT_OUT))


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def lines_outside_code(text: str):
    """Yields (number, line) of what is not inside a fence."""
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (fence is None or mark.group(1).startswith(fence)):
            fence = mark.group(1) if fence is None else None
        elif fence is None:
            yield number, line


def check(path: str, targets: set) -> list:
    faults = []
    text = read(path)
    for number, line in enumerate(text.split("\n"), 1):
        for found in MACHINE_PATH.findall(line):
            faults.append(f"{path}:{number}: {found} is a path of one machine")
        if line != line.rstrip():
            faults.append(f"{path}:{number}: spaces at the end of the line")
    for number, line in lines_outside_code(text):
        shown = re.sub(r"\]\([^)]*\)", "]", line)
        if len(shown) > WIDTH and not line.lstrip().startswith("|"):
            faults.append(f"{path}:{number}: {len(shown)} characters, at most {WIDTH} are allowed")
        prose = re.sub(r"`[^`]*`", "", line)
        for target in LINK.findall(prose):
            fault = check_link(path, target)
            if fault:
                faults.append(f"{path}:{number}: {fault}")
        for code in re.findall(r"`([^`]+)`", line):
            fault = None if path == HISTORY else check_code(code, targets)
            if fault:
                faults.append(f"{path}:{number}: {fault}")
    return faults


def check_link(path: str, target: str):
    if re.match(r"[a-z]+:", target):
        return None
    file, _, anchor = target.partition("#")
    aim = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
    if not os.path.exists(aim):
        return f"{target} does not exist"
    if path.startswith("docs/") and not aim.startswith("docs"):
        return f"{target} leads out of the book; write the path in backticks"
    if anchor and aim.endswith(".md") and anchor not in anchors(aim):
        return f"{target}: {aim} has no such heading"
    return None


def anchors(path: str) -> set:
    found = set()
    for _, line in lines_outside_code(read(path)):
        if line.startswith("#"):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
            slug = re.sub(r"[^\w\s-]", "", title.lower())
            found.add(re.sub(r"\s", "-", slug))
    return found


def check_code(code: str, targets: set):
    """A path below one of our folders exists; `<name>`, `…` and `*` stand for anything."""
    made = re.fullmatch(r"(?:\w+=\S+ )*make ([a-z][a-z0-9-]*)(?: \w+=\S+)*", code)
    if made and made.group(1) not in targets:
        return f"the Makefile has no target {made.group(1)}"
    if not code.startswith(ROOTS) or " " in code or "$" in code:
        return None
    pattern = re.sub(r"<[^>]*>|…|NAME", "*", code.rstrip("/"))
    pattern = re.sub(r":\d+$", "", pattern)
    if not glob.glob(pattern):
        return f"`{code}` does not exist"
    return None


def check_summary() -> list:
    listed = {os.path.normpath("docs/" + t.partition("#")[0]) for t in LINK.findall(read(SUMMARY))}
    there = {p for p in markdown_files() if p.startswith("docs/") and p != SUMMARY}
    return [f"{SUMMARY}: {p} is not listed" for p in sorted(there - listed)]


def wrap_file(path: str) -> None:
    before = read(path)
    after = wrap(before)
    if after != before:
        with open(path, "w", encoding="utf-8") as file:
            file.write(after)


def wrap(text: str) -> str:
    """Fills paragraphs and list items; leaves code, tables, headings, HTML and front matter."""
    out, paragraph = [], []

    def flush():
        if paragraph:
            first = re.match(r"(\s*(?:[-*]|\d+\.)\s+|\s*)", paragraph[0]).group(0)
            later = " " * len(first)
            words = " ".join([paragraph[0][len(first):]] + [p.strip() for p in paragraph[1:]])
            # A line must not begin with what Markdown takes for a list, a quotation or a heading.
            words = re.sub(r" ([-+#>=]|\d+\.) ", "\u00a0\\1 ", words)
            filled = textwrap.fill(
                words, WIDTH, initial_indent=first, subsequent_indent=later,
                break_long_words=False, break_on_hyphens=False,
            )
            out.extend(filled.replace("\u00a0", " ").split("\n"))
            paragraph.clear()

    fence, front = None, text.startswith("---\n")
    for number, line in enumerate(text.split("\n")):
        if front:
            out.append(line)
            front = not (number > 0 and line == "---")
            continue
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence is not None or mark:
            flush()
            out.append(line)
            if mark and (fence is None or mark.group(1).startswith(fence)):
                fence = mark.group(1) if fence is None else None
        elif not line.strip() or re.match(r"\s*([|#<>]|!\[|\[[^\]]+\]: )", line):
            flush()
            out.append(line)
        else:
            if re.match(r"\s*([-*]|\d+\.)\s", line):
                flush()
            paragraph.append(line)
    flush()
    return "\n".join(out)


if __name__ == "__main__":
    sys.exit(main())
