"""TRL's own trainer with the rewards and the step-level advantages of gradus.trl.

Models are random and tiny, so that a run takes seconds. SmolLM2's tokenizer and PRM come from GRADUS_HOME
(`gradus models pull smollm2-135m`); without them the tests that need them are skipped.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parents[2]))

import gradus
import numpy as np
import pytest
import torch
from datasets import Dataset
from gradus.trl import (
    AsyncPrmReward,
    OutcomeReward,
    PrmReward,
    StepGRPOTrainer,
    min_advantages,
    score_steps,
    steps_of_tokens,
    sum_advantages,
    token_spans,
)
from guide import run_guide
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer

MODEL = Path(os.environ.get("GRADUS_HOME", Path.home() / ".gradus")) / "models" / "smollm2-135m"
needs_smollm2 = pytest.mark.skipif(not MODEL.is_dir(), reason="gradus models pull smollm2-135m")


# Advantages


def test_sum_form_by_hand() -> None:
    # The scores 1, 0 | 1, 1, 0 have the mean 0.6 and the variance (3 * 0.16 + 2 * 0.36) / 4 = 0.3.
    right, wrong = 0.4 / (0.3**0.5 + 1e-4), -0.6 / (0.3**0.5 + 1e-4)
    first, second = sum_advantages([[1.0, 0.0], [1.0, 1.0, 0.0]])
    assert first == pytest.approx([right + wrong, wrong])
    assert second == pytest.approx([2 * right + wrong, right + wrong, wrong])


def test_min_form_by_hand() -> None:
    # At a temperature near 0 only the worst step has a reward: r* is 0, -1 | 0.6 for the scores 1, 0 | 0.8.
    # Tokens: 3, 2 | 4. Baselines: the other's reward per token, 0.6 / 4 = 0.15 and -1 / 5 = -0.2.
    first, second = min_advantages([[1.0, 0.0], [0.8]], [[3, 2], [4]], temperature=1e-3)
    assert first == pytest.approx([-1 - 0.15 * 5, -1 - 0.15 * 2])
    assert second == pytest.approx([0.6 + 0.2 * 4])


groups = st.lists(
    st.none() | st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9)), min_size=1, max_size=6), min_size=1, max_size=6
)


@given(groups)
def test_sum_form_equals_numpy(group: list[list[tuple[float, int]] | None]) -> None:
    scores = [None if some is None else [score for score, _ in some] for some in group]
    every = np.array([score for some in scores for score in some or []])
    std = every.std(ddof=1) if len(every) > 1 else 0.0
    for some, found in zip(scores, sum_advantages(scores), strict=True):
        normalized = (np.array(some or []) - (every.mean() if len(every) else 0)) / (std + 1e-4)
        assert np.allclose(found, [normalized[step:].sum() for step in range(len(normalized))], atol=1e-8)


@given(groups, st.floats(0.05, 2))
def test_min_form_equals_numpy(group: list[list[tuple[float, int]] | None], temperature: float) -> None:
    scores = [None if some is None else [score for score, _ in some] for some in group]
    lengths = [[length for _, length in some or []] for some in group]
    transformed, tokens = [], []
    for some, length in zip(scores, lengths, strict=True):
        rewards = 2 * np.array(some or [0.0]) - 1
        weights = np.exp(-rewards / temperature) / np.exp(-rewards / temperature).sum()
        transformed.append(rewards * weights if some else np.zeros(0))
        tokens.append(sum(length) if some else 0)
    for index, found in enumerate(min_advantages(scores, lengths, temperature)):
        others = [other for other in range(len(scores)) if other != index]
        total = sum(tokens[other] for other in others)
        baseline = sum(transformed[other].sum() for other in others) / total if total else 0.0
        credit = transformed[index] - baseline * np.array(lengths[index][: len(transformed[index])])
        assert np.allclose(found, [credit[step:].sum() for step in range(len(credit))], atol=1e-8)


def test_groups_without_a_difference_teach_nothing() -> None:
    assert sum_advantages([[1.0, 1.0], [1.0]]) == [[0.0, 0.0], [0.0]]
    assert sum_advantages([None, None]) == [[], []]
    assert sum_advantages([]) == [] and min_advantages([], []) == []
    assert min_advantages([None, [0.5]], [[4], [2]]) == [[], [0.0]]


# Steps of tokens


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """SmolLM2's tokenizer, from the file of its weights."""
    from gguf import GGUFReader

    reader = GGUFReader(str(next(MODEL.glob("*.gguf"))))

    def column(name: str) -> list[str]:
        field = reader.fields[f"tokenizer.ggml.{name}"]
        return [bytes(field.parts[index]).decode() for index in field.data]

    tokens, kinds = column("tokens"), reader.fields["tokenizer.ggml.token_type"]
    special = [tokens[row] for row, index in enumerate(kinds.data) if kinds.parts[index][0] == 3]
    merges = [(first, second) for first, second in (merge.split(" ") for merge in column("merges"))]
    tokenizer = Tokenizer(models.BPE({token: row for row, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    names = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "additional_special_tokens": special}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
HIDDEN = [byte for byte in range(256) if byte not in SHOWN]
BYTES = {chr(byte): byte for byte in SHOWN} | {chr(256 + row): byte for row, byte in enumerate(HIDDEN)}
"""The byte that each letter of a byte-level vocabulary stands for."""


def byte_spans(tokenizer: Any, ids: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
    """As `token_spans`, from the bytes of the tokens."""
    names = tokenizer.convert_ids_to_tokens(ids)
    parts = [b"" if name in tokenizer.all_special_tokens else bytes(map(BYTES.__getitem__, name)) for name in names]
    whole = b"".join(parts)
    text = whole.decode(errors="replace")
    owner: list[int] = []  # the character of each byte
    position = 0
    for index, character in enumerate(text):
        width = len(character.encode())
        if character == "\ufffd" and whole[position : position + 3] != "\ufffd".encode():
            broken = [whole[position : position + n] for n in (3, 2, 1) if position + n <= len(whole)]
            width = next(len(part) for part in broken if part.decode(errors="replace") == "\ufffd")
        owner += [index] * width
        position += width
    assert position == len(whole)
    spans, at = [], 0
    for part in parts:
        reached = owner[at : at + len(part)]
        spans.append((reached[0], reached[-1] + 1) if reached else (-1, -1))
        at += len(part)
    return text, spans


@needs_smollm2
@settings(max_examples=300, deadline=None)
@given(ids=st.lists(st.integers(0, 49_151) | st.integers(17, 272), max_size=24))
def test_spans_of_random_tokens(smollm2: Any, ids: list[int]) -> None:
    # Half of the tokens are single bytes, so that characters are often split, and often broken.
    text, spans = token_spans(smollm2, ids)
    expected_text, expected = byte_spans(smollm2, ids)
    assert text == expected_text == smollm2.decode(ids, skip_special_tokens=True)
    assert len(spans) == len(ids)
    for (start, end), (expected_start, expected_end) in zip(spans, expected, strict=True):
        if expected_start == -1:
            assert start <= end
        elif "\ufffd" not in text:
            assert (start, end) == (expected_start, expected_end)
        else:  # Where bytes are no characters, a token may only be placed at the beginning of the broken run.
            assert start <= expected_start and "\ufffd" * (expected_start - start) == text[start:expected_start]


@needs_smollm2
@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=40) | st.text(alphabet="aé中😀🏽 \n.", max_size=40))
def test_spans_equal_the_offsets_of_the_tokenizer(smollm2: Any, text: str) -> None:
    encoded = smollm2(text, return_offsets_mapping=True, add_special_tokens=False)
    if "<|" in text or smollm2.decode(encoded["input_ids"]) != text:
        return
    found, spans = token_spans(smollm2, encoded["input_ids"])
    assert found == text
    if "\ufffd" not in text:
        assert spans == [tuple(offset) for offset in encoded["offset_mapping"]]


@needs_smollm2
@settings(max_examples=100, deadline=None)
@given(steps=st.lists(st.sampled_from(["So 2 + 3 = 5.", "😀 is é.", "中文。", "x", "- a\n- b"]), max_size=6))
def test_each_token_belongs_to_the_step_that_it_spells(smollm2: Any, steps: list[str]) -> None:
    ids = [*smollm2("\n\n".join(steps), add_special_tokens=False)["input_ids"], smollm2.eos_token_id]
    found = steps_of_tokens(smollm2, ids)
    assert found.steps == gradus.split_steps("\n\n".join(steps))
    assert len(found.of_tokens) == len(ids) and found.of_tokens == sorted(found.of_tokens)
    for index, step in enumerate(found.steps):
        tokens = [row for row, owner in zip(ids, found.of_tokens, strict=True) if owner == index]
        assert smollm2.decode(tokens, skip_special_tokens=True).strip() == step
    assert found.of_tokens[-1] == max(0, len(found.steps) - 1), "the token that ends the completion is of the last step"
    assert sum(found.lengths()) == len(ids)


@needs_smollm2
def test_a_step_after_a_space_owns_its_first_token(smollm2: Any) -> None:
    ids = smollm2("First, 2 + 3 = 5. 😀 Then 5 + 1 = 6.", add_special_tokens=False)["input_ids"]
    found = steps_of_tokens(smollm2, ids, "sentences")
    assert len(found.steps) == 2
    for index, step in enumerate(found.steps):
        tokens = [row for row, owner in zip(ids, found.of_tokens, strict=True) if owner == index]
        assert smollm2.decode(tokens).strip() == step


def test_spans_of_a_byte_fallback_tokenizer() -> None:
    """Llama's kind: a space is dropped at the beginning, and bytes that are no character become one mark each."""
    pieces = ["<unk>", "▁a", "▁b", "c", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE({piece: row for row, piece in enumerate(pieces)}, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    emoji = [4 + byte for byte in "😀".encode()]
    assert token_spans(fast, [1, 2, *emoji, 3]) == ("a b😀c", [(0, 1), (1, 3), *[(3, 4)] * 4, (4, 5)])
    text, spans = token_spans(fast, [1, *emoji, emoji[0], 3])
    assert text == fast.decode([1, *emoji, emoji[0], 3]) and spans[-1][1] == len(text)


# Reward functions


class Log:
    """Collects what a reward function logs."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.extra: dict[str, list[Any]] = {}

    def names(self) -> dict[str, Any]:
        return {"log_metric": self.metrics.__setitem__, "log_extra": self.extra.__setitem__}


def said(text: str | None) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": text}]


def test_outcome_reward() -> None:
    reward, log = OutcomeReward("gold"), Log()
    completions = [said("So \\boxed{0.5}"), said("The answer is 3."), said(None), "1/2", None]
    golds = ["1/2", "2", "2", 0.5, "2"]
    asked = {"prompts": ["?"] * 5, "completions": completions, "completion_ids": [[1]] * 5, "trainer_state": None}
    assert reward(**asked, **log.names(), gold=golds, other=[1] * 5) == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert log.metrics == {"outcome/undecided": 0.0, "outcome/no_answer": 0.4}
    assert log.extra["outcome_verdict"] == ["equal", "different", "no answer", "equal", "no answer"]
    assert reward(prompts=[], completions=[], gold=[]) == []


def test_an_undecided_grade_is_not_wrong() -> None:
    log = Log()
    golds: list[Any] = [None, "", "7"]
    asked: dict[str, Any] = {"prompts": ["?"] * 3, "completions": ["The answer is 7."] * 3, "answer": golds}
    assert OutcomeReward()(**asked, **log.names()) == [None, None, 1.0]
    assert log.metrics["outcome/undecided"] == pytest.approx(2 / 3)
    assert OutcomeReward(undecided=0.0, correct=2.0)(**asked) == [0.0, 0.0, 2.0]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ValueError, match="column `answer` of the dataset, which has the columns gold"):
        OutcomeReward()(prompts=["?"], completions=["1"], gold=["1"])


def lengths_as_scores(problems: list[str], steps: list[list[str]]) -> list[list[float] | None]:
    """A step scorer without a model: short steps are good ones; None for a problem that it does not know."""
    return [
        None if problem == "unknown" else [1 / len(step) for step in some]
        for problem, some in zip(problems, steps, strict=True)
    ]


def test_prm_reward() -> None:
    log = Log()
    asked: dict[str, Any] = {
        "prompts": ["p", [{"role": "system", "content": "unknown"}, {"role": "user", "content": "p"}], "unknown", "p"],
        "completions": ["ab\n\nabcd", said("a\n\nabcde"), "a", ""],
    }
    assert PrmReward(lengths_as_scores)(**asked, **log.names()) == [0.25, 0.2, None, 0.0]
    assert log.metrics == {"prm/unscored": 0.25}
    assert PrmReward(lengths_as_scores, "last")(**asked) == [0.25, 0.2, None, 0.0]
    assert PrmReward(lengths_as_scores, "mean")(**asked)[0] == 0.375
    assert PrmReward(lengths_as_scores, problem="q")(**asked, q=["unknown", "p", "p", "p"]) == [None, 0.2, 1.0, 0.0]
    assert PrmReward(lengths_as_scores)(prompts=[], completions=[]) == []

    async def awaited(problems: list[str], steps: list[list[str]]) -> list[list[float] | None]:
        return lengths_as_scores(problems, steps)

    for scorer in (lengths_as_scores, awaited):
        assert asyncio.run(AsyncPrmReward(scorer)(**asked)) == [0.25, 0.2, None, 0.0]


def test_a_scorer_that_answers_wrongly_is_told_so() -> None:
    with pytest.raises(ValueError, match="gave 0 lists of scores for 1 solutions"):
        score_steps(lambda problems, steps: [], ["p"], [["a"]])
    with pytest.raises(ValueError, match="gave 1 scores for the 2 steps"):
        score_steps(lambda problems, steps: [[1.0]], ["p"], [["a", "b"]])
    assert score_steps(lambda problems, steps: [[float("nan")]], ["p"], [["a"]]) == [None]


@needs_smollm2
def test_rewards_of_a_real_prm() -> None:
    scorer = gradus.Scorer("smollm2-135m", profile="plain")
    solution = "2 + 3 = 5.\n\nThe answer is 5."
    asked: dict[str, Any] = {"prompts": ["2 + 3?"] * 3, "completions": [solution, "", "so " * 20_000]}
    expected = scorer.score("2 + 3?", solution).aggregate("min")
    log = Log()
    assert PrmReward(scorer)(**asked, **log.names()) == [expected, 0.0, None]
    assert log.metrics["prm/unscored"] == pytest.approx(1 / 3)
    assert asyncio.run(AsyncPrmReward(scorer)(**asked)) == [expected, 0.0, None]


# Training


def numbers() -> Any:
    """A tokenizer of the numbers 1 to 24; each number is a step."""
    words = ["<eos>", "Count:", *(f"{number}\n\n" for number in range(1, 25))]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token="<eos>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"Count:|\d+\n\n"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>")


def tiny_model(tokenizer: Any, seed: int = 0) -> LlamaForCausalLM:
    set_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def config(folder: Path, **changes: Any) -> GRPOConfig:
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": 20,
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 12,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    }
    return GRPOConfig(**settings | changes)


def logged(trainer: GRPOTrainer, name: str) -> list[float]:
    return [row[name] for row in trainer.state.log_history if name in row]


def odd_steps_are_right(problems: list[str], steps: list[list[str]]) -> list[list[float] | None]:
    return [[float(len(step) % 2) for step in some] for some in steps]


def async_prm(scorer: Any) -> Any:
    return AsyncPrmReward(scorer, "mean", name="prm_mean")


@needs_smollm2
@pytest.mark.parametrize("kind", ["outcome", "aggregate", "sum", "min"])
def test_twenty_steps_of_grpo(kind: str, smollm2: Any, tmp_path: Path) -> None:
    scorer = gradus.Scorer("smollm2-135m", profile="plain")
    rows = [{"prompt": [{"role": "user", "content": f"What is {n} + 2?"}], "answer": n + 2} for n in range(32)]
    smollm2.chat_template = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
    asked: dict[str, Any] = {
        "args": config(
            tmp_path, log_completions=True, num_completions_to_print=0, mask_truncated_completions=kind == "min"
        ),
        "train_dataset": Dataset.from_list(rows),
        "processing_class": smollm2,
    }
    model = tiny_model(smollm2)
    if kind == "outcome":
        trainer = GRPOTrainer(model, OutcomeReward(), **asked)
    elif kind == "aggregate":
        trainer = GRPOTrainer(model, [PrmReward(scorer), async_prm(scorer)], **asked)
    else:
        trainer = StepGRPOTrainer(model, OutcomeReward(), step_scorer=scorer, credit=kind, **asked)
    trainer.train()
    assert trainer.state.global_step == 20
    losses = logged(trainer, "loss")
    assert len(losses) == 20 and np.isfinite(losses).all()
    if kind == "aggregate":
        assert all(0 < mean < 1 for name in ("prm", "prm_mean") for mean in logged(trainer, f"rewards/{name}/mean"))
        assert logged(trainer, "prm/unscored") == [0.0] * 20
    else:
        assert len(logged(trainer, "outcome/undecided")) == 20
    if kind in ("sum", "min"):
        assert all(0 < score < 1 for score in logged(trainer, "steps/mean_score"))


def test_advantages_that_reach_the_loss(tmp_path: Path) -> None:
    """Each token has the advantage of its step in its own group, plus that of the outcome; the rest is TRL's."""
    tokenizer, seen = numbers(), []

    def ends_with_three(completions: list[str], **_: Any) -> list[float]:
        return [float(completion.endswith("3\n\n")) for completion in completions]

    def even_is_right(problems: list[str], steps: list[list[str]]) -> list[list[float] | None]:
        return [None if int(some[0]) > 18 else [float(int(step) % 2 == 0) for step in some] for some in steps]

    class Watched(StepGRPOTrainer):
        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
            output = super()._generate_and_score_completions(inputs)
            seen.append(output)
            return output

        def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
            assert inputs["advantages"].shape == inputs["completion_ids"].shape
            loss: torch.Tensor = super()._compute_loss(model, inputs)
            return loss

    trainer = Watched(
        tiny_model(tokenizer),
        ends_with_three,
        step_scorer=even_is_right,
        step_weight=0.5,
        args=config(
            tmp_path,
            max_steps=6,
            gradient_accumulation_steps=2,
            num_iterations=2,
            # Each token is a step then.
            generation_kwargs={"suppress_tokens": [tokenizer.convert_tokens_to_ids("Count:")]},
        ),
        train_dataset=Dataset.from_list([{"prompt": "Count:"}] * 16),
        processing_class=tokenizer,
    )
    trainer.train()
    assert seen
    for output in seen:
        for begin in range(0, len(output["completion_ids"]), 4):
            rows = slice(begin, begin + 4)
            lengths = output["completion_mask"][rows].sum(1).tolist()
            texts = [
                tokenizer.decode(ids[:n], skip_special_tokens=True)
                for ids, n in zip(output["completion_ids"][rows], lengths, strict=True)
            ]
            outcome = np.array(ends_with_three(texts))
            outcome = (outcome - outcome.mean()) / (outcome.std(ddof=1) + 1e-4)
            steps = [text.split("\n\n")[:-1] for text in texts]
            scores = [even_is_right([""], [some])[0] if some else [0.0] for some in steps]
            for row, values in enumerate(sum_advantages(scores)):
                # Each token is a step, but the one that ends the completion, which is of the last step.
                of_tokens = [values[min(token, len(values) - 1)] if values else 0.0 for token in range(lengths[row])]
                found = output["advantages"][begin + row][: lengths[row]].tolist()
                assert found == pytest.approx([0.5 * value + outcome[row] for value in of_tokens], abs=1e-4)


def test_steps_alone_and_evaluation(tmp_path: Path) -> None:
    tokenizer = numbers()
    rows = Dataset.from_list([{"prompt": "Count:", "question": "?"}] * 8)
    trainer = StepGRPOTrainer(
        tiny_model(tokenizer),
        step_scorer=odd_steps_are_right,
        problem="question",
        args=config(tmp_path, max_steps=2, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=8),
        train_dataset=rows,
        eval_dataset=rows,
        processing_class=tokenizer,
    )
    trainer.train()
    assert len(logged(trainer, "rewards/step_score/mean")) == 2
    assert len(logged(trainer, "eval_steps/mean_score")) == 2


@pytest.mark.parametrize("change", [{"credit": "max"}, {"credit_temperature": 0}])
def test_bad_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="credit"):
        StepGRPOTrainer(None, step_scorer=odd_steps_are_right, **change)


# Learning


RIGHT = ["1", "2", "3", "4"]


def solved(completions: list[str], **_: Any) -> list[float]:
    return [float(completion.split("\n\n")[:-1] == RIGHT) for completion in completions]


def right_steps(problems: list[str], steps: list[list[str]]) -> list[list[float] | None]:
    return [[float(step == right) for step, right in zip(some, RIGHT, strict=True)] for some in steps]


def with_steps(*args: Any, **kwargs: Any) -> GRPOTrainer:
    return StepGRPOTrainer(*args, step_scorer=right_steps, **kwargs)


def solved_at_the_end(trainer_of: Callable[..., GRPOTrainer], seed: int, folder: Path) -> float:
    """Trains a random model to count to four, and gives the share of right completions in the last ten steps."""
    tokenizer = numbers()
    trainer = trainer_of(
        tiny_model(tokenizer, seed),
        solved,
        args=config(
            folder,
            seed=seed,
            max_steps=120,
            learning_rate=3e-3,
            per_device_train_batch_size=64,
            num_generations=32,
            max_completion_length=len(RIGHT),
            generation_kwargs={"suppress_tokens": [0, 1]},  # Four steps, no more and no less.
        ),
        train_dataset=Dataset.from_list([{"prompt": "Count:"}] * 64),
        processing_class=tokenizer,
    )
    trainer.train()
    return float(np.mean(logged(trainer, "rewards/solved/mean")[-10:]))


def test_steps_teach_where_the_outcome_does_not(tmp_path: Path) -> None:
    # A random model is right in one of 24^4 = 331,776 completions; a run sees 7,680.
    assert solved_at_the_end(GRPOTrainer, 0, tmp_path) < 0.05
    assert solved_at_the_end(with_steps, 0, tmp_path) > 0.7


def test_the_guide(tmp_path: Path) -> None:
    run_guide("trl", tmp_path)
