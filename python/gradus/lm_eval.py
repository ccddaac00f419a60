"""Our grader and our PRM in tasks of lm-evaluation-harness: import this module, and name them in a task's YAML.

```yaml
repeats: 4
filter_list:
  - name: best-of-4                # the response whose steps the PRM scores best
    filter:
      - {function: gradus_select, by: best}
      - {function: take_first}
metric_list:
  - metric: gradus_equal           # share of responses that are surely right
  - metric: gradus_undecided       # share of responses that the grader cannot decide
```

On the command line, where nothing imports it, a YAML does so with `!function gradus.lm_eval.SelectFilter` instead of a
name; all names are known then.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from gradus._gradus import GradusError, Scorer, aggregate, extract_answer, grade, select

if TYPE_CHECKING:
    from gradus._gradus import Aggregation

try:
    from lm_eval.api.filter import Filter
    from lm_eval.api.registry import register_filter, register_metric
    from lm_eval.utils import apply_template
    from tqdm import tqdm
except ImportError as missing:
    raise ImportError(f"gradus.lm_eval needs lm-evaluation-harness (pip install lm_eval): {missing}") from missing

__all__ = ["ExtractFilter", "SelectFilter", "gradus_different", "gradus_equal", "gradus_undecided"]

logger = logging.getLogger(__name__)

Document = Mapping[str, Any]


@register_filter("gradus_extract")
class ExtractFilter(Filter):  # type: ignore[misc]
    """The final answer of each response, or `fallback`, for metrics that compare texts."""

    def __init__(self, fallback: str = "[invalid]") -> None:
        self.fallback = fallback

    def apply(self, resps: Iterable[Sequence[str | None]], docs: Sequence[Document]) -> list[list[str]]:
        return [[extract_answer(response or "") or self.fallback for response in responses] for responses in resps]


@register_filter("gradus_select")
class SelectFilter(Filter):  # type: ignore[misc]
    """One of each problem's responses: the best by the PRM, or of the answer with the most votes; `take_first` follows.

    `by` is best, vote (each answer with the sum of its scores) or majority (no PRM). `problem` is the problem's field, or
    a Jinja template over the document. Further settings are those of `gradus.Scorer`.
    """

    def __init__(
        self,
        by: Literal["best", "vote", "majority"] = "best",
        problem: str | None = None,
        aggregation: "Aggregation" = "last",
        vote_power: float = 1.0,
        **settings: Any,
    ) -> None:
        if by not in ("best", "vote", "majority"):
            raise GradusError(f"filter gradus_select: `by: {by}` is none of best, vote and majority")
        self.by = by
        self.problem = problem
        self.aggregation = aggregation
        self.vote_power = vote_power
        self.settings = settings

    def apply(self, resps: Iterable[Sequence[str | None]], docs: Sequence[Document]) -> list[list[str]]:
        candidates = [[response or "" for response in responses] for responses in resps]
        scores = self._scores(candidates, docs)
        return [[self._chosen(*problem)] for problem in zip(candidates, scores)]

    def _scores(self, candidates: list[list[str]], docs: Sequence[Document]) -> list[list[float | None]]:
        if self.by == "majority":
            return [[None] * len(responses) for responses in candidates]
        pairs = [
            (_problem(doc, self.problem), response) for doc, responses in zip(docs, candidates) for response in responses
        ]
        of_pairs = iter(_scored_steps(json.dumps(self.settings, sort_keys=True)).of(pairs))
        each = [[next(of_pairs) for _ in responses] for responses in candidates]
        return [
            [aggregate(steps, self.aggregation) if steps is not None else None for steps in responses] for responses in each
        ]

    def _chosen(self, responses: list[str], scores: list[float | None]) -> str:
        answers = None if self.by == "best" else [extract_answer(response) for response in responses]
        given = None if self.by == "majority" else scores
        chosen = select(scores=given, answers=answers, by=self.by, vote_power=self.vote_power) if responses else None
        return responses[chosen or 0] if responses else ""


@register_metric(metric="gradus_equal", higher_is_better=True, aggregation="mean")
def gradus_equal(references: Sequence[str], predictions: Sequence[str]) -> float:
    """The share of responses whose final answer surely equals the right one."""
    return _share("equal", references, predictions)


@register_metric(metric="gradus_different", higher_is_better=False, aggregation="mean")
def gradus_different(references: Sequence[str], predictions: Sequence[str]) -> float:
    """The share of responses whose final answer surely differs from the right one."""
    return _share("different", references, predictions)


@register_metric(metric="gradus_undecided", higher_is_better=False, aggregation="mean")
def gradus_undecided(references: Sequence[str], predictions: Sequence[str]) -> float:
    """The share of responses that have no final answer, or one that cannot be compared with the right one."""
    return _share("undecided", references, predictions)


def _share(verdict: str, references: Sequence[str], predictions: Sequence[str]) -> float:
    verdicts = [grade(_gold(gold), _one(response)).verdict for gold, response in zip(references, predictions)]
    return verdicts.count(verdict) / max(len(verdicts), 1)  # type: ignore[arg-type]


def _gold(reference: str) -> str:
    """The right answer; GSM8K's targets are whole solutions, with the answer after `####`."""
    return str(reference).rpartition("####")[2].strip()


def _one(prediction: str | None | Sequence[str | None]) -> str:
    if prediction is None or isinstance(prediction, str):
        return prediction or ""
    if len(prediction) != 1:
        raise GradusError(
            f"a problem has {len(prediction)} responses left to grade: end its filter with gradus_select and take_first"
        )
    return prediction[0] or ""


def _problem(doc: Document, field: str | None) -> str:
    if field is not None and "{{" in field:
        return str(apply_template(field, dict(doc)))
    for name in (field,) if field is not None else ("problem", "question"):
        if name in doc:
            return str(doc[name])
    known = ", ".join(doc)
    raise GradusError(
        f"filter gradus_select: the documents have no {field or 'problem or question'}: "
        f"name the problem's field with `problem:`, one of {known}"
    )


class _StepScores:
    """A PRM with the scores that it has given: several filters look at the same responses."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.known: dict[tuple[str, str], list[float] | None] = {}

    def of(self, pairs: Sequence[tuple[str, str]]) -> list[list[float] | None]:
        """The scores of the steps of each response to its problem; None for one that cannot be scored."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.known]
        with tqdm(total=len(new), desc=f"Scoring with {self.scorer.model}", disable=not new) as bar:
            for start in range(0, len(new), _BATCH):
                batch = new[start : start + _BATCH]
                problems, responses = [problem for problem, _ in batch], [response for _, response in batch]
                scored = self.scorer.score_batch(problems, responses, on_error="skip")
                self.known.update(zip(batch, (None if one is None else one.scores for one in scored)))
                bar.update(len(batch))
        scores = [self.known[pair] for pair in pairs]
        if unscored := scores.count(None):
            logger.warning(
                "%d of %d responses have no score, since they are empty or too long: they are chosen last",
                unscored,
                len(scores),
            )
        return scores


_BATCH = 256


@lru_cache(maxsize=2)
def _scored_steps(settings: str) -> _StepScores:
    """The PRM with these settings of `gradus.Scorer`, loaded once."""
    return _StepScores(Scorer(**json.loads(settings)))
