"""Ray Data on a cluster of two nodes: equal to the command line to the bit, with an actor killed in the middle."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import ray

import gradus
from gradus.ray import EmbedBatches, GradeBatches, MonteCarloBatches, SampleBatches, ScoreBatches

sys.path.insert(0, str(Path(__file__).parents[2]))
from guide import run_guide

SOLUTIONS = 2_000
BATCH = 40
POOL = {"compute": ray.data.ActorPoolStrategy(size=2), "num_cpus": 1}
FORMATS = ["numpy", "pandas", "pyarrow"]
TOO_LONG = "and so on " * 1_000


class ReportingScoreBatches(ScoreBatches):
    """Writes a line for each batch that it starts: its process and its node."""

    def __init__(self, log: str, **options: Any) -> None:
        super().__init__(**options)
        self._log = log

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        with open(self._log, "a", encoding="utf-8") as log:
            print(os.getpid(), ray.get_runtime_context().get_node_id(), file=log)
        return super().__call__(batch)


def started(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def kill_one(log: Path, killed: list[int]) -> None:
    """Kills an actor's process in its fourth batch."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        processes = [int(process) for process, _ in started(log)]
        for process in set(processes):
            if processes.count(process) >= 4:
                os.kill(process, signal.SIGKILL)
                killed.append(process)
                return
        time.sleep(0.01)


def synthetic_rows(count: int) -> list[dict[str, str]]:
    """Sums, solved in one to four steps, of which some are wrong."""
    chance = random.Random(7)
    rows = []
    for index in range(count):
        first, second = chance.randint(1, 999), chance.randint(1, 999)
        total = first + second + chance.choice([0, 0, 0, 1, 10])
        steps = [f"Add {first} and {second}.", f"{first} + {second} = {total}.", f"So it is {total}.", "Done."]
        text = "\n\n".join(steps[: chance.randint(1, 4)])
        rows.append({"id": f"row-{index}", "problem": f"What is {first} + {second}?", "solution": text})
    return rows


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_two_thousand_solutions_with_an_actor_killed(model: str, tmp_path: Path) -> None:
    rows = synthetic_rows(SOLUTIONS)
    file = write_rows(tmp_path / "rows.jsonl", rows)
    gradus.run("score", file, model=model, profile="plain", output=tmp_path / "scored.jsonl", progress=False)
    expected = {
        record["problem"]["id"]: next(iter(record["solutions"][0]["scores"].values()))
        for record in gradus.Dataset.read(tmp_path / "scored.jsonl")
    }
    assert len(expected) == SOLUTIONS

    log, killed = tmp_path / "batches.log", []
    killer = threading.Thread(target=kill_one, args=[log, killed])
    killer.start()
    options = {"log": str(log), "model": model, "profile": "plain"}
    job = ray.data.from_items(rows, override_num_blocks=SOLUTIONS // BATCH).map_batches(
        ReportingScoreBatches, fn_constructor_kwargs=options, batch_size=BATCH, batch_format="pyarrow", **POOL
    )
    scored = job.take_all()
    killer.join()

    batches = started(log)
    print(f"{len(batches)} batches started by {len({process for process, _ in batches})} processes, killed {killed}")
    assert len(killed) == 1
    assert len({node for _, node in batches}) == 2, "both nodes scored"
    assert len({process for process, _ in batches}) == 3, "the killed actor was replaced"
    assert len(batches) > SOLUTIONS // BATCH, "what the killed actor had not finished was done again"
    assert {row["id"]: row["step_scores"] for row in scored} == expected
    assert len(scored) == SOLUTIONS
    assert all(row["score"] == row["step_scores"][-1] for row in scored)


