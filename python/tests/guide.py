"""Runs the Python of a guide, so that what it shows is true.

    python guide.py FOLDER     writes the examples of the README and of the Python guide there, for type checkers
"""

import os
import re
import sys
from pathlib import Path

# The repository's root, also for a copy of the tests under target/.
ROOT = next(place for place in Path(__file__).parents if (place / "docs" / "guide").is_dir())
GUIDES = ROOT / "docs" / "guide" / "python"
FENCE = re.compile(r"(?:<!-- (?P<note>[^>]*) -->\n)?```python\n(?P<code>.*?)```", re.DOTALL)


def run_guide(name: str, folder: Path) -> dict[str, object]:
    """Runs all blocks of a guide in one namespace, in `folder`. A block after `<!-- not run: why -->` is only compiled."""
    guide = GUIDES / f"{name}.md"
    text = guide.read_text(encoding="utf-8")
    space: dict[str, object] = {"__name__": f"guide_{name}"}
    before = Path.cwd()
    os.chdir(folder)
    try:
        for block in FENCE.finditer(text):
            line = text.count("\n", 0, block.start("code"))
            code = compile("\n" * line + block["code"], str(guide), "exec")
            if not (block["note"] or "").startswith("not run"):
                exec(code, space)
    finally:
        os.chdir(before)
    return space


def write_examples(folder: Path) -> None:
    """Writes the blocks of a page as one file."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in [ROOT / "README.md", ROOT / "docs" / "guide" / "python.md"]:
        blocks = [block["code"] for block in FENCE.finditer(page.read_text(encoding="utf-8"))]
        (folder / f"{page.stem.lower()}_examples.py").write_text("\n".join(blocks), encoding="utf-8")


if __name__ == "__main__":
    write_examples(Path(sys.argv[1]))
