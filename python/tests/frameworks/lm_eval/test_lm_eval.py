"""Runs of lm-evaluation-harness with our filters and metrics: GSM8K with recorded solutions, a small model of transformers, and the harness's dummy."""

import json
import logging
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

import gradus
from gradus.lm_eval import ExtractFilter, SelectFilter, gradus_different, gradus_equal, gradus_undecided

sys.path.insert(0, str(Path(__file__).parents[2]))
from guide import run_guide  # noqa: E402

TINY = Path(__file__).parents[4] / "crates" / "engine" / "tests" / "reference" / "models" / "llama"
DATA = Path(os.environ.get("GRADUS_DATA", "no-data")) / "gsm8k"
MODELS = ["6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"]
TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["Question:"], max_gen_toks: 16}}
repeats: 4
filter_list:
  - {{name: first, filter: [{{function: take_first}}]}}
  - {{name: best, filter: [{{function: {select}, by: best}}, {{function: take_first}}]}}
  - {{name: vote, filter: [{{function: gradus_select, by: vote, vote_power: 2, aggregation: min}}, {{function: take_first}}]}}
  - {{name: majority, filter: [{{function: gradus_select, by: majority}}, {{function: take_first}}]}}
metric_list:
  - metric: gradus_equal
  - metric: gradus_different
  - metric: gradus_undecided