@pytest.mark.parametrize("batch_format", FORMATS)
def test_rows_without_a_result_are_none_and_the_others_are_kept(model: str, batch_format: str) -> None:
    rows = [
        {"id": 0, "problem": "What is 2 + 3?", "solution": "2 + 3 = 5.\n\nThe answer is 5.", "answer": "5"},
        {"id": 1, "problem": "What is 2 + 3?", "solution": "", "answer": "5"},
        {"id": 2, "problem": "What is 2 + 3?", "solution": None, "answer": "5"},
        {"id": 3, "problem": None, "solution": "It is 5.", "answer": None},
        {"id": 4, "problem": "What is 2 + 3?", "solution": TOO_LONG, "answer": "5"},
        {"id": 5, "problem": "What is 2 + 3?", "solution": "The answer is 6.", "answer": "5"},
    ]
    here = {"batch_size": 3, "batch_format": batch_format, "compute": ray.data.ActorPoolStrategy(size=1)}
    job = (
        ray.data.from_items(rows, override_num_blocks=2)
        .map_batches(GradeBatches, **here)
        .map_batches(ScoreBatches, fn_constructor_kwargs={"model": model, "profile": "plain", "steps": "steps"}, **here)
    )
    done = {row["id"]: row for row in job.take_all()}
    scorer = gradus.Scorer(model, profile="plain")
    for row in rows:
        assert {name: done[row["id"]][name] for name in row} == row
        if row["id"] in (0, 5):
            expected = scorer.score(str(row["problem"]), str(row["solution"]))
            assert list(done[row["id"]]["step_scores"]) == expected.scores
            assert done[row["id"]]["score"] == expected.scores[-1]
            assert list(done[row["id"]]["steps"]) == expected.steps
        else:
            assert done[row["id"]]["step_scores"] is None
            assert done[row["id"]]["score"] is None
    assert [done[place]["correct"] for place in range(6)] == [True, None, None, None, None, False]
    verdicts = ["equal", "undecided", None, None, "undecided", "different"]
    assert [done[place]["verdict"] for place in range(6)] == verdicts


def test_steps_and_conversations_score_as_their_text(model: str) -> None:
    steps = ["2 + 3 = 5.", "The answer is 5."]
    question = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 3?"}]
    turn = [{"role": "assistant", "content": "\n\n".join(steps)}]
    table = pyarrow.table({"question": [question, question], "steps": [steps, steps], "turn": [turn, turn]})
    asked = {"model": model, "profile": "plain", "problem": "question", "aggregation": "min"}
    expected = gradus.Scorer(model, profile="plain").score("What is 2 + 3?", steps)
    for column in ("steps", "turn"):
        job = ray.data.from_arrow(table).map_batches(
            ScoreBatches,
            fn_constructor_kwargs={**asked, "solution": column},
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=1),
        )
        for row in job.take_all():
            assert row["step_scores"] == expected.scores
            assert row["score"] == min(expected.scores)


def test_rows_are_counted_and_a_wrong_column_is_named(model: str, caplog: pytest.LogCaptureFixture) -> None:
    score = ScoreBatches(model, profile="plain")
    table = pyarrow.table({"problem": ["What?", "What?"], "solution": ["It is 5.", None]})
    assert score(table)["score"].null_count == 1
    assert score.skipped == 1
    assert "ScoreBatches: 1 of 2 rows have no result" in caplog.text
    empty = score(table.slice(0, 0))
    assert empty.num_rows == 0
    assert empty.schema.field("step_scores").type == pyarrow.list_(pyarrow.float64())
    with pytest.raises(gradus.GradusError, match="no column `solution`: it has problem"):
        score(table.drop_columns("solution"))
    with pytest.raises(gradus.GradusError, match="column `solution` holds bytes"):
        score(pyarrow.table({"problem": ["What?"], "solution": [b"5"]}))


def test_a_model_that_is_not_there_stops_the_job_with_its_sentence() -> None:
    job = ray.data.from_items([{"problem": "What?", "solution": "It is 5."}]).map_batches(
        ScoreBatches, fn_constructor_kwargs={"model": "./nowhere"}, **POOL
    )
    with pytest.raises(ray.exceptions.RayError, match="GradusError: there is no model ./nowhere"):
        job.take_all()


