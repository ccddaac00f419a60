"""What the guide and the README show."""

import re
from pathlib import Path

import pytest

from guide import GUIDES, run_guide


def test_the_guide(tmp_path: Path) -> None:
    if not GUIDES.is_dir():
        pytest.skip("the documentation is not here")
    run_guide("../python", tmp_path)


def test_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    readme = GUIDES.parents[2] / "README.md"
    if not readme.is_file():
        pytest.skip("the README is not here")
    (code,) = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert 'Grade(equal, answer="0.5")' in capsys.readouterr().out