"""
pytestmark = pytest.mark.skipif("GRADUS_HOME" not in os.environ, reason="GRADUS_HOME does not name a folder with smollm2-135m")


class RecordedSolutions(LM):
    """A model of the harness that answers each question with the solutions that are recorded for it, in order."""

    def __init__(self, solutions: dict[str, list[str]]) -> None:
        super().__init__()
        self.solutions = solutions

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        asked: Counter[str] = Counter()
        answers = []
        for request in requests:
            question = request.doc["question"]
            answers.append(self.solutions[question][asked[question]])
            asked[question] += 1
        return answers

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def evaluate(folder: Path, data: Path, model: Any, select: str = "gradus_select", **options: Any) -> dict[str, Any]:
    name = f"gradus_{folder.name}"
    (folder / "task.yaml").write_text(TASK.format(name=name, data=data, select=select))
    tasks = TaskManager(include_path=str(folder), include_defaults=False)
    results = simple_evaluate(model, tasks=[name], task_manager=tasks, limit=10, bootstrap_iters=100, **options)
    return {**results["results"][name], "samples": results["samples"][name]}


def test_ten_problems_of_gsm8k(tmp_path: Path) -> None:
    if not DATA.is_dir():
        pytest.skip("GRADUS_DATA does not name a folder with gsm8k/test.jsonl")
    recorded = {}
    for line in (DATA / "example_model_solutions.jsonl").read_text().splitlines():
        row = json.loads(line)
        recorded[row["question"]] = [row[model] for model in MODELS]
    texts = {question: [one["solution"] for one in given] for question, given in recorded.items()}
    results = evaluate(tmp_path, DATA / "test.jsonl", RecordedSolutions(texts))
    print({key: value for key, value in results.items() if "gradus" in key and "stderr" not in key})
    questions = [sample["doc"]["question"] for sample in results["samples"] if sample["filter"] == "first"]
    scorer = gradus.Scorer()
    scores = {question: scorer.score_batch(question, texts[question]) for question in questions}
    for sample in results["samples"]:
        question = sample["doc"]["question"]
        given, candidates, scored = recorded[question], texts[question], scores[question]
        answers = [gradus.extract_answer(text) for text in candidates]
        chosen = {
            "first": 0,
            "best": gradus.select(scores=[one and one.aggregate("last") for one in scored]),
            "vote": gradus.select(
                scores=[one and one.aggregate("min") for one in scored], answers=answers, by="vote", vote_power=2
            ),
            "majority": gradus.select(answers=answers, by="majority"),
        }[sample["filter"]]
        assert sample["filtered_resps"] == [candidates[chosen]]
        # The dataset says itself which solutions are right.
        assert sample["gradus_equal"] == given[chosen]["is_correct"]
        assert sample["gradus_equal"] + sample["gradus_different"] + sample["gradus_undecided"] == 1
    for name in ("first", "best", "vote", "majority"):
        kept = [sample for sample in results["samples"] if sample["filter"] == name]
        assert len(kept) == 10
        assert results[f"gradus_equal,{name}"] == pytest.approx(sum(sample["gradus_equal"] for sample in kept) / 10)
        assert results[f"gradus_equal_stderr,{name}"] != "N/A"


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    rows = [{"question": f"What is {number} + {number}?", "answer": f"#### {2 * number}"} for number in range(1, 11)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_a_model_of_transformers(tmp_path: Path, questions: Path) -> None:
    results = evaluate(tmp_path, questions, "hf", model_args={"pretrained": str(TINY), "device": "cpu", "dtype": "float32"})
    assert len(results["samples"]) == 40
    shares = [results[f"gradus_{verdict},best"] for verdict in ("equal", "different", "undecided")]
    assert sum(shares) == pytest.approx(1)


def test_no_answer_is_undecided_and_not_wrong(tmp_path: Path, questions: Path) -> None:
    results = evaluate(tmp_path, questions, "dummy")
    assert results["gradus_undecided,vote"] == 1
    assert results["gradus_different,vote"] == 0 == results["gradus_equal,vote"]


def test_empty_and_endless_responses(tmp_path: Path, questions: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    right = {row["question"]: f"The answer is {row['answer'].removeprefix('#### ')}." for row in rows}
    # The harness itself cannot grade None; beyond the PRM's context: a model that never stopped.
    texts = {question: ["", " \n", text, "and so on " * 9000] for question, text in right.items()}
    with caplog.at_level(logging.WARNING):
        results = evaluate(tmp_path, questions, RecordedSolutions(texts))
    assert results["gradus_equal,best"] == results["gradus_equal,vote"] == results["gradus_equal,majority"] == 1
    assert results["gradus_equal,first"] == 0
    assert "30 of 40 responses have no score" in caplog.text


def test_the_command_line_with_a_yaml_alone(tmp_path: Path, questions: Path) -> None:
    (tmp_path / "task.yaml").write_text(
        TASK.format(name="gradus_alone", data=questions, select="!function gradus.lm_eval.SelectFilter")
    )
    command = [sys.executable, "-m", "lm_eval", "run", "--model", "dummy", "--tasks", "gradus_alone", "--limit", "2"]
    done = subprocess.run([*command, "--include_path", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "gradus_undecided" in done.stdout and "majority" in done.stdout


def test_answers_for_other_metrics() -> None:
    responses = [["So 2 + 2 = 4.\n#### 4", "no idea", None]]
    assert ExtractFilter().apply(responses, [{}]) == [["4", "[invalid]", "[invalid]"]]
    assert ExtractFilter(fallback="").apply(responses, [{}]) == [["4", "", ""]]


def test_metrics_take_gsm8k_targets_and_bare_answers() -> None:
    assert gradus_equal(["He pays 9 * 2 = 18.\n#### 18"], ["It costs $18.00."]) == 1
    assert gradus_equal(["1/2"], ["\\boxed{0.5}"]) == 1
    assert gradus_different(["18"], ["#### 17"]) == 1
    assert gradus_undecided(["18"], [None]) == 1
    assert gradus_equal(["18"], [["18"]]) == 1
    assert gradus_equal([], []) == 0
    with pytest.raises(gradus.GradusError, match="2 responses left to grade"):
        gradus_equal(["18"], [["18", "19"]])


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(gradus.GradusError, match="none of best, vote and majority"):
        SelectFilter(by="worst")  # type: ignore[arg-type]
    with pytest.raises(gradus.GradusError, match="have no problem or question: name the problem's field .* one of text, gold"):
        SelectFilter().apply([["a"]], [{"text": "What is 1 + 1?", "gold": "2"}])
    with pytest.raises(gradus.GradusError):
        SelectFilter(problem="{{text}}", model="no/such-model").apply([["a"]], [{"text": "What is 1 + 1?"}])
    assert SelectFilter(problem="{{text}}").apply([["1 + 1 = 2", "2"], []], [{"text": "What is 1 + 1?"}] * 2)[1] == [""]
    assert SelectFilter(problem="text").apply([], []) == []
    assert SelectFilter(problem="text").apply([[None, "1 + 1 = 2."]], [{"text": "What is 1 + 1?"}]) == [["1 + 1 = 2."]]


def test_the_guide_runs(tmp_path: Path) -> None:
    run_guide("lm_eval", tmp_path)
