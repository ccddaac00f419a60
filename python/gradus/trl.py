"""Reward functions and step-level advantages for TRL's GRPO trainer.

    import gradus
    from gradus.trl import OutcomeReward, StepGRPOTrainer
    from trl import GRPOConfig

    trainer = StepGRPOTrainer(
        model="Qwen/Qwen2.5-0.5B-Instruct",
        reward_funcs=OutcomeReward(answer="answer"),  # is the final answer right?
        step_scorer=gradus.Scorer(),                  # is each step right?
        args=GRPOConfig(output_dir="out"),
        train_dataset=dataset,                        # columns: prompt, answer
    )
    trainer.train()

`OutcomeReward` and `PrmReward` also work in `trl.GRPOTrainer` itself, one number for a completion.
`StepGRPOTrainer` gives every token the credit of the steps from its own to the last, in one of two forms:

- "sum", process supervision of DeepSeekMath (arXiv 2402.03300). The scores s of all steps of a group are
  normalized together, and summed from the token's step j on: A = Σ_{i ≥ j} (s_i − mean) / std.
- "min", PURE (arXiv 2504.15275). With r = 2s − 1, a step counts by how close it is to the worst of its solution:
  r*_i = r_i · softmax(−r / temperature)_i. The baseline b is the mean r* per token of the other completions of the group,
  and n_i the tokens of a step: A = Σ_{i ≥ j} (r*_i − b · n_i).

The advantage of the outcome, where reward functions are given, is added to all tokens of a completion.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import torch

import gradus
from gradus import critic

if TYPE_CHECKING:
    from gradus._gradus import Aggregation, SplitStrategy

try:
    from trl import GRPOTrainer
except ImportError as error:
    raise ImportError(f"gradus.trl needs TRL: pip install 'trl>=1.16' ({error})") from error

__all__ = ["AsyncPrmReward", "Credit", "CriticReward", "OutcomeReward", "PrmReward", "StepGRPOTrainer", "StepScorer"]

Credit: TypeAlias = Literal["sum", "min"]
Scores: TypeAlias = list[list[float] | None]
"""The scores of each completion's steps, or None for a completion that cannot be scored."""

ScoreSteps: TypeAlias = Callable[[list[str], list[list[str]]], Sequence[Sequence[float] | None]]
StepScorer: TypeAlias = gradus.Scorer | ScoreSteps
"""A `gradus.Scorer`, or a function `(problems, steps of each solution) -> scores of each solution's steps, or None`."""

AsyncScoreSteps: TypeAlias = Callable[[list[str], list[list[str]]], Awaitable[Sequence[Sequence[float] | None]]]
LogMetric: TypeAlias = Callable[[str, float], None]
LogExtra: TypeAlias = Callable[[str, list[Any]], None]


# Reward functions


class OutcomeReward:
    """Rewards a right final answer; the gold answer is in a column of the dataset.

    A grade that is undecided gives None, which TRL leaves out of the group, and is logged as `outcome/undecided`.
    A completion that states no final answer is not undecided: it gets `no_answer`.
    """

    def __init__(
        self,
        answer: str = "answer",
        *,
        correct: float = 1.0,
        wrong: float = 0.0,
        no_answer: float | None = 0.0,
        undecided: float | None = None,
        name: str = "outcome",
    ) -> None:
        self.answer = answer
        self.correct = correct
        self.wrong = wrong
        self.no_answer = no_answer
        self.undecided = undecided
        self.__name__ = name

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Any] | None = None,
        trainer_state: Any = None,
        log_extra: LogExtra | None = None,
        log_metric: LogMetric | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """One reward for each completion."""
        golds = ["" if gold is None else str(gold) for gold in _column(columns, self.answer, self.__name__)]
        grades = gradus.grade_batch(golds, [_text(completion) for completion in completions])
        verdicts = [
            "no answer" if gold.strip() and grade.answer is None else grade.verdict
            for gold, grade in zip(golds, grades, strict=True)
        ]
        if log_extra is not None:
            log_extra(f"{self.__name__}_verdict", verdicts)
        if log_metric is not None and verdicts:
            log_metric(f"{self.__name__}/undecided", verdicts.count("undecided") / len(verdicts))
            log_metric(f"{self.__name__}/no_answer", verdicts.count("no answer") / len(verdicts))
        rewards = {
            "equal": self.correct,
            "different": self.wrong,
            "no answer": self.no_answer,
            "undecided": self.undecided,
        }
        return [rewards[verdict] for verdict in verdicts]


