"""Datasets from Python: read as the command line reads them, and shown as tables without losing labels."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradus

LABELED = {"prompt": "What is 2 + 3?", "completions": ["2 + 3 = 6.", "So 6."], "labels": [False, False]}
OUTPUT = {"question": "What is 2 + 3?", "response": "2 + 3 = 5.\n\nSo 5.", "answer": "5"}
RECORD = {
    "gradus": 1,
    "problem": {"id": "p", "text": "What is 2 + 3?", "answer": "5"},
    "solutions": [
        {
            "id": "s",
            "problem_id": "p",
            "generator": "a-model",
            "steps": ["2 + 3 = 5.", "So 6."],
            "annotations": [
                {"labels": [{"mark": "correct", "source": "human"}, None], "first_error": "unknown"},
                {"labels": [{"mark": "correct"}, {"mark": "incorrect"}], "first_error": 1},
            ],
            "scores": {"prm": [0.9, 0.25]},
        }
    ],
}


def test_files_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "outputs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [OUTPUT, OUTPUT]))
    dataset = gradus.Dataset.read(path)
    assert (len(dataset), dataset.solutions, dataset.skipped) == (2, 2, 0)
    first, second = dataset
    assert first["solutions"][0]["steps"] == ["2 + 3 = 5.", "So 5."]
    # Equal samples are two solutions.
    assert first["solutions"][0]["id"] != second["solutions"][0]["id"]
    assert dataset[-1] == second
    assert repr(dataset) == "Dataset(2 problems, 2 solutions)"
    with pytest.raises(IndexError, match="record 2 of 2"):
        dataset[2]


def test_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(json.dumps(LABELED) + '\n{"prompt": "x", "completions": ["a"], "labels": []}\n')
    with pytest.raises(gradus.GradusError, match=r"broken\.jsonl:2: .*on_error=.skip."):
        gradus.Dataset.read(path)
    assert gradus.Dataset.read(path, on_error="skip").skipped == 1
    with pytest.raises(gradus.GradusError, match="No such file"):
        gradus.Dataset.read(tmp_path / "nowhere.jsonl")
    with pytest.raises(gradus.GradusError, match="needs the path"):
        gradus.Dataset.read()
    with pytest.raises(gradus.GradusError, match="format `word` is not one of gradus, trl"):
        gradus.Dataset.read(path, format="word")


def test_a_folder_written_and_read_again(tmp_path: Path) -> None:
    dataset = gradus.Dataset.from_rows([RECORD])
    for name in ["data.jsonl", "data.json.gz", "data.parquet"]:
        assert dataset.write(tmp_path / name) == 1
        assert gradus.Dataset.read(tmp_path / name).to_list() == dataset.to_list()
    assert dataset.to_list()[0]["solutions"][0]["scores"] == {"prm": [0.9, 0.25]}
    labeled = gradus.Dataset.from_rows([LABELED])
    assert labeled.write(tmp_path / "trl.jsonl", format="trl") == 1
    assert json.loads((tmp_path / "trl.jsonl").read_text()) == LABELED


def test_merged_by_problem() -> None:
    merged = gradus.Dataset.merge(gradus.Dataset.from_rows([LABELED]), gradus.Dataset.from_rows([LABELED]))
    assert len(merged) == 1


def test_as_a_table_with_all_labels() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = gradus.Dataset.from_rows([RECORD]).to_arrow()
    assert isinstance(table, pyarrow.Table)
    (row,) = table.to_pylist()
    assert row == {
        "problem_id": "p",
        "problem": "What is 2 + 3?",
        "answer": "5",
        "solution_id": "s",
        "generator": "a-model",
        "solution": "2 + 3 = 5.\nSo 6.",
        "steps": ["2 + 3 = 5.", "So 6."],
        "final_answer": None,
        "correct": None,
        "labels": [True, None],
        "first_error": None,
        "annotations": [
            {"annotator": "human", "labels": [True, None], "first_error": None},
            {"annotator": "unstated", "labels": [True, False], "first_error": 1},
        ],
        "scores": [{"name": "prm", "scores": [0.9, 0.25]}],
    }
    table.validate(full=True)


def test_tables_of_others() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = [OUTPUT, {**OUTPUT, "response": "It is 4."}]
    expected = gradus.Dataset.from_rows(rows).to_list()
    assert gradus.Dataset.from_rows(pandas.DataFrame(rows)).to_list() == expected
    assert gradus.Dataset.from_rows(polars.DataFrame(rows)).to_list() == expected
    assert gradus.Dataset.from_rows(polars.DataFrame(rows).to_arrow()).to_list() == expected
    assert gradus.Dataset.from_rows(row for row in rows).to_list() == expected
    dataset = gradus.Dataset.from_rows(rows)
    assert dataset.to_polars()["solution"].to_list() == [OUTPUT["response"], "It is 4."]
    assert list(dataset.to_pandas()["answer"]) == ["5", "5"]


def test_rows_that_are_no_records() -> None:
    assert len(gradus.Dataset.from_rows([])) == 0
    with pytest.raises(gradus.GradusError, match="cannot be written as JSON"):
        gradus.Dataset.from_rows([{"question": "x", "response": object()}])
    with pytest.raises(gradus.GradusError, match="expected a record"):
        gradus.Dataset.from_rows([["text"]])
    assert gradus.Dataset.from_rows([{"q": "1 + 1?", "r": "2"}], map="problem=q,solution=r").solutions == 1


values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from([*OUTPUT, *LABELED, *RECORD, "x"]), values), max_size=3))
def test_any_rows_are_read_or_refused(rows: list[dict[str, object]]) -> None:
    try:
        dataset = gradus.Dataset.from_rows(rows, on_error="skip")
    except (gradus.GradusError, UnicodeEncodeError):
        return
    assert len(dataset) + dataset.skipped >= 0
    dataset._repr_html_()


def test_a_notebook_shows_it() -> None:
    html = gradus.Dataset.from_rows([{**OUTPUT, "question": "<b>&</b>"}])._repr_html_()
    assert html.startswith("<iframe srcdoc=")
    assert "<b>&" not in html


def test_merge_of_nothing_is_refused() -> None:
    with pytest.raises(gradus.GradusError, match="no datasets to merge"):
        gradus.Dataset.merge()
