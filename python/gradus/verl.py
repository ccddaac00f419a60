"""Rewards for verl: the grader, a process reward model, and step rewards on the tokens where steps end.

verl loads a reward function and a reward manager by path and name, and this module can be the path:

    reward.custom_reward_function.path=pkg://gradus.verl
    reward.custom_reward_function.name=compute_score

    reward.reward_manager.source=importlib
    reward.reward_manager.module.path=pkg://gradus.verl
    reward.reward_manager.name=StepRewardManager

verl puts the reward of a response on its last token; `StepAgentLoop` lets it keep the places of step rewards (trainer V1).
What is left out: the deprecated trainer V0 and tool calls, where a response has one reward still: the sum of its step rewards.
"""

import asyncio
import inspect
import json
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import gradus
from gradus import Grade, GradusError, ScoredSolution, Scorer
from gradus.batching import Collector, score_or_none
from gradus.chat import last_user_message

if TYPE_CHECKING:
    from gradus._gradus import Aggregation, SplitStrategy

try:
    import torch
    from verl import DataProto
    from verl.experimental.agent_loop import AgentLoopOutput
    from verl.experimental.agent_loop.agent_loop import register as register_agent_loop
    from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
    from verl.experimental.reward_loop.reward_manager import register as register_reward_manager
    from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
except ImportError as error:
    raise ImportError(f"gradus.verl needs verl ({error}): pip install verl") from error

__all__ = [
    "ProcessOptions",
    "StepAgentLoop",
    "StepOptions",
    "StepReward",
    "StepRewardManager",
    "compute_process_score",
    "compute_process_score_async",
    "compute_process_scores",
    "compute_score",
    "compute_score_async",
    "compute_scores",
    "step_end_tokens",
]

Score = dict[str, Any]

# Answers


def compute_score(
    data_source: str,
    solution_str: str | None,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    undecided_value: float = 0.0,
    reward_router_address: str | None = None,
    reward_model_tokenizer: Any = None,
) -> Score:
    """Grades the final answer of a solution: score 1 for right, 0 for wrong, and `undecided_value` where neither is sure.

    `undecided` is 1 in the last case, with its `reason`; verl logs the mean. A list of right answers needs one of them.
    """
    grades = [gradus.grade(gold, solution_str or "") for gold in right_answers(ground_truth)]
    return answer_score(grades, undecided_value)


grade_answer = compute_score  # where verl gives another function the name


async def compute_score_async(
    data_source: str,
    solution_str: str | None,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> Score:
    """As `compute_score`, to be awaited: it works in a thread, so that the event loop goes on."""
    return await asyncio.to_thread(compute_score, data_source, solution_str, ground_truth, extra_info, **options)


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str | None],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
    *,
    undecided_value: float = 0.0,
) -> list[Score]:
    """As `compute_score` for a batch, with the arguments of verl's batch reward manager."""
    golds = [right_answers(ground_truth) for ground_truth in ground_truths]
    grades = iter(
        gradus.grade_batch(
            [gold for of_one in golds for gold in of_one],
            [solution or "" for solution, of_one in zip(solution_strs, golds, strict=True) for _ in of_one],
        )
    )
    return [answer_score([next(grades) for _ in of_one], undecided_value) for of_one in golds]


def right_answers(ground_truth: Any) -> list[str]:
    """The answers that count as right; none is an empty text, which the grader leaves undecided."""
    if isinstance(ground_truth, str) or not hasattr(ground_truth, "__iter__"):
        ground_truth = [ground_truth]
    return ["" if gold is None else str(gold) for gold in ground_truth] or [""]


def answer_score(grades: Sequence[Grade], undecided_value: float) -> Score:
    """The score of an answer that was compared with each right one: it has to be equal to one, or different from all."""
    correct = any(grade.correct for grade in grades)
    undecided = not correct and any(grade.correct is None for grade in grades)
    reasons = [grade.reason for grade in grades if grade.reason] if undecided else []
    return {
        "score": undecided_value if undecided else float(correct),
        "acc": float(correct),
        "undecided": float(undecided),
        "pred": grades[0].answer or "",
        "reason": reasons[0] if reasons else "",
    }


