"""Pools from Python."""

from pathlib import Path

import pytest

import gradus


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool")
    gradus.run("synth", n=12, solutions=1, seed=5, output=folder / "solved.jsonl")
    gradus.run("pool", "build", folder / "solved.jsonl", output=folder / "pool", progress=False)
    return folder / "pool"


def test_references(pool: Path) -> None:
    opened = gradus.Pool(pool, questions=3)
    assert len(opened) == 12
    found = opened.search("A shop sells apples for 3 dollars each. What do 4 cost?", ["4 * 3 = 12."])
    assert len(found["references"]["questions"]) == 3
    assert len(found["references"]["steps"]) == 1
    assert repr(opened).endswith("all-minilm-l6-v2)")


def test_scores_with_references(pool: Path, tmp_path: Path) -> None:
    rows = [{"problem": "A pen costs 3 dollars. What do 4 cost?", "steps": ["4 * 3 = 12.", "So 12."]}]
    gradus.Dataset.from_rows(rows).write(tmp_path / "data.jsonl")
    options = {"model": "smollm2-135m", "pool": str(pool)}
    printed = gradus.run("score", tmp_path / "data.jsonl", progress=False, **options)
    scored = gradus.Scorer(**options).score(rows[0]["problem"], rows[0]["steps"])  # type: ignore[arg-type]
    assert scored.scores == printed.results[0]["scores"]


def test_a_pool_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(gradus.GradusError, match="is no pool"):
        gradus.Pool(tmp_path)
