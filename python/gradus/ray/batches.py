"""Classes for `map_batches` of Ray Data: each actor of a pool loads its model once and works through batches.

Batches are dicts of NumPy arrays, pandas frames or pyarrow tables, and stay what they are. A row without a result gets
None in the new columns; such rows are counted in `skipped`, in the log and in the Ray metric `gradus_skipped_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from gradus._gradus import Dataset, Embedder, Generator, GradusError, Scorer, grade_batch
from gradus.columns import Solution, joined, solution_of, text_of, where_known
from gradus.ray.actor import Actor

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from gradus._gradus import Aggregation, EmbedderOptions, ScorerOptions, StrPath

import numpy
import pandas
import pyarrow

__all__ = ["EmbedBatches", "GradeBatches", "MonteCarloBatches", "SampleBatches", "ScoreBatches"]

# A dict of arrays, a pandas.DataFrame or a pyarrow.Table.
Batch: TypeAlias = Any

_TEXT = pyarrow.string()
_NUMBER = pyarrow.float64()
_FLAG = pyarrow.bool_()


class ScoreBatches(Actor):
    """Scores the steps of solutions with a process reward model, as `gradus score` does."""

    def __init__(
        self,
        model: StrPath | None = None,
        *,
        problem: str = "problem",
        solution: str = "solution",
        step_scores: str = "step_scores",
        score: str = "score",
        steps: str | None = None,
        aggregation: Aggregation = "last",
        adapter: StrPath | None = None,
        profile: StrPath | None = None,
        pool: StrPath | None = None,
        device: str | None = None,
        **settings: Unpack[ScorerOptions],
    ) -> None:
        super().__init__()
        self._inputs = problem, solution
        self._outputs = step_scores, score, steps
        self._aggregation: Aggregation = aggregation
        self._scorer = Scorer(model, adapter=adapter, profile=profile, pool=pool, device=device, **settings)

    def __call__(self, batch: Batch) -> Batch:
        problem, solution = self._inputs
        score_all = partial(self._scorer.score_batch, on_error="skip")
        scored = where_known(score_all, _texts(batch, problem), _solutions(batch, solution))
        self.count(scored)
        step_scores, score, steps = self._outputs
        columns = {
            step_scores: (_each(scored, lambda one: one.scores), pyarrow.list_(_NUMBER)),
            score: (_each(scored, lambda one: one.aggregate(self._aggregation)), _NUMBER),
        }
        if steps is not None:
            columns[steps] = (_each(scored, lambda one: one.steps), pyarrow.list_(_TEXT))
        return _with_columns(batch, columns)


class GradeBatches(Actor):
    """Compares the final answers of solutions with the right ones; `correct` is None where it cannot be told."""

    def __init__(
        self,
        *,
        answer: str = "answer",
        solution: str = "solution",
        verdict: str = "verdict",
        correct: str = "correct",
    ) -> None:
        super().__init__()
        self._inputs = answer, solution
        self._outputs = verdict, correct

    def __call__(self, batch: Batch) -> Batch:
        answer, solution = self._inputs
        whole = [joined(solution) for solution in _solutions(batch, solution)]
        grades = where_known(grade_batch, _texts(batch, answer), whole)
        self.count(grades)
        verdict, correct = self._outputs
        columns = {
            verdict: (_each(grades, lambda grade: grade.verdict), _TEXT),
            correct: (_each(grades, lambda grade: grade.correct), _FLAG),
        }
        return _with_columns(batch, columns)


class EmbedBatches(Actor):
    """Embeds the texts of a column, as `gradus embed` does: vectors of length 1."""

    def __init__(
        self,
        model: StrPath | None = None,
        *,
        text: str = "problem",
        embedding: str = "embedding",
        device: str | None = None,
        **settings: Unpack[EmbedderOptions],
    ) -> None:
        super().__init__()
        self._input = text
        self._output = embedding
        self._embedder = Embedder(model, device=device, **settings)

    def __call__(self, batch: Batch) -> Batch:
        vectors = where_known(self._embedder.embed, _texts(batch, self._input))
        self.count(vectors)
        return _with_columns(batch, {self._output: (vectors, pyarrow.list_(_NUMBER))})


class SampleBatches(Actor):
    """Samples solutions to problems, as `gradus sample` does: a row for each solution, with its problem's columns.

    Further options are those of the command, such as `max_tokens=256` or `endpoint="http://localhost:8000"`.
    """

    def __init__(
        self,
        model: StrPath | None = None,
        *,
        solutions: int = 8,
        problem: str = "problem",
        problem_id: str | None = None,
        solution: str = "solution",
        **options: Any,
    ) -> None:
        super().__init__()
        self._inputs = problem, problem_id
        self._output = solution
        self._sampling, settings = split_options(SAMPLE_OPTIONS, options)
        self._sampling["solutions"] = solutions
        self._generator = Generator(model, **settings)

    def __call__(self, batch: Batch) -> Batch:
        problem, name = self._inputs
        named = [_texts(batch, name)] if name is not None else []
        records = where_known(_problem_records, _texts(batch, problem), *named)
        known = Dataset.from_rows({_problem_key(record): record for record in records if record}.values())
        sampled = {
            _problem_key(record): [one["text"] for one in record.get("solutions", [])]
            for record in self._generator.sample(known, on_error="skip", **self._sampling)
        }
        # A problem without solutions keeps one row.
        found = [(sampled.get(_problem_key(record)) or [None]) if record else [None] for record in records]
        self.count([solutions[0] for solutions in found])
        places = [place for place, solutions in enumerate(found) for _ in solutions]
        column = [solution for solutions in found for solution in solutions]
        return _with_columns(_take(batch, places), {self._output: (column, _TEXT)})


class MonteCarloBatches(Actor):
    """Labels steps by rollouts, as `gradus annotate monte-carlo` does: does a step still lead to the right answer?

    `step_labels` are True, False, or None for steps after the first wrong one. `step_values` are the shares of
    rollouts that reach the answer, with the option `labels="soft"`. Further options are those of the command, such as
    `samples=8`.
    """

    def __init__(
        self,
        model: StrPath | None = None,
        *,
        problem: str = "problem",
        solution: str = "solution",
        answer: str = "answer",
        step_labels: str = "step_labels",
        step_values: str = "step_values",
        steps: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._inputs = problem, solution, answer
        self._outputs = step_labels, step_values, steps
        self._labeling, settings = split_options(MONTE_CARLO_OPTIONS, options)
        self._generator = Generator(model, **settings)

    def __call__(self, batch: Batch) -> Batch:
        problem, solution, answer = self._inputs
        inputs = _texts(batch, problem), _solutions(batch, solution), _texts(batch, answer)
        records = where_known(_solution_records, *inputs)
        known = Dataset.from_rows({_solution_key(record): record for record in records if record}.values())
        labeled = {
            (one["problem_id"], one["id"]): one
            for record in self._generator.monte_carlo(known, on_error="skip", **self._labeling)
            for one in record.get("solutions", [])
            if one.get("annotations")
        }
        found = _each(records, lambda record: labeled.get(_solution_key(record)))
        self.count(found)
        step_labels, step_values, steps = self._outputs
        columns = {
            step_labels: (_each(found, _labels), pyarrow.list_(_FLAG)),
            step_values: (_each(found, _values), pyarrow.list_(_NUMBER)),
        }
        if steps is not None:
            columns[steps] = (_each(found, lambda one: one["steps"]), pyarrow.list_(_TEXT))
        return _with_columns(batch, columns)


# What the methods of a generator take; the other options of the commands are the model's.
SAMPLE_OPTIONS = {"solutions", "max_tokens", "temperature", "top_p", "stop", "steps", "prompt", "seed"}
MONTE_CARLO_OPTIONS = {
    "samples", "threshold", "labels", "search", "no_early_stop", "max_tokens", "temperature", "prompt",
    "continue_prompt", "seed",
}  # fmt: skip


def split_options(of_method: set[str], options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of a method of a generator, and those of the model."""
    method = {name: value for name, value in options.items() if name in of_method}
    return method, {name: value for name, value in options.items() if name not in of_method}