# Process scores

Solution = tuple[str, str | Sequence[str]]
SCORERS: dict[str, Collector[Solution, ScoredSolution | None]] = {}
LOADING = threading.Lock()


def scorer_of(settings: Mapping[str, Any] | None) -> Collector[Solution, ScoredSolution | None]:
    """The scorer with these settings, loaded once in a process; it takes the solutions of all threads in few passes."""
    plain = plain_settings(settings or {})
    key = json.dumps(plain, sort_keys=True, default=str)
    with LOADING:
        if key not in SCORERS:
            scorer = Scorer(**plain)
            SCORERS[key] = Collector(
                lambda batch: score_or_none(scorer, [problem for problem, _ in batch], [steps for _, steps in batch])
            )
        return SCORERS[key]


def plain_settings(value: Any) -> Any:
    """Settings of OmegaConf as plain dicts and lists."""
    if isinstance(value, Mapping):
        return {str(name): plain_settings(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain_settings(item) for item in value]
    return value


@dataclass(frozen=True)
class ProcessOptions:
    """How step scores become a score: `process_weight` times their aggregate plus `answer_weight` times the answer's score.

    `scorer` has the arguments of `gradus.Scorer`; `problem_key` names the problem in `extra_info`. A solution that cannot be
    scored (empty, longer than the context) counts as `unscored_value`, and its `unscored` is 1.
    """

    scorer: Mapping[str, Any] | None = None
    problem_key: str = "question"
    aggregation: "Aggregation" = "min"
    process_weight: float = 1.0
    answer_weight: float = 0.0
    undecided_value: float = 0.0
    unscored_value: float = 0.0

    def submit(self, solution: str | None, extra_info: Mapping[str, Any] | None) -> "Future[ScoredSolution | None]":
        """Hands a solution to the scorer."""
        problem = (extra_info or {}).get(self.problem_key)
        if problem is None:
            raise GradusError(
                f"extra_info has no {self.problem_key!r}: name the field with the problem in reward_kwargs.problem_key, "
                "or use gradus.verl.StepRewardManager, which reads the prompt"
            )
        return scorer_of(self.scorer).submit((last_user_message(problem), solution or ""))

    def score(self, answer: Score, scored: ScoredSolution | None) -> Score:
        """Adds the process score to the score of the answer."""
        value = scored.aggregate(self.aggregation) if scored else None
        score = self.answer_weight * answer["score"]
        score += self.process_weight * (self.unscored_value if value is None else value)
        return {**answer, "score": score, **process_info(scored, value)}


def process_info(scored: ScoredSolution | None, value: float | None) -> Score:
    """What verl logs of the steps; it takes numbers and texts, but no lists."""
    return {
        "process_score": 0.0 if value is None else value,
        "unscored": float(value is None),
        "steps": float(len(scored) if scored else 0),
        "step_scores": " ".join(f"{score:.4f}" for score in scored.scores) if scored else "",
    }


def compute_process_score(
    data_source: str,
    solution_str: str | None,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    reward_router_address: str | None = None,
    reward_model_tokenizer: Any = None,
    **options: Any,
) -> Score:
    """Scores the steps of a solution with a process reward model; the options are those of `ProcessOptions`."""
    settings = ProcessOptions(**options)
    future = settings.submit(solution_str, extra_info)
    answer = compute_score(data_source, solution_str, ground_truth, undecided_value=settings.undecided_value)
    return settings.score(answer, future.result())


async def compute_process_score_async(
    data_source: str,
    solution_str: str | None,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    reward_router_address: str | None = None,
    reward_model_tokenizer: Any = None,
    **options: Any,
) -> Score:
    """As `compute_process_score`, to be awaited: verl awaits many at once, and they are scored in few passes."""
    settings = ProcessOptions(**options)
    future = await asyncio.to_thread(settings.submit, solution_str, extra_info)
    answer = await compute_score_async(data_source, solution_str, ground_truth, undecided_value=settings.undecided_value)
    return settings.score(answer, await asyncio.wrap_future(future))


def compute_process_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str | None],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None],
    **options: Any,
) -> list[Score]:
    """As `compute_process_score` for a batch, with the arguments of verl's batch reward manager."""
    settings = ProcessOptions(**options)
    futures = [settings.submit(*pair) for pair in zip(solution_strs, extra_infos, strict=True)]
    answers = compute_scores(data_sources, solution_strs, ground_truths, undecided_value=settings.undecided_value)
    return [settings.score(answer, future.result()) for answer, future in zip(answers, futures, strict=True)]


