"""Steps for distilabel pipelines: one scores the steps of solutions, one grades their final answers.

>>> from distilabel.pipeline import Pipeline
>>> from distilabel.steps import LoadDataFromDicts
>>> from gradus.distilabel import GradeAnswers, ScoreSolutions
>>> with Pipeline() as pipeline:
...     rows = [{"instruction": "What is 2 + 3?", "generation": "2 + 3 = 5.", "answer": "5"}]
...     LoadDataFromDicts(data=rows) >> ScoreSolutions() >> GradeAnswers()
>>> pipeline.run()["default"]["train"][0]["correct"]
True

The columns are those of distilabel's `TextGeneration`; `input_mappings` and `output_mappings` take others. A row
without a result gets None in the new columns, and such rows are counted in the log.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from gradus._gradus import GradusError, Scorer, grade_batch
from gradus.columns import joined, solution_of, text_of, where_known

try:
    # distilabel 1.5 imports requests, but does not require it.
    import requests  # noqa: F401
    from distilabel.steps import Step, StepInput
    from pydantic import PrivateAttr
except ImportError as error:
    raise ImportError("gradus.distilabel needs distilabel: pip install distilabel requests") from error

if TYPE_CHECKING:
    from distilabel.typing import StepColumns, StepOutput

__all__ = ["GradeAnswers", "ScoreSolutions"]


class ScoreSolutions(Step):  # type: ignore[misc]
    """Scores the steps of solutions with a process reward model, as `gradus score` does.

    Attributes:
        model: reward model: a name, a folder or a `.gguf` file. Defaults to `gradus-prm`.
        adapter: LoRA adapter folder. Defaults to `None`.
        profile: scoring profile: a built-in name or a `.toml` file. Defaults to the model's own.
        pool: pool of solved problems from which references are retrieved. Defaults to `None`.
        device: `cpu`, `cuda`, `cuda:N` or `metal`. Defaults to `cpu`.
        aggregation: how one number is made of the scores of steps. Defaults to `last`.
        settings: further options of `gradus.Scorer`, such as `{"endpoint": "http://localhost:8000"}`.

    Input columns:
        - instruction (`str`): the problem, or a conversation that ends with it.
        - generation (`str`): the solution; or its steps, or a conversation that ends with it.

    Output columns:
        - steps (`list[str]`): the steps that were scored.
        - step_scores (`list[float]`): for each step, how probable it is that it and all before it are right.
        - score (`float`): one number for the solution.

    Categories:
        - scorer
    """

    model: str | None = None
    adapter: str | None = None
    profile: str | None = None
    pool: str | None = None
    device: str | None = None
    aggregation: Literal["last", "min", "product", "mean", "norm_product"] = "last"
    settings: dict[str, Any] = {}

    _scorer: Scorer | None = PrivateAttr(None)

    @property
    def inputs(self) -> "StepColumns":
        return ["instruction", "generation"]

    @property
    def outputs(self) -> "StepColumns":
        return ["steps", "step_scores", "score"]

    def load(self) -> None:
        super().load()
        self._scorer = Scorer(
            self.model,
            adapter=self.adapter,
            profile=self.profile,
            pool=self.pool,
            device=self.device,
            **self.settings,
        )

    def unload(self) -> None:
        self._scorer = None
        super().unload()

    def process(self, inputs: StepInput) -> "StepOutput":
        scorer = self._scorer
        if scorer is None:
            raise GradusError(f"step {self.name} is not loaded: call load() before process()")
        problems = [text_of(row["instruction"], "instruction") for row in inputs]
        solutions = [solution_of(row["generation"], "generation") for row in inputs]
        scored = where_known(partial(scorer.score_batch, on_error="skip"), problems, solutions)
        for row, one in zip(inputs, scored, strict=True):
            row["steps"] = None if one is None else one.steps
            row["step_scores"] = None if one is None else one.scores
            row["score"] = None if one is None else one.aggregate(self.aggregation)
        _warn_of_missing(self, scored)
        yield inputs


class GradeAnswers(Step):  # type: ignore[misc]
    """Compares the final answers of solutions with the right ones.

    Input columns:
        - answer (`str`): the right answer.
        - generation (`str`): the solution; or its steps, or a conversation that ends with it.

    Output columns:
        - verdict (`str`): `equal`, `different` or `undecided`.
        - correct (`bool`): whether the answer is right; None where it cannot be told.

    Categories:
        - scorer
    """

    @property
    def inputs(self) -> "StepColumns":
        return ["answer", "generation"]

    @property
    def outputs(self) -> "StepColumns":
        return ["verdict", "correct"]

    def process(self, inputs: StepInput) -> "StepOutput":
        answers = [text_of(row["answer"], "answer") for row in inputs]
        solutions = [joined(solution_of(row["generation"], "generation")) for row in inputs]
        grades = where_known(grade_batch, answers, solutions)
        for row, grade in zip(inputs, grades, strict=True):
            row["verdict"] = None if grade is None else grade.verdict
            row["correct"] = None if grade is None else grade.correct
        _warn_of_missing(self, grades)
        yield inputs


def _warn_of_missing(step: Step, results: Sequence[object]) -> None:
    missing = sum(result is None for result in results)
    if missing:
        step._logger.warning("Step '%s': %d of %d rows have no result", step.name, missing, len(results))
