"""Real distilabel pipelines: ten problems of GSM8K, and rows that cannot be scored."""

import json
import logging
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# These tests use models in the process that starts pipelines: it cannot be forked. distilabel asks when imported.
multiprocessing.set_start_method("forkserver", force=True)
sys.path.insert(0, str(Path(__file__).parents[2]))

from distilabel.pipeline import Pipeline
from distilabel.steps import LoadDataFromDicts
from guide import run_guide

import gradus
from gradus.distilabel import GradeAnswers, ScoreSolutions

MODEL = {"model": "smollm2-135m", "profile": "plain"}
WRITER = "175b_verification"
SCRIPT = """
from distilabel.pipeline import Pipeline
from distilabel.steps import LoadDataFromDicts
from gradus.distilabel import GradeAnswers, ScoreSolutions

if __name__ == "__main__":
    rows = [{"instruction": "What is 2 + 3?", "generation": "2 + 3 = 5.", "answer": "5"}]
    with Pipeline(cache_dir="cache") as pipeline:
        LoadDataFromDicts(data=rows) >> ScoreSolutions() >> GradeAnswers()
    row = pipeline.run(use_cache=False)["default"]["train"][0]
    print("DONE", row["correct"], len(row["step_scores"]))
"""


def require_models() -> None:
    if "GRADUS_HOME" not in os.environ:
        pytest.skip("GRADUS_HOME does not name a folder with gradus-prm and smollm2-135m")


def gsm8k_solutions(count: int) -> list[dict[str, Any]]:
    """Problems of GSM8K with the solution of a model, and whether it is right."""
    if "GRADUS_DATA" not in os.environ:
        pytest.skip("GRADUS_DATA does not name a folder with gsm8k/example_model_solutions.jsonl")
    file = Path(os.environ["GRADUS_DATA"], "gsm8k", "example_model_solutions.jsonl")
    with file.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line, _ in zip(lines, range(count), strict=False)]
    return [
        {
            "instruction": record["question"],
            "generation": record[WRITER]["solution"],
            "answer": record["ground_truth"].rpartition("A:")[2].strip(),
            "is_correct": record[WRITER]["is_correct"],
        }
        for record in records
    ]


def test_ten_problems_of_gsm8k(tmp_path: Path) -> None:
    require_models()
    rows = gsm8k_solutions(10)
    with Pipeline(cache_dir=tmp_path) as pipeline:
        load = LoadDataFromDicts(data=rows, batch_size=4)
        score = ScoreSolutions(**MODEL, aggregation="min", input_batch_size=4)
        load >> score >> GradeAnswers(input_batch_size=3)
    done = pipeline.run(use_cache=False)["default"]["train"]

    assert done["instruction"] == [row["instruction"] for row in rows]
    assert done["correct"] == done["is_correct"]
    assert {True, False} == set(done["correct"])
    expected = gradus.Scorer(**MODEL).score_batch(
        [row["instruction"] for row in rows], [row["generation"] for row in rows]
    )
    assert done["steps"] == [one.steps for one in expected if one]
    assert done["step_scores"] == [one.scores for one in expected if one]
    assert done["score"] == [min(one.scores) for one in expected if one]


def test_other_columns_and_rows_without_a_result(tmp_path: Path) -> None:
    require_models()
    solutions = ["2 + 3 = 5.\n\nThe answer is 5.", "", None, "and so on " * 20_000, "I do not know."]
    rows = [{"problem": "What is 2 + 3?", "solution": solution, "answer": "5"} for solution in solutions]
    with Pipeline(cache_dir=tmp_path) as pipeline:
        columns = {"instruction": "problem", "generation": "solution"}
        score = ScoreSolutions(
            **MODEL, input_mappings=columns, output_mappings={"score": "reward"}, input_batch_size=5
        )
        LoadDataFromDicts(data=rows) >> score >> GradeAnswers(input_mappings={"generation": "solution"})
    done = pipeline.run(use_cache=False)["default"]["train"]
    assert [one is None for one in done["reward"]] == [False, True, True, True, False]
    assert [one is None for one in done["step_scores"]] == [False, True, True, True, False]
    assert done["correct"] == [True, None, None, None, None]
    assert done["verdict"] == ["equal", "undecided", None, "undecided", "undecided"]
    assert done["solution"] == solutions


def test_conversations_and_steps() -> None:
    require_models()
    step = ScoreSolutions(**MODEL)
    step.load()
    turn = [{"role": "assistant", "content": "The answer is 5."}]
    asked = [{"role": "user", "content": "What is 2 + 3?"}]
    given = [{"instruction": asked, "generation": turn}, {"instruction": asked, "generation": ["The answer is 5."]}]
    first, second = next(step.process(given))
    expected = gradus.Scorer(**MODEL).score("What is 2 + 3?", "The answer is 5.").scores
    assert first["step_scores"] == second["step_scores"] == expected
    assert next(step.process([])) == []
    step.unload()
    with pytest.raises(gradus.GradusError, match="is not loaded"):
        next(step.process(given))


def test_rows_without_a_result_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    step = GradeAnswers(name="grade")
    step.load()
    step._logger.propagate = True
    with caplog.at_level(logging.WARNING):
        rows = next(step.process([{"answer": 5, "generation": "It is 5."}, {"answer": None, "generation": "5"}]))
    assert [row["correct"] for row in rows] == [True, None]
    assert "Step 'grade': 1 of 2 rows have no result" in caplog.text
    with pytest.raises(gradus.GradusError, match="column `generation` holds dict"):
        next(step.process([{"answer": "5", "generation": {"text": "5"}}]))


def test_a_pipeline_is_saved_and_loaded(tmp_path: Path) -> None:
    with Pipeline(name="scoring", cache_dir=tmp_path) as pipeline:
        LoadDataFromDicts(data=[{"instruction": "p", "generation": "s"}]) >> ScoreSolutions(**MODEL, device="cpu")
    pipeline.save(tmp_path / "pipeline.yaml", format="yaml")
    again = Pipeline.from_yaml(tmp_path / "pipeline.yaml")
    step = again.dag.get_step("score_solutions_0")["step"]
    assert isinstance(step, ScoreSolutions)
    assert (step.model, step.profile, step.device) == ("smollm2-135m", "plain", "cpu")


def test_a_script_with_the_start_method_of_the_system(tmp_path: Path) -> None:
    require_models()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    run = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "DONE True 1" in run.stdout, run.stderr


def test_distilabel_is_imported_by_its_own_module_only() -> None:
    code = (
        "import sys, gradus; assert 'distilabel' not in sys.modules\n"
        "sys.modules['distilabel'] = None; import gradus.distilabel"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: gradus.distilabel needs distilabel: pip install distilabel requests" in run.stderr


def test_the_guide_is_true(tmp_path: Path) -> None:
    require_models()
    run_guide("distilabel", tmp_path)