# Step rewards

StepForm = Literal["score", "gain", "min"]


class StepReward(float):
    """The reward of a response, which is the sum of the rewards of its tokens; it remembers their places."""

    tokens: dict[int, float]

    def __new__(cls, tokens: Mapping[int, float]) -> "StepReward":
        reward = super().__new__(cls, sum(tokens.values()))
        reward.tokens = dict(tokens)
        return reward

    def __reduce__(self) -> tuple[type["StepReward"], tuple[dict[int, float]]]:
        return StepReward, (self.tokens,)

    def place(self, row: torch.Tensor) -> None:
        """Writes the rewards of the tokens into the row of a response."""
        row.zero_()
        for token, reward in self.tokens.items():
            row[token] = reward


def step_end_tokens(tokenizer: Any, token_ids: Sequence[int], ends: Sequence[int]) -> list[int]:
    """The token with which each step is complete, for steps that end at these characters of the decoded tokens.

    The tokens are decoded as they are, since to tokenize their text again may give others.
    """
    text = tokenizer.decode(token_ids, skip_special_tokens=True)

    def decoded(count: int) -> int:
        part: str = tokenizer.decode(token_ids[:count], skip_special_tokens=True)
        # The bytes of a character can lie in several tokens; until the last it is decoded as U+FFFD.
        return len(part if text.startswith(part) else part.rstrip("\ufffd"))

    counts = range(len(token_ids) + 1)
    last = len(token_ids) - 1
    return [min(bisect_left(counts, end, key=decoded) - 1, last) for end in ends]


def step_rewards(scores: Sequence[float], form: StepForm) -> list[float]:
    """The reward of each step: its score, what it adds to the score before, or the lowest score on its step alone."""
    if form == "score":
        return list(scores)
    if form == "gain":
        return [score - before for score, before in zip(scores, [0.0, *scores], strict=False)]
    if form == "min":
        lowest = min(range(len(scores)), key=scores.__getitem__)
        return [score if step == lowest else 0.0 for step, score in enumerate(scores)]
    raise GradusError(f"step_form is {form!r}: it can be score, gain or min")


@dataclass(frozen=True)
class StepOptions:
    """Options of `StepRewardManager`, set in `reward.reward_kwargs`; `scorer` has the arguments of `gradus.Scorer`."""

    scorer: Mapping[str, Any] | None = None
    problem_key: str = "question"
    split: "SplitStrategy" = "auto"
    min_chars: int = 0
    step_form: StepForm = "score"
    step_weight: float = 1.0
    answer_weight: float = 1.0
    undecided_value: float = 0.0


class Response(NamedTuple):
    """A response with its steps and the tokens where they end."""

    arguments: dict[str, Any]  # of compute_score
    problem: str
    steps: list[str]
    step_ends: list[int]
    last_token: int


