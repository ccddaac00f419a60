"""Rewards for OpenRLHF: the grader, and a process reward model that scores the calls of many threads in one pass.

OpenRLHF loads a Python file with `--reward.remote_url reward.py` and calls its `reward_func(queries, prompts, labels)` with
one sample at a time, each in a thread of its own:

    # reward.py
    import gradus
    from gradus.openrlhf import Reward

    reward_func = Reward(gradus.Scorer(), aggregation="min", answer_weight=1.0)

This file has a `reward_func` too, which grades answers alone. What is left out: OpenRLHF takes one number for a response,
so the rewards of single steps cannot be given to it.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gradus._gradus import Scorer, grade_batch
from gradus.batching import Collector, score_or_none
from gradus.chat import last_user_message

try:
    import torch
except ImportError as error:
    raise ImportError("gradus.openrlhf needs OpenRLHF and its PyTorch: pip install openrlhf") from error

if TYPE_CHECKING:
    from gradus._gradus import Aggregation

__all__ = ["Reward", "response_text", "reward_func"]

SPECIAL_TOKEN = r"(?:<\|[^<>|\n]{1,64}\|>|<｜[^<>｜\n]{1,64}｜>|</?s>|<(?:bos|eos|pad|unk|start_of_turn|end_of_turn)>)"
TRAILING_SPECIAL_TOKENS = re.compile(rf"(?:\s*{SPECIAL_TOKEN})+\s*$")
def response_text(query: str | None, prompt: Any) -> str:
    """What follows the prompt in a query, without the special tokens at its end.

    OpenRLHF cuts a long prompt at its start, so the end of the prompt is enough to find it; a query without it is taken whole.
    """
    query, prompt = query or "", prompt if isinstance(prompt, str) else ""
    for end_of_prompt in (prompt, prompt[-64:]):
        before, found, after = query.partition(end_of_prompt) if end_of_prompt else (query, "", "")
        if found:
            query = after
            break
    return TRAILING_SPECIAL_TOKENS.sub("", query)


class Sample(NamedTuple):
    """A problem with a response to it, and its right answer."""

    problem: str
    solution: str
    gold: str


class Judgement(NamedTuple):
    """Whether an answer is right, None where it is undecided, and the process score, None where there is none."""

    correct: bool | None
    process_score: float | None


class Reward:
    """A `reward_func` for OpenRLHF: answers are graded, and with a scorer the steps are scored.

    The reward is `answer_weight` for a right answer plus `process_weight` times the aggregate of the step scores. Without a
    scorer `answer_weight` is 1, with one it is 0 if not given. An answer that cannot be decided counts as `undecided_value`
    between wrong (0) and right (1), a response that cannot be scored (empty, longer than the context) as `unscored_value`;
    both are logged in `extra_logs`.
    """

    def __init__(
        self,
        scorer: Scorer | None = None,
        *,
        aggregation: "Aggregation" = "min",
        answer_weight: float | None = None,
        process_weight: float = 1.0,
        undecided_value: float = 0.0,
        unscored_value: float = 0.0,
        problem: Callable[[str], str] = last_user_message,
        wait: float = 0.005,
        max_batch: int = 64,
    ) -> None:
        self.scorer = scorer
        self.aggregation = aggregation
        self.answer_weight = answer_weight if answer_weight is not None else float(scorer is None)
        self.process_weight = process_weight
        self.undecided_value = undecided_value
        self.unscored_value = unscored_value
        self.problem = problem
        self.collector: Collector[Sample, Judgement] = Collector(self._judge, wait, max_batch)

    def __call__(
        self, queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **kwargs: Any
    ) -> dict[str, Any]:
        """Rewards, scores (1 for a right answer) and logs, each a tensor with a number for each query."""
        samples = [
            Sample(self.problem(prompt), response_text(query, prompt), "" if label is None else str(label))
            for query, prompt, label in zip(queries, prompts, labels, strict=True)
        ]
        if self.scorer is None:  # Grading takes microseconds: there is nothing to gather.
            judgements = self._judge(samples)
        else:
            judgements = [future.result() for future in [self.collector.submit(sample) for sample in samples]]
        rewards = torch.tensor([self._reward(judgement) for judgement in judgements], dtype=torch.float32)
        logs: dict[str, list[bool | float]] = {
            "correct": [judgement.correct is True for judgement in judgements],
            "undecided": [judgement.correct is None for judgement in judgements],
        }
        if self.scorer is not None:
            logs["process_score"] = [judgement.process_score or 0.0 for judgement in judgements]
            logs["unscored"] = [judgement.process_score is None for judgement in judgements]
        extra_logs = {name: torch.tensor(values, dtype=torch.float32) for name, values in logs.items()}
        # OpenRLHF filters prompts by their scores: the share of right answers, or the reward where no answer is known.
        graded = torch.tensor([bool(sample.gold) for sample in samples], dtype=torch.bool)
        return {"rewards": rewards, "scores": torch.where(graded, extra_logs["correct"], rewards), "extra_logs": extra_logs}

    def _judge(self, samples: list[Sample]) -> list[Judgement]:
        grades = grade_batch([sample.gold for sample in samples], [sample.solution for sample in samples])
        return [
            Judgement(grade.correct, process_score)
            for grade, process_score in zip(grades, self._process_scores(samples), strict=True)
        ]

    def _process_scores(self, samples: list[Sample]) -> list[float | None]:
        if self.scorer is None:
            return [None] * len(samples)
        scored = score_or_none(self.scorer, [sample.problem for sample in samples], [sample.solution for sample in samples])
        return [solution.aggregate(self.aggregation) if solution else None for solution in scored]

    def _reward(self, judgement: Judgement) -> float:
        answer = self.undecided_value if judgement.correct is None else float(judgement.correct)
        reward = self.answer_weight * answer
        if self.scorer is not None:
            process = self.unscored_value if judgement.process_score is None else judgement.process_score
            reward += self.process_weight * process
        return reward


reward_func = Reward()
