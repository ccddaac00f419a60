"""Evaluations of Inspect with our scorers, on its own mock model with given outputs."""

import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval, score
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample, read_eval_log
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate

import gradus
from gradus.inspect_ai import gradus_grade, gradus_prm

sys.path.insert(0, str(Path(__file__).parents[2]))
from guide import run_guide  # noqa: E402

# Problem, targets, completion, value of the grade.
PROBLEMS: list[tuple[str, str | list[str], str, str]] = [
    ("What is 1/4 + 1/4?", "1/2", "Both are quarters.\n\nTogether they are \\boxed{0.5}.", "C"),
    ("What is 12 * 12?", "144", "12 * 12 = 144.\n\nThe answer is 144.", "C"),
    ("What is 12 * 13?", "156", "12 * 13 = 144 + 13 = 157.\n\nThe answer is 157.", "I"),
    ("Solve x^2 = 4 for positive x.", "2", "x = 2 or x = -2.\n\nThe positive one is $x = 2$.", "C"),
    ("What is half of 7?", ["3.5", "7/2"], "7 / 2 is $\\frac{7}{2}$.\n\n#### \\frac{7}{2}", "C"),
    ("Natalia sold 48 clips, then half as many. How many?", "72", "48 / 2 = 24.\n\n48 + 24 = 72.\n\n#### 72", "C"),
    ("What is 1,000 + 1?", "1001", "It is 1,001.\n\n#### 1,001", "C"),
    ("Name the color of the sky.", "blue", "I would rather not say", "N"),
    ("Say nothing.", "5", "", "N"),
    ("What is 3 - 5?", "-2", "3 - 5 = 2.\n\nThe answer is 2.", "I"),
]
needs_model = pytest.mark.skipif("GRADUS_HOME" not in os.environ, reason="GRADUS_HOME does not name a folder with smollm2-135m")


def mock_model(completions: dict[str, str]) -> Model:
    """Inspect's mock model with these completions. It is told the usage, since counting tokens would download a tokenizer."""

    def answer(messages: list[Any], *_: Any) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", completions[messages[-1].text])
        output.usage = ModelUsage()
        return output

    return get_model("mockllm/model", custom_outputs=answer)


def evaluated(folder: Path, scorers: list[Any], problems: list[tuple[str, str | list[str], str, str]] = PROBLEMS, **options: Any) -> EvalLog:
    """A run of Inspect in which its mock model gives the completions."""
    model = mock_model({problem: completion for problem, _, completion, _ in problems})
    samples = [
        Sample(id=number, input=problem, target=targets, metadata={"problem": problem})
        for number, (problem, targets, *_) in enumerate(problems)
    ]
    task = Task(dataset=samples, solver=generate(), scorer=scorers)
    [log] = eval(task, model=model, log_dir=str(folder), display="none", **options)
    assert log.status == "success", log.error
    return log


def scores_of(log: EvalLog, scorer: str) -> list[Any]:
    samples: list[EvalSample] = sorted(log.samples or [], key=lambda sample: sample.id)
    return [sample.scores[scorer] for sample in samples if sample.scores is not None]


def results_of(log: EvalLog, scorer: str) -> Any:
    assert log.results is not None
    [found] = [one for one in log.results.scores if one.name == scorer]
    return found


@needs_model
def test_ten_problems_with_grader_and_prm(tmp_path: Path) -> None:
    log = evaluated(tmp_path, [gradus_grade(), gradus_prm()])
    assert [one.value for one in scores_of(log, "gradus_grade")] == [value for *_, value in PROBLEMS]
    assert results_of(log, "gradus_grade").metrics["accuracy"].value == pytest.approx(0.6)
    scorer, values = gradus.Scorer(), []
    for (problem, _, completion, _), found in zip(PROBLEMS, scores_of(log, "gradus_prm")):
        if not completion:
            assert math.isnan(found.value) and found.reason == "no_response"
            continue
        expected = scorer.score(problem, completion)
        values.append(expected.aggregate())
        assert found.value == expected.aggregate()
        assert found.metadata["step_scores"] == expected.scores
        assert found.metadata["steps"] == expected.steps
        assert found.metadata["first_error"] == expected.first_error()
        assert found.metadata["scores"] == expected.name
        assert found.answer == gradus.extract_answer(completion)
    results = results_of(log, "gradus_prm")
    print("mean of the PRM's scores:", results.metrics["mean"].value)
    assert results.metrics["mean"].value == pytest.approx(sum(values) / len(values))
    assert (results.scored_samples, results.unscored_samples) == (9, 1)
    # The log on the disk has it all, and can be scored again without the model that answered.
    again = score(read_eval_log(log.location), gradus_prm(aggregation="min", threshold=1.0), action="overwrite", display="none")
    found = scores_of(again, "gradus_prm")[0]
    assert found.value == min(found.metadata["step_scores"])
    assert found.metadata["first_error"] == 0 and "first suspected error" in found.explanation


UNDECIDED = [("How many?", "5 or 6 #### 18", "So it is \\boxed{18}.", "nan"), PROBLEMS[1]]


def test_undecided_is_unscored_unless_it_is_said_to_be_wrong(tmp_path: Path) -> None:
    assert gradus.grade(UNDECIDED[0][1], UNDECIDED[0][2]).verdict == "undecided"  # type: ignore[arg-type]
    log = evaluated(tmp_path, [gradus_grade()], UNDECIDED)
    first, second = scores_of(log, "gradus_grade")
    assert math.isnan(first.value) and first.reason == "undecided" and second.value == "C"
    results = results_of(log, "gradus_grade")
    assert (results.scored_samples, results.unscored_samples) == (1, 1)
    assert results.metrics["accuracy"].value == 1
    wrong = evaluated(tmp_path, [gradus_grade(undecided="incorrect")], UNDECIDED)
    first, _ = scores_of(wrong, "gradus_grade")
    assert (first.value, first.reason) == ("I", "undecided")
    assert results_of(wrong, "gradus_grade").metrics["accuracy"].value == 0.5


@needs_model
def test_what_cannot_be_scored_is_unscored(tmp_path: Path) -> None:
    endless = [("Count.", "5", "and so on " * 9000, ""), ("Again.", "5", " \n ", ""), ("What is 2 + 3?", "5", "2 + 3 = 5.", "")]
    log = evaluated(tmp_path, [gradus_prm(problem="problem")], endless, epochs=2)
    values = scores_of(log, "gradus_prm")
    assert [one.reason for one in values if math.isnan(one.value)] == ["scoring_failed"] * 2 + ["no_response"] * 2
    assert len([one for one in values if not math.isnan(one.value)]) == 2


@needs_model
def test_trio_runs_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trio")
    monkeypatch.setenv("INSPECT_ASYNC_BACKEND", "trio")
    log = evaluated(tmp_path, [gradus_grade(), gradus_prm()], PROBLEMS[:2])
    assert [one.value for one in scores_of(log, "gradus_grade")] == ["C", "C"]


def test_a_model_that_is_not_here_fails_with_its_sentence(tmp_path: Path) -> None:
    task = Task(dataset=[Sample(input="What is 1 + 1?", target="2")], scorer=gradus_prm(model="no/such-model"))
    [log] = eval(task, model=mock_model({"What is 1 + 1?": "2"}), log_dir=str(tmp_path), display="none")
    assert log.status == "error" and "no/such-model" in str(log.error)


@needs_model
def test_the_guide_runs(tmp_path: Path) -> None:
    run_guide("inspect_ai", tmp_path)
