"""Classes for `map_batches` of Ray Data: each actor of a pool loads its model once and works through batches.

>>> import ray
>>> from gradus.ray import ScoreBatches
>>> rows = ray.data.from_items([{"problem": "What is 2 + 3?", "solution": "2 + 3 = 5.\\n\\nThe answer is 5."}])
>>> pool = ray.data.ActorPoolStrategy(size=2)
>>> scored = rows.map_batches(ScoreBatches, batch_size=64, batch_format="pyarrow", compute=pool)
>>> scored.take(1)[0]["step_scores"]
[0.9460879986043461, 0.9949818041223204]

Batches are dicts of NumPy arrays, pandas frames or pyarrow tables, and stay what they are. A row without a result gets
None in the new columns; such rows are counted in `skipped`, in the log and in the Ray metric `gradus_skipped_rows`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from gradus._gradus import Dataset, Embedder, GradusError, Scorer, grade_batch
from gradus.columns import Solution, joined, solution_of, text_of, where_known
from gradus.program import run

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from gradus._gradus import Aggregation, EmbedderOptions, ScorerOptions, StrPath

try:
    import numpy
    import pandas
    import pyarrow
    import ray
    from ray.util.metrics import Counter
except ImportError as error:
    raise ImportError("gradus.ray needs Ray Data: pip install 'ray[data]'") from error

__all__ = ["EmbedBatches", "GradeBatches", "MonteCarloBatches", "SampleBatches", "ScoreBatches"]

# A dict of arrays, a pandas.DataFrame or a pyarrow.Table.
Batch: TypeAlias = Any

_LOG = logging.getLogger(__name__)
_TEXT = pyarrow.string()
_NUMBER = pyarrow.float64()
_FLAG = pyarrow.bool_()


class _Actor:
    """What all the classes share: their part of the node's cores, and a count of rows without a result."""

    def __init__(self) -> None:
        self.skipped = 0
        self._metric = Counter("gradus_skipped_rows", "Rows without a result", ("step",))
        _use_assigned_cores()

    def _count(self, results: Sequence[object]) -> None:
        missing = sum(result is None for result in results)
        if missing:
            self.skipped += missing
            step = type(self).__name__
            self._metric.inc(missing, {"step": step})
            _LOG.warning("%s: %d of %d rows have no result", step, missing, len(results))


class ScoreBatches(_Actor):
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
        self._count(scored)
        step_scores, score, steps = self._outputs
        columns = {
            step_scores: (_each(scored, lambda one: one.scores), pyarrow.list_(_NUMBER)),
            score: (_each(scored, lambda one: one.aggregate(self._aggregation)), _NUMBER),
        }
        if steps is not None:
            columns[steps] = (_each(scored, lambda one: one.steps), pyarrow.list_(_TEXT))
        return _with_columns(batch, columns)


class GradeBatches(_Actor):
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
        self._count(grades)
        verdict, correct = self._outputs
        columns = {
            verdict: (_each(grades, lambda grade: grade.verdict), _TEXT),
            correct: (_each(grades, lambda grade: grade.correct), _FLAG),
        }
        return _with_columns(batch, columns)


class EmbedBatches(_Actor):
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
        self._count(vectors)
        return _with_columns(batch, {self._output: (vectors, pyarrow.list_(_NUMBER))})


class SampleBatches(_Actor):
    """Samples solutions to problems, as `gradus sample` does: a row for each solution, with its problem's columns.

    Further options are those of the command, such as `max_tokens=256` or `endpoint="http://localhost:8000"`. The
    program runs once for each batch and loads a local model each time, so batches should be large.
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
        self._options = {"model": model, "solutions": solutions, **options}

    def __call__(self, batch: Batch) -> Batch:
        problem, name = self._inputs
        named = [_texts(batch, name)] if name is not None else []
        records = where_known(_problem_records, _texts(batch, problem), *named)
        sampled: dict[str, list[str | None]] = {}
        for row in _run(["sample"], records, self._options).to_arrow().to_pylist():
            sampled.setdefault(row["problem_id"], []).append(row["solution"])
        # A problem without solutions keeps one row.
        found = [sampled.get(record["problem"]["id"], [None]) if record else [None] for record in records]
        self._count([solutions[0] for solutions in found])
        places = [place for place, solutions in enumerate(found) for _ in solutions]
        column = [solution for solutions in found for solution in solutions]
        return _with_columns(_take(batch, places), {self._output: (column, _TEXT)})


class MonteCarloBatches(_Actor):
    """Labels steps by rollouts, as `gradus annotate monte-carlo` does: does a step still lead to the right answer?

    `step_labels` are True, False, or None for steps after the first wrong one. `step_values` are the shares of
    rollouts that reach the answer, with the option `labels="soft"`. Further options are those of the command, such as
    `samples=8`; the program runs once for each batch and loads a local model each time, so batches should be large.
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
        self._options = {"model": model, **options}

    def __call__(self, batch: Batch) -> Batch:
        problem, solution, answer = self._inputs
        inputs = _texts(batch, problem), _solutions(batch, solution), _texts(batch, answer)
        records = where_known(_solution_records, *inputs)
        labeled = {
            (one["problem_id"], one["id"]): one
            for record in _run(["annotate", "monte-carlo"], records, self._options)
            for one in record.get("solutions", [])
            if one.get("annotations")
        }
        found = _each(records, lambda record: labeled.get(_key(record)))
        self._count(found)
        step_labels, step_values, steps = self._outputs
        columns = {
            step_labels: (_each(found, _labels), pyarrow.list_(_FLAG)),
            step_values: (_each(found, _values), pyarrow.list_(_NUMBER)),
        }
        if steps is not None:
            columns[steps] = (_each(found, lambda one: one["steps"]), pyarrow.list_(_TEXT))
        return _with_columns(batch, columns)


def _use_assigned_cores() -> None:
    """Computes with as many threads as Ray assigned cores, so that the actors of a node do not fight for them."""
    here = ray.get_runtime_context() if ray.is_initialized() else None
    if here is None or here.get_actor_id() is None:
        return
    assigned: dict[str, float] = here.get_assigned_resources()  # type: ignore[no-untyped-call]
    cores = int(assigned.get("CPU", 0))
    if cores > 0:
        os.environ.setdefault("RAYON_NUM_THREADS", str(cores))


def _each(values: Iterable[Any], compute: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else compute(value) for value in values]


# The program: it reads a file of records and writes another.


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


def _key(record: Mapping[str, Any]) -> tuple[str, str]:
    return record["problem"]["id"], record["solutions"][0]["id"]


def _run(command: Sequence[str], records: Iterable[dict[str, Any] | None], options: Mapping[str, Any]) -> Dataset:
    """Runs a command on records, each of them once. Those that fail are missing in what it returns."""
    lines = dict.fromkeys(json.dumps(record) for record in records if record is not None)
    if not lines:
        return Dataset.from_rows([])
    with TemporaryDirectory(prefix="gradus-") as folder:
        source, target, jobs = (Path(folder, name) for name in ("batch.jsonl", "done.jsonl", "jobs.sqlite"))
        source.write_text("\n".join(lines), encoding="utf-8")
        run(*command, source, output=target, jobs=jobs, skip_failed=True, progress=False, **options)
        return Dataset.read(target)


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