@register_reward_manager("gradus_steps")
class StepRewardManager(RewardManagerBase):  # type: ignore[misc]
    """Puts a reward on the last token of each step, and the reward of the answer on the last token of the response.

    The answer is graded by `compute_score`, or by the function that `reward.custom_reward_function` names.
    """

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any,
        reward_router_address: str | None = None,
        reward_model_tokenizer: Any = None,
    ) -> None:
        super().__init__(config, tokenizer, compute_score)
        self.options = StepOptions(**plain_settings(config.reward.get("reward_kwargs") or {}))
        self.scorer = scorer_of(self.options.scorer)
        step_rewards([0.0], self.options.step_form)  # A wrong option is refused here, not at the first response.
        if not (config.reward.get("custom_reward_function") or {}).get("path"):
            self.compute_score = partial(grade_answer, undecided_value=self.options.undecided_value)
        self.router = (
            {"reward_router_address": reward_router_address, "reward_model_tokenizer": reward_model_tokenizer}
            if reward_router_address is not None
            else {}
        )

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """The reward of the last response of `data`, and what is logged of it."""
        response = await asyncio.to_thread(self.read_response, data)
        future = self.scorer.submit((response.problem, response.steps)) if response.steps else None
        answer = await self.answer_score(response)
        scored = await asyncio.wrap_future(future) if future else None
        tokens: defaultdict[int, float] = defaultdict(float)
        if scored:
            for token, reward in zip(response.step_ends, step_rewards(scored.scores, self.options.step_form), strict=True):
                tokens[token] += self.options.step_weight * reward
        if response.last_token >= 0:
            tokens[response.last_token] += self.options.answer_weight * answer["score"]
        info = {**answer, **process_info(scored, scored.aggregate("min") if scored else None)}
        return {"reward_score": StepReward(tokens), "reward_extra_info": info}

    def read_response(self, data: DataProto) -> Response:
        """Decodes the last response of `data` and splits it into steps."""
        item = data[-1:][0]
        fields = item.non_tensor_batch
        token_ids = item.batch["responses"]
        # A rollout with several responses pads them, and only `response_len` tells where the last one ends.
        length = fields.get("response_len", item.batch["attention_mask"][-len(token_ids) :].sum())
        token_ids = token_ids[: int(length)].tolist()
        text: str = self.tokenizer.decode(token_ids, skip_special_tokens=True)
        spans = gradus.step_spans(text, self.options.split, min_chars=self.options.min_chars)
        extra_info = fields.get("extra_info")
        extra_info = dict(extra_info) if isinstance(extra_info, Mapping) else {}
        problem = extra_info.get(self.options.problem_key)
        if problem is None:
            problem = fields.get("raw_prompt")
        if problem is None:
            prompt_mask = item.batch["attention_mask"][: len(item.batch["prompts"])].bool()
            problem = self.tokenizer.decode(item.batch["prompts"][prompt_mask].tolist())
        return Response(
            arguments={
                "data_source": fields.get("data_source"),
                "solution_str": text,
                "ground_truth": (fields.get("reward_model") or {}).get("ground_truth"),
                "extra_info": extra_info,
            },
            problem=last_user_message(problem),
            steps=[text[start:end] for start, end in spans],
            step_ends=step_end_tokens(self.tokenizer, token_ids, [end for _, end in spans]),
            last_token=len(token_ids) - 1,
        )

    async def answer_score(self, response: Response) -> Score:
        """The score of the answer, by the grader or by the user's own function."""
        if inspect.iscoroutinefunction(self.compute_score):
            score = await self.compute_score(**response.arguments, **self.router)
        else:
            score = await asyncio.to_thread(self.compute_score, **response.arguments, **self.router)
        return score if isinstance(score, dict) else {"score": float(score), "acc": float(score)}

    @classmethod
    def assemble_rm_scores(cls, data: DataProto, scores: list[float]) -> torch.Tensor:
        """The rewards of a batch, one row for each response and one column for each token."""
        rewards: torch.Tensor = super().assemble_rm_scores(data, [float(score) for score in scores])
        for row, score in zip(rewards, scores, strict=True):
            if isinstance(score, StepReward):
                score.place(row)
        return rewards


class StepAgentLoopOutput(AgentLoopOutput):  # type: ignore[misc]
    """A response whose step rewards stay where they are."""

    def as_dict(self) -> dict[str, Any]:
        """The fields that the trainer gets; `rm_scores` has a reward for each token."""
        fields: dict[str, Any] = super().as_dict()
        if isinstance(self.reward_score, StepReward):
            self.reward_score.place(fields["rm_scores"])
        return fields


@register_agent_loop("gradus_step_agent")
class StepAgentLoop(SingleTurnAgentLoop):  # type: ignore[misc]
    """verl's single-turn rollout, whose step rewards reach the trainer on their tokens."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> StepAgentLoopOutput:
        """Samples one response."""
        output = await super().run(sampling_params, **kwargs)
        with_steps: StepAgentLoopOutput = StepAgentLoopOutput.model_construct(output.model_fields_set, **dict(output))
        return with_steps