class CriticReward:
    """Rewards a critique by the rule of `gradus train grpo` (`gradus.critic`).

    The dataset has the solution's steps in a column, and in another the 0-based first wrong one, or None.
    """

    def __init__(self, steps: str = "steps", truth: str = "truth", *, name: str = "critic") -> None:
        self.steps = steps
        self.truth = truth
        self.__name__ = name

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_metric: LogMetric | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """One reward for each completion."""
        steps = _column(columns, self.steps, self.__name__)
        truths = _column(columns, self.truth, self.__name__)
        parsed = [critic.parse(_text(text), len(own)) for text, own in zip(completions, steps, strict=True)]
        if log_metric is not None and parsed:
            undecided = sum(one.verdict is None for one in parsed) / len(parsed)
            right = [one.verdict == ("correct" if truth is None else "wrong") for one, truth in zip(parsed, truths)]
            log_metric(f"{self.__name__}/undecided", undecided)
            log_metric(f"{self.__name__}/verdict_accuracy", fmean(right))
        return [critic.reward(one, truth, own) for one, truth, own in zip(parsed, truths, steps, strict=True)]


class _PrmReward:
    """What the reward of a PRM is, however it is called."""

    def __init__(
        self,
        scorer: Any,
        aggregation: Aggregation = "min",
        *,
        split: SplitStrategy = "auto",
        problem: str | None = None,
        name: str = "prm",
    ) -> None:
        self.scorer = scorer
        self.aggregation = aggregation
        self.split = split
        self.problem = problem
        self.__name__ = name

    def _asked(
        self, prompts: Sequence[Any], completions: Sequence[Any], columns: dict[str, Any]
    ) -> tuple[list[str], list[list[str]]]:
        problems = _problems(prompts, columns, self.problem, self.__name__)
        return problems, [gradus.split_steps(_text(completion), self.split) for completion in completions]

    def _rewards(self, scores: Scores, log_metric: LogMetric | None) -> list[float | None]:
        if log_metric is not None and scores:
            log_metric(f"{self.__name__}/unscored", scores.count(None) / len(scores))
        return [None if some is None else gradus.aggregate(some, self.aggregation) for some in scores]


class PrmReward(_PrmReward):
    """Rewards a completion with the aggregated scores of its steps.

    A completion that cannot be scored gives None, which TRL leaves out of the group, and is logged as `prm/unscored`.
    An empty completion gets 0: no policy should learn to say nothing.
    """

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Any] | None = None,
        trainer_state: Any = None,
        log_extra: LogExtra | None = None,
        log_metric: LogMetric | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """One reward for each completion."""
        problems, steps = self._asked(prompts, completions, columns)
        return self._rewards(score_steps(self.scorer, problems, steps), log_metric)


class AsyncPrmReward(_PrmReward):
    """As `PrmReward`, awaited by TRL together with other rewards: for a scorer behind servers, or an async function."""

    async def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Any] | None = None,
        trainer_state: Any = None,
        log_extra: LogExtra | None = None,
        log_metric: LogMetric | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """One reward for each completion."""
        problems, steps = self._asked(prompts, completions, columns)
        return self._rewards(await score_steps_async(self.scorer, problems, steps), log_metric)


def _column(columns: dict[str, Any], name: str, reward: str) -> Sequence[Any]:
    if name not in columns:
        known = ", ".join(sorted(columns)) or "none"
        raise ValueError(
            f"{reward} needs the column `{name}` of the dataset, which has the columns {known}: name another"
        )
    column: Sequence[Any] = columns[name]
    return column