def _each(values: Iterable[Any], compute: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else compute(value) for value in values]


# Rows as records.


def _record(format: str, **fields: Any) -> dict[str, Any]:
    """A record in Gradus format. An id that is not given is a hash of the content, as on the command line."""
    return Dataset.from_rows([fields], format=format)[0]


def _problem_records(problems: list[str], names: list[str] | None = None) -> list[dict[str, Any]]:
    if names is None:
        return [_record("problems", problem=problem) for problem in problems]
    return [_record("problems", problem=problem, id=name) for problem, name in zip(problems, names, strict=True)]


def _solution_records(problems: list[str], solutions: list[Solution], answers: list[str]) -> list[dict[str, Any]]:
    return [
        _record("outputs", problem=problem, answer=answer, **{_field(solution): solution})
        for problem, solution, answer in zip(problems, solutions, answers, strict=True)
    ]


def _field(solution: Solution) -> str:
    return "solution" if isinstance(solution, str) else "steps"


def _problem_key(record: Mapping[str, Any]) -> tuple[str, str]:
    return record["problem"]["id"], record["problem"]["text"]


def _solution_key(record: Mapping[str, Any]) -> tuple[str, str]:
    return record["problem"]["id"], record["solutions"][0]["id"]


def _labels(solution: Mapping[str, Any]) -> list[bool | None]:
    labels = solution["annotations"][-1]["labels"]
    return [None if label is None else label["mark"] != "incorrect" for label in labels]


