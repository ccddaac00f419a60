"""Our grader and our PRM as scorers of Inspect.

>>> from inspect_ai import Task, eval
>>> from inspect_ai.dataset import Sample
>>> from gradus.inspect_ai import gradus_grade, gradus_prm
>>> task = Task(dataset=[Sample(input="What is 1/4 + 1/4?", target="1/2")], scorer=[gradus_grade(), gradus_prm()])
>>> eval(task, model="openai/gpt-5")
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from threading import Lock
from typing import Literal, TypeAlias

from gradus._gradus import Grade, ScoredSolution, extract_answer, grade
from gradus._gradus import Scorer as StepScorer

try:
    from anyio import to_thread
    from inspect_ai.scorer import CORRECT, INCORRECT, NOANSWER, Score, Scorer, Target, accuracy, mean, scorer, stderr
    from inspect_ai.solver import TaskState
except ImportError as missing:
    raise ImportError(f"gradus.inspect_ai needs Inspect (pip install inspect-ai): {missing}") from missing

__all__ = ["gradus_grade", "gradus_prm"]

Aggregation: TypeAlias = Literal["last", "min", "product", "mean", "norm_product"]


@scorer(metrics=[accuracy(), stderr()])
def gradus_grade(undecided: Literal["unscored", "incorrect"] = "unscored") -> Scorer:
    """Compares the final answer of a completion with the targets, of which one must be equal.

    A completion without a final answer is NOANSWER. One that the grader cannot decide is unscored: Inspect leaves it out
    of the accuracy and counts it apart. `undecided="incorrect"` counts it as wrong.
    """

    async def score(state: TaskState, target: Target) -> Score:
        completion = state.output.completion
        grades = [grade(gold, completion) for gold in target]
        best = next((one for verdict in _ORDER for one in grades if one.verdict == verdict), None)
        if best is None or best.answer is None:
            reason = "invalid_response_format" if completion.strip() else "no_response"
            return Score(value=NOANSWER, reason=reason, explanation=_why(best))
        if best.correct is None and undecided == "unscored":
            return Score.unscored(reason=UNDECIDED, answer=best.answer, explanation=_why(best))
        return Score(
            value=CORRECT if best else INCORRECT,
            reason=UNDECIDED if best.correct is None else None,
            answer=best.answer,
            explanation=_why(best),
            metadata={"verdict": best.verdict},
        )

    return score


@scorer(metrics=[mean(), stderr()])
def gradus_prm(
    model: str | None = None,
    aggregation: Aggregation = "last",
    threshold: float | None = None,
    problem: str | None = None,
    adapter: str | None = None,
    profile: str | None = None,
    device: str | None = None,
) -> Scorer:
    """Scores every step of a completion with a process reward model; the value is their aggregate.

    The metadata has the steps, their scores, and the first error by the rule of the model's profile, or the first step
    below `threshold`, from 0. `problem` names the sample's
    metadata that holds the problem, where the input is more than that. What cannot be scored is unscored.
    """

    async def score(state: TaskState, target: Target) -> Score:
        completion = state.output.completion
        if not completion.strip():
            return Score.unscored(reason="no_response", explanation="the completion is empty")
        text = state.input_text if problem is None else str(state.metadata[problem])
        settings = (model, adapter, profile, device)
        scored = await to_thread.run_sync(partial(_scored, settings, text, completion))
        if scored is None:
            return Score.unscored(
                reason="scoring_failed", explanation="the completion has no steps, or is beyond the PRM's context"
            )
        first_error = scored.first_error(threshold)
        return Score(
            value=scored.aggregate(aggregation) or 0.0,
            answer=extract_answer(completion),
            explanation=_lines(scored, first_error),
            metadata={
                "steps": scored.steps,
                "step_scores": scored.scores,
                "first_error": first_error,
                "scores": scored.name,
            },
        )

    return score


UNDECIDED = "undecided"

# With several targets, one that is equal decides, and one that cannot be compared forbids to say wrong.
_ORDER = ("equal", "undecided", "different")


def _why(decided: Grade | None) -> str:
    if decided is None:
        return "the sample has no target"
    return decided.reason or f"the answer is {decided.verdict}"


def _lines(scored: ScoredSolution, first_error: int | None) -> str:
    """The steps with their scores, one per line."""
    marks = (" ← first suspected error" if number == first_error else "" for number in range(len(scored)))
    return "\n".join(f"{score:.2f}  {step}{mark}" for score, step, mark in zip(scored.scores, scored.steps, marks))


_Settings = tuple[str | None, str | None, str | None, str | None]
_loading = Lock()


@lru_cache(maxsize=2)
def _opened(settings: _Settings) -> StepScorer:
    model, adapter, profile, device = settings
    return StepScorer(model, adapter=adapter, profile=profile, device=device)


def _scored(settings: _Settings, problem: str, solution: str | Sequence[str]) -> ScoredSolution | None:
    """None for a solution that cannot be scored. Samples wait for one loading; then they share passes."""
    with _loading:
        prm = _opened(settings)
    return prm.score_batch([problem], [solution], on_error="skip")[0]