def _problems(prompts: Sequence[Any], columns: dict[str, Any], column: str | None, reward: str) -> list[str]:
    """The problem of each prompt: a column of the dataset, the last message of the user, or the prompt itself."""
    if column is not None:
        return [str(problem) for problem in _column(columns, column, reward)]
    return [prompt if isinstance(prompt, str) else _last(_contents(prompt, "user")) for prompt in prompts]


def _text(completion: Any) -> str:
    """The text of a completion, plain or conversational; what the model said between calls of tools is joined."""
    if completion is None or isinstance(completion, str):
        return completion or ""
    return "\n\n".join(_contents(completion, "assistant"))


def _contents(messages: Sequence[dict[str, Any]], role: str) -> list[str]:
    contents = [message.get("content") for message in messages if message.get("role") == role]
    return [_content(content) for content in contents if content]


def _content(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def _last(texts: list[str]) -> str:
    return texts[-1] if texts else ""


# Scores of steps


def score_steps(scorer: StepScorer, problems: list[str], steps: list[list[str]]) -> Scores:
    """Scores the steps of each solution; a solution without steps counts as one step with the score 0."""
    asked = [index for index, some in enumerate(steps) if some]
    some_problems, some_steps = [problems[index] for index in asked], [steps[index] for index in asked]
    if not asked:
        answers: Sequence[Sequence[float] | None] = []
    elif isinstance(scorer, gradus.Scorer):
        scored = scorer.score_batch(some_problems, some_steps, on_error="skip")
        answers = [None if one is None else one.scores for one in scored]
    else:
        answers = scorer(some_problems, some_steps)
    return _with_empty(steps, asked, answers)


async def score_steps_async(
    scorer: StepScorer | AsyncScoreSteps, problems: list[str], steps: list[list[str]]
) -> Scores:
    """As `score_steps`; an async function is awaited, another one runs in a thread."""
    asked = [index for index, some in enumerate(steps) if some]
    some_problems, some_steps = [problems[index] for index in asked], [steps[index] for index in asked]
    if not asked:
        answers: Any = []
    elif isinstance(scorer, gradus.Scorer):
        scored = await scorer.score_batch_async(some_problems, some_steps, on_error="skip")
        answers = [None if one is None else one.scores for one in scored]
    else:
        answers = await asyncio.to_thread(scorer, some_problems, some_steps)
        if inspect.isawaitable(answers):
            answers = await answers
    return _with_empty(steps, asked, answers)


def _with_empty(steps: list[list[str]], asked: list[int], answers: Sequence[Sequence[float] | None]) -> Scores:
    if len(answers) != len(asked):
        raise ValueError(
            f"the step scorer gave {len(answers)} lists of scores for {len(asked)} solutions: give one for each"
        )
    scores: Scores = [[0.0] for _ in steps]
    for index, answer in zip(asked, answers, strict=True):
        if answer is not None and len(answer) != len(steps[index]):
            found = f"{len(answer)} scores for the {len(steps[index])} steps"
            raise ValueError(f"the step scorer gave {found} of a solution: give one for each, or None for the solution")
        known = answer if answer is not None and all(map(math.isfinite, answer)) else None
        scores[index] = None if known is None else [float(score) for score in known]
    return scores


# Advantages of steps: each function takes one group, and gives each step of each completion its advantage.


def sum_advantages(scores: Scores) -> list[list[float]]:
    """DeepSeekMath's process supervision; a completion that could not be scored has no advantages."""
    every = [score for some in scores for score in some or []]
    mean = fmean(every) if every else 0.0
    std = stdev(every) if len(every) > 1 else 0.0
    # The same small number as in TRL's own normalization.
    return [_suffix_sums([(score - mean) / (std + 1e-4) for score in some or []]) for some in scores]


def min_advantages(scores: Scores, lengths: Sequence[Sequence[int]], temperature: float = 0.1) -> list[list[float]]:
    """PURE's minimum form; `lengths` are the tokens of each step."""
    rewards = [_min_rewards(some or [], temperature) for some in scores]
    tokens = [sum(some) if scored is not None else 0 for some, scored in zip(lengths, scores, strict=True)]
    all_reward, all_tokens = math.fsum(map(sum, rewards)), sum(tokens)
    advantages = []
    for own, own_tokens, own_lengths in zip(rewards, tokens, lengths, strict=True):
        others = all_tokens - own_tokens
        baseline = (all_reward - sum(own)) / others if others else 0.0
        advantages.append(_suffix_sums([reward - baseline * n for reward, n in zip(own, own_lengths, strict=False)]))
    return advantages


def _min_rewards(scores: Sequence[float], temperature: float) -> list[float]:
    rewards = [2 * score - 1 for score in scores]
    weights = [math.exp((min(rewards) - reward) / temperature) for reward in rewards]
    return [reward * weight / sum(weights) for reward, weight in zip(rewards, weights, strict=True)]


def _suffix_sums(values: Sequence[float]) -> list[float]:
    sums, total = [], 0.0
    for value in reversed(values):
        total += value
        sums.append(total)
    return sums[::-1]


# Steps of tokens


class StepsOfTokens(NamedTuple):
    """The steps of a completion, and to which of them each of its tokens belongs."""

    steps: list[str]
    of_tokens: list[int]

    def lengths(self) -> list[int]:
        """The tokens of each step; a completion without steps counts as one."""
        counts = [0] * max(1, len(self.steps))
        for step in self.of_tokens:
            counts[step] += 1
        return counts


def steps_of_tokens(tokenizer: Any, ids: Sequence[int], split: SplitStrategy = "auto") -> StepsOfTokens:
    """Splits a completion into steps.

    A token belongs to the step of its first character that is no white space; what stands between two steps belongs to
    the one before, and what follows the last, as the token that ends the completion, to the last.
    """
    text, spans = token_spans(tokenizer, ids)
    steps = gradus.step_spans(text, split)
    begins = [begin for begin, _ in steps]
    of_tokens = []
    for start, end in spans:
        blank = len(text[start:end]) - len(text[start:end].lstrip())
        first = start + blank if start + blank < end else start
        of_tokens.append(max(0, bisect_right(begins, first) - 1))
    return StepsOfTokens([text[begin:end] for begin, end in steps], of_tokens)


def token_spans(tokenizer: Any, ids: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
    """Decodes tokens, and says which characters each one reaches; tokens that share a character all reach it."""
    backend = getattr(tokenizer, "backend_tokenizer", None)

    def decode(start: int, end: int) -> str:
        part = list(ids[start:end])
        if backend is not None:  # Forty times as fast.
            return str(backend.decode(part, skip_special_tokens=True))
        return str(tokenizer.decode(part, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    text = decode(0, len(ids))
    spans: list[tuple[int, int]] = []
    # ids[:settled] decode to text[:offset]. The tokens from `context` on are decoded before them, because some
    # tokenizers drop a space at the beginning of what they decode.
    context = settled = offset = known = start = 0
    for end in range(1, len(ids) + 1):
        grown = decode(context, end)[known:]
        # The last character may lack bytes that are in tokens to come: it decodes to replacement characters.
        whole = grown.rstrip("\ufffd")
        reached = max(start, offset + _common(whole, text, offset))
        spans.append((start, min(len(text), reached + (whole != grown))))
        start = reached
        if grown and whole == grown and text.startswith(grown, offset):
            context, settled, offset = settled, end, offset + len(grown)
            known = len(decode(context, settled))
    return text, spans


def _common(part: str, text: str, offset: int) -> int:
    """How many characters of `part` stand in `text` from the offset on."""
    if text.startswith(part, offset):
        return len(part)
    pairs = zip(part, text[offset : offset + len(part)], strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), len(text) - offset)


# The trainer


class StepGRPOTrainer(GRPOTrainer):  # type: ignore[misc, unused-ignore]
    """TRL's GRPO trainer with an advantage for each step instead of one for each completion.

    `step_scorer` scores steps between 0 and 1: a `gradus.Scorer`, or your own function. Without `reward_funcs`, only the
    steps count; their mean score is logged as `rewards/step_score`. All other arguments are those of `GRPOTrainer`.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        *args: Any,
        step_scorer: StepScorer,
        credit: Credit = "sum",
        credit_temperature: float = 0.1,
        step_weight: float = 1.0,
        split: SplitStrategy = "auto",
        problem: str | None = None,
        **kwargs: Any,
    ) -> None:
        if credit not in ("sum", "min"):
            raise ValueError(f'credit is {credit!r}: it is "sum" or "min"')
        if not credit_temperature > 0:
            raise ValueError(f"credit_temperature is {credit_temperature}: it must be above 0")
        self.step_scorer = step_scorer
        self.credit = credit
        self.credit_temperature = credit_temperature
        self.step_weight = step_weight
        self.split = split
        self.problem = problem
        self._scored_steps: tuple[list[StepsOfTokens], Scores] = ([], [])
        self._outcome_counts = bool(reward_funcs) or kwargs.get("environment_factory") is not None
        super().__init__(model, reward_funcs if self._outcome_counts else self.step_score, *args, **kwargs)

    def step_score(self, prompts: Sequence[Any], **_: Any) -> list[float | None]:
        """The mean score of each completion's steps: what is logged as reward where no reward function is given."""
        return [None if some is None else fmean(some) for some in self._scored_steps[1]]

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Any],
        completions: list[Any],
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor:
        # The only place where TRL has the completions' tokens without padding; what is logged here is reported.
        steps = [steps_of_tokens(self._tokenizer, ids, self.split) for ids in completion_ids_list]
        columns = {self.problem: [row[self.problem] for row in inputs]} if self.problem in inputs[0] else {}
        problems = _problems(prompts, columns, self.problem, "step_scorer")
        scores = score_steps(self.step_scorer, problems, [some.steps for some in steps])
        self._scored_steps = steps, scores
        self._log_steps(steps, scores)
        rewards: torch.Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        advantages = self.step_weight * self._token_advantages(output["completion_ids"])
        if self._outcome_counts:
            advantages = advantages + output["advantages"].unsqueeze(1)
        output["advantages"] = advantages
        return output

    def _token_advantages(self, completion_ids: torch.Tensor) -> torch.Tensor:
        """The advantage of each token's step; 0 for padding and for completions that could not be scored."""
        steps, scores = self._scored_steps
        size = self.num_generations if self.model.training else self.num_generations_eval
        if len(steps) % size:
            found = f"{len(steps)} completions on this process are no whole groups of {size}"
            raise ValueError(
                f"{found}: let per_device_train_batch_size * steps_per_generation be a multiple of num_generations"
            )
        advantages = torch.zeros(completion_ids.shape, dtype=torch.float32)
        for begin in range(0, len(steps), size):
            group, group_scores = steps[begin : begin + size], scores[begin : begin + size]
            if self.credit == "sum":
                of_steps = sum_advantages(group_scores)
            else:
                of_steps = min_advantages(group_scores, [some.lengths() for some in group], self.credit_temperature)
            for row, (some, values) in enumerate(zip(group, of_steps, strict=True), begin):
                if values:
                    advantages[row, : len(some.of_tokens)] = torch.tensor([values[step] for step in some.of_tokens])
        return advantages.to(completion_ids.device)

    def _log_steps(self, steps: list[StepsOfTokens], scores: Scores) -> None:
        known = [some for some in scores if some is not None]
        self._log_metric("steps/unscored", scores.count(None) / len(scores))
        self._log_metric("steps/count", fmean(len(some.steps) for some in steps))
        if known:
            self._log_metric("steps/mean_score", fmean(score for some in known for score in some))
            self._log_metric("steps/min_score", fmean(map(min, known)))
        self._log_completion_extra("step_scores", [str([round(score, 3) for score in some or []]) for some in scores])