def _values(solution: Mapping[str, Any]) -> list[float | None] | None:
    values = [None if label is None else label.get("value") for label in solution["annotations"][-1]["labels"]]
    return None if all(value is None for value in values) else values


# Batches: dicts of arrays, pandas frames and pyarrow tables.


def _column(batch: Batch, name: str) -> list[Any]:
    names = batch.column_names if isinstance(batch, pyarrow.Table) else list(batch)
    if name not in names:
        known = ", ".join(map(str, names))
        raise GradusError(f"the batch has no column `{name}`: it has {known}; name yours in fn_constructor_kwargs")
    column = batch[name]
    return column.to_pylist() if isinstance(batch, pyarrow.Table) else list(column)


def _with_columns(batch: Batch, columns: Mapping[str, tuple[list[Any], pyarrow.DataType]]) -> Batch:
    """The batch with new columns, or others in place of those that it has."""
    if isinstance(batch, pyarrow.Table):
        for name, (values, kind) in columns.items():
            if name in batch.column_names:
                batch = batch.drop_columns(name)
            batch = batch.append_column(name, pyarrow.array(values, kind))
        return batch
    if isinstance(batch, pandas.DataFrame):
        series = {name: pandas.Series(values, batch.index, object) for name, (values, _) in columns.items()}
        return batch.assign(**series)
    # Lists, because Ray would make tensors of arrays.
    return {**batch, **{name: values for name, (values, _) in columns.items()}}


def _take(batch: Batch, places: list[int]) -> Batch:
    """The rows at these places; a place may come several times."""
    if isinstance(batch, pyarrow.Table):
        return batch.take(pyarrow.array(places, pyarrow.int64()))
    if isinstance(batch, pandas.DataFrame):
        return batch.iloc[places].reset_index(drop=True)
    return {name: values[numpy.array(places, dtype=int)] for name, values in batch.items()}


# Values: texts, numbers, lists of steps and conversations.


def _texts(batch: Batch, name: str) -> list[str | None]:
    return [text_of(value, name) for value in _column(batch, name)]


def _solutions(batch: Batch, name: str) -> list[Solution | None]:
    return [solution_of(value, name) for value in _column(batch, name)]