def test_embeddings_equal_the_library(model: str) -> None:
    texts = [f"problem {index}" for index in range(20)]
    job = ray.data.from_items([{"text": text} for text in [*texts, None]]).map_batches(
        EmbedBatches, fn_constructor_kwargs={"model": model, "text": "text"}, batch_size=8, **POOL
    )
    found = {row["text"]: row["embedding"] for row in job.take_all()}
    assert found.pop(None) is None
    expected = gradus.Embedder(model).embed(texts)
    assert [list(found[text]) for text in texts] == expected


@pytest.mark.parametrize("batch_format", FORMATS)
def test_samples_equal_the_command_line(model: str, batch_format: str, tmp_path: Path) -> None:
    rows = [{"problem": f"What is {index} + 3?", "answer": str(index + 3)} for index in range(5)]
    options = {"model": model, "solutions": 3, "max_tokens": 12, "seed": 4}
    file = write_rows(tmp_path / "problems.jsonl", rows)
    gradus.run("sample", file, output=tmp_path / "s.jsonl", jobs=tmp_path / "jobs", progress=False, **options)
    expected = gradus.Dataset.read(tmp_path / "s.jsonl").to_arrow().to_pylist()

    unanswerable = {"problem": "long " * 2_000, "answer": "none"}
    job = ray.data.from_items([*rows, unanswerable]).map_batches(
        SampleBatches, fn_constructor_kwargs=options, batch_size=2, batch_format=batch_format, **POOL
    )
    found = sorted((row["problem"], row["answer"], row["solution"] or "") for row in job.take_all())
    assert len(found) == 16
    wanted = [(row["problem"], row["answer"], row["solution"]) for row in expected]
    assert found == sorted([*wanted, (unanswerable["problem"], "none", "")])


def test_monte_carlo_labels_equal_the_command_line(tmp_path: Path) -> None:
    if "GRADUS_HOME" not in os.environ:
        pytest.skip("GRADUS_HOME does not name a folder with smollm2-135m")
    rows = [
        {"problem": "What is 2 + 3?", "answer": "5", "steps": ["2 + 3 = 5.", "The answer is 5."]},
        {"problem": "What is 2 + 3?", "answer": "5", "steps": ["2 + 3 = 6.", "The answer is 6."]},
        {"problem": "What is 4 + 4?", "answer": "8", "steps": ["4 + 4 = 8."]},
    ]
    options = {"model": "smollm2-135m", "samples": 4, "max_tokens": 24, "labels": "soft"}
    file, target = write_rows(tmp_path / "solutions.jsonl", rows), tmp_path / "labeled.jsonl"
    gradus.run("annotate", "monte-carlo", file, output=target, jobs=tmp_path / "jobs", progress=False, **options)
    expected = {
        tuple(solution["steps"]): solution["annotations"][0]["labels"]
        for record in gradus.Dataset.read(target)
        for solution in record["solutions"]
    }

    no_answer = {"problem": "What is 4 + 4?", "answer": None, "steps": ["It is 8."]}
    job = ray.data.from_items([*rows, no_answer]).map_batches(
        MonteCarloBatches,
        fn_constructor_kwargs={**options, "solution": "steps"},
        batch_size=2,
        batch_format="pyarrow",
        **POOL,
    )
    found = {tuple(row["steps"]): row for row in job.take_all()}
    assert found.pop(("It is 8.",))["step_labels"] is None
    assert found.keys() == expected.keys()
    for steps, labels in expected.items():
        marks = [None if label is None else label["mark"] == "correct" for label in labels]
        assert found[steps]["step_labels"] == marks
        assert found[steps]["step_values"] == [None if label is None else label["value"] for label in labels]
    assert {True, False} <= {label for row in found.values() for label in row["step_labels"]}


def test_ray_is_imported_by_its_own_module_only() -> None:
    code = "import sys, gradus; assert 'ray' not in sys.modules; sys.modules['ray'] = None; import gradus.ray"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: gradus.ray needs Ray Data: pip install 'ray[data]'" in run.stderr


def test_the_guide_is_true(tmp_path: Path) -> None:
    if "GRADUS_HOME" not in os.environ:
        pytest.skip("GRADUS_HOME does not name a folder with gradus-prm and smollm2-135m")
    run_guide("ray", tmp_path)
