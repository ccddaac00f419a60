"""verl's own loaders, reward loop and reward managers with our reward functions and step rewards.

Run for real: the configuration of verl's PPO trainer, `get_custom_reward_fn`, `load_reward_manager`, `RewardLoopWorker`, the batch
reward manager, the single-turn agent loop, SmolLM2's tokenizer and SmolLM2 as reward model. Everything is in one process, without
a Ray cluster; in place of vLLM, which needs a GPU, a client replays prepared responses.
"""

import asyncio
import pickle
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import hydra
import numpy as np
import pytest
import torch
from batch import ANSWERS, PROBLEMS, RESPONSES, SCORER, compose_config, make_batch, messages, save_tokenizer
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopWorker, DictConfigWrap
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.reward import get_custom_reward_fn, load_reward_manager
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.reward_manager import get_reward_manager_cls
from verl.workers.rollout.replica import TokenOutput

import gradus
from gradus.verl import (
    SCORERS,
    StepAgentLoopOutput,
    StepReward,
    StepRewardManager,
    compute_process_score,
    compute_process_scores,
    compute_score,
    compute_scores,
    step_end_tokens,
    step_rewards,
)

sys.path.insert(0, str(Path(__file__).parents[2]))
from guide import run_guide  # noqa: E402

GRADER = ["reward.custom_reward_function.path=pkg://gradus.verl"]
PRM = [
    *GRADER,
    "+reward.custom_reward_function.reward_kwargs.scorer.model=smollm2-135m",
    "+reward.custom_reward_function.reward_kwargs.scorer.profile=plain",
    "+reward.custom_reward_function.reward_kwargs.aggregation=mean",
    "+reward.custom_reward_function.reward_kwargs.answer_weight=2.0",
]
STEPS = [
    "reward.reward_manager.source=importlib",
    "reward.reward_manager.module.path=pkg://gradus.verl",
    "reward.reward_manager.name=StepRewardManager",
    "+reward.reward_kwargs.scorer.model=smollm2-135m",
    "+reward.reward_kwargs.scorer.profile=plain",
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def direct():
    """The step scores of all responses, by Gradus alone; None for the empty one."""
    return gradus.Scorer(**SCORER).score_batch(PROBLEMS, RESPONSES, on_error="skip")


def rewards_of(config, data):
    """verl's reward worker on a batch: outputs, and the class of its reward manager."""

    async def run():
        worker = RewardLoopWorker(config)  # It keeps the event loop in which it is made.
        return await worker.compute_score_batch(data), type(worker.reward_manager)

    return asyncio.run(run())


@pytest.mark.parametrize("name", ["compute_score", "compute_score_async"])
def test_grader_by_path_and_name(tokenizer, name):
    config = compose_config(tokenizer, [*GRADER, f"reward.custom_reward_function.name={name}"])
    outputs, _ = rewards_of(config, make_batch(tokenizer))
    assert [output["reward_score"] for output in outputs] == [1.0, 0.0, 1.0, 0.0]
    infos = [output["reward_extra_info"] for output in outputs]
    assert [info["undecided"] for info in infos] == [0.0, 0.0, 0.0, 1.0]
    assert infos[3]["reason"] == "the solution has no final answer"
    assert infos[0]["pred"] == "7" and len({tuple(info) for info in infos}) == 1


def test_grader_from_a_file(tokenizer, tmp_path):
    file = tmp_path / "reward.py"
    file.write_text("from gradus.verl import compute_score\n")
    config = compose_config(tokenizer, [f"reward.custom_reward_function.path={file}"])
    function = get_custom_reward_fn(config)
    assert function(data_source="x", solution_str="so 0.5.", ground_truth="1/2", extra_info={})["score"] == 1.0


@pytest.mark.parametrize("name", ["compute_process_score", "compute_process_score_async"])
def test_process_score_by_path_and_name(tokenizer, direct, name):
    config = compose_config(tokenizer, [*PRM, f"reward.custom_reward_function.name={name}"])
    SCORERS.clear()
    outputs, _ = rewards_of(config, make_batch(tokenizer))
    for output, scored, right in zip(outputs, direct, [1, 0, 1, 0], strict=True):
        process = scored.aggregate("mean") if scored else 0.0
        assert output["reward_score"] == pytest.approx(2.0 * right + process, abs=1e-6)
        assert output["reward_extra_info"]["unscored"] == float(scored is None)
    (collector,) = SCORERS.values()
    assert collector.calls == 4 and collector.passes < 4


def test_batch_manager(tokenizer, direct):
    data = make_batch(tokenizer)
    manager = get_reward_manager_cls("batch")(tokenizer, 0, compute_scores)
    rewards = manager(data, return_dict=True)
    last = data.batch["attention_mask"][:, data.batch["prompts"].size(1) :].sum(1) - 1
    assert [float(row[at]) for row, at in zip(rewards["reward_tensor"], last, strict=True)] == [1.0, 0.0, 1.0, 0.0]
    assert rewards["reward_extra_info"]["undecided"] == [0.0, 0.0, 0.0, 1.0]
    manager = get_reward_manager_cls("batch")(tokenizer, 0, compute_process_scores, scorer=SCORER)
    rewards = manager(make_batch(tokenizer), return_dict=True)["reward_extra_info"]["score"]
    assert rewards == pytest.approx([scored.aggregate("min") if scored else 0.0 for scored in direct], abs=1e-6)


def expected_rows(data, direct, form="score"):
    """The step rewards where they belong, found in the decoded text of each prefix, token by token."""
    rows = torch.zeros(data.batch["responses"].shape)
    for row, ids, text, scored, right in zip(
        rows, data.batch["responses"], RESPONSES, direct, [1.0, 0.0, 1.0, 0.0], strict=True
    ):
        if scored is None:
            continue
        prefixes = [data.meta_info["tokenizer"].decode(ids[: n + 1], skip_special_tokens=True) for n in range(len(ids))]
        rewards = step_rewards(scored.scores, form)
        for (_, end), reward in zip(gradus.step_spans(text), rewards, strict=True):
            row[next(n for n, prefix in enumerate(prefixes) if prefix.startswith(text[:end]))] += reward
        length = next(n for n, prefix in enumerate(prefixes) if prefix == text) + 2  # and the end of text
        row[length - 1] += right
    return rows


@pytest.mark.parametrize("source", ["importlib", "register"])
def test_step_rewards(tokenizer, direct, source):
    options = STEPS if source == "importlib" else ["reward.reward_manager.name=gradus_steps", *STEPS[3:]]
    data = make_batch(tokenizer)
    outputs, manager = rewards_of(compose_config(tokenizer, options), data)
    assert manager is StepRewardManager
    rewards = manager.assemble_rm_scores(data, [pickle.loads(pickle.dumps(output["reward_score"])) for output in outputs])
    data.meta_info["tokenizer"] = tokenizer
    assert torch.allclose(rewards, expected_rows(data, direct), atol=1e-6)
    assert (rewards != 0).sum(1).tolist() == [4, 2, 4, 0]
    assert rewards.sum(1).tolist() == pytest.approx([output["reward_score"] for output in outputs], abs=1e-5)
    infos = [output["reward_extra_info"] for output in outputs]
    assert [info["unscored"] for info in infos] == [0.0, 0.0, 0.0, 1.0]
    assert [info["steps"] for info in infos] == [3.0, 2.0, 3.0, 0.0]
    assert infos[1]["step_scores"] == " ".join(f"{score:.4f}" for score in direct[1].scores)


def test_problem_from_the_prompt(tokenizer, direct):
    """Without a question in extra_info the problem is read from the messages, or else from the tokens of the prompt."""
    manager = load_reward_manager(compose_config(tokenizer, STEPS), tokenizer)
    for field in ("extra_info", "raw_prompt"):
        data = make_batch(tokenizer)
        data.non_tensor_batch.pop("extra_info")
        data.non_tensor_batch.pop(field, None)
        assert [manager.read_response(data[i : i + 1]).problem for i in range(4)] == PROBLEMS


def test_own_function_for_the_answer(tokenizer, tmp_path):
    file = tmp_path / "own.py"
    file.write_text("async def compute_score(data_source, solution_str, ground_truth, extra_info):\n    return 0.25\n")
    options = [*STEPS, f"reward.custom_reward_function.path={file}", "+reward.reward_kwargs.step_weight=0.0"]
    outputs, _ = rewards_of(compose_config(tokenizer, options), make_batch(tokenizer))
    assert [output["reward_score"] for output in outputs] == [0.25, 0.25, 0.25, 0.0]


def test_several_responses_and_their_length(tokenizer):
    """A rollout of several responses pads them; the reward is that of the last one."""
    manager = load_reward_manager(compose_config(tokenizer, STEPS), tokenizer)
    data = make_batch(tokenizer)[[0, 1]]
    data.batch["attention_mask"] = torch.ones_like(data.batch["attention_mask"])
    ids = tokenizer(RESPONSES[1]).input_ids
    data.non_tensor_batch["response_len"] = np.array([1, len(ids)])
    response = manager.read_response(data)
    assert response.arguments["solution_str"] == RESPONSES[1] and response.last_token == len(ids) - 1


def test_wrong_options(tokenizer):
    with pytest.raises(gradus.GradusError, match="score, gain or min"):
        load_reward_manager(compose_config(tokenizer, [*STEPS, "+reward.reward_kwargs.step_form=max"]), tokenizer)
    with pytest.raises(TypeError, match="step_wait"):
        load_reward_manager(compose_config(tokenizer, [*STEPS, "+reward.reward_kwargs.step_wait=1"]), tokenizer)
    with pytest.raises(gradus.GradusError, match="problem_key"):
        compute_process_score("x", "4", "4", {}, scorer=SCORER)


def test_advantages_see_the_steps(tokenizer, direct):
    """verl's own REINFORCE++ returns: what comes after a token, so a step is judged by itself and by what follows."""
    data = make_batch(tokenizer)
    data.meta_info["tokenizer"] = tokenizer
    rows = expected_rows(data, direct)
    data.batch["token_level_rewards"] = rows
    config = compose_config(tokenizer, []).algorithm
    data = compute_advantage(data, "reinforce_plus_plus", gamma=1.0, config=config)
    to_go = rows.flip(1).cumsum(1).flip(1)
    assert torch.allclose(data.batch["returns"][:3, 0], to_go[:3, 0], atol=1e-5)
    assert len(set(data.batch["returns"][0].tolist())) > 3


def test_rollout_output_keeps_the_places():
    output = StepAgentLoopOutput(
        prompt_ids=[1], response_ids=[2, 3, 4, 5], response_mask=[1, 1, 1, 1], metrics=AgentLoopMetrics()
    )
    output.reward_score = StepReward({1: 0.5, 3: 1.0})
    assert output.as_dict()["rm_scores"].tolist() == [0.0, 0.5, 0.0, 1.0]
    output.reward_score = 2.0
    assert output.as_dict()["rm_scores"].tolist() == [0.0, 0.0, 0.0, 2.0]


class ReplayClient:
    """Stands in for verl's client of vLLM: answers with a prepared response."""

    def __init__(self, token_ids):
        self.token_ids = token_ids

    async def generate(self, request_id, *, prompt_ids, sampling_params, **kwargs):
        return TokenOutput(token_ids=self.token_ids, stop_reason="completed")


def test_rollout_with_step_rewards(tokenizer, direct):
    """A prompt through the agent loop and verl's streaming of rewards, to the fields that the trainer V1 reads."""
    config = compose_config(tokenizer, [*STEPS, "actor_rollout_ref.rollout.name=vllm"])
    token_ids = [*tokenizer(RESPONSES[2]).input_ids, tokenizer.eos_token_id]

    async def run():
        loop = hydra.utils.instantiate(
            {"_target_": "gradus.verl.StepAgentLoop"},
            trainer_config=DictConfigWrap(config),
            server_manager=ReplayClient(token_ids),
            tokenizer=tokenizer,
            processor=None,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(config.data),
        )
        output = await loop.run({}, raw_prompt=messages(PROBLEMS[2]))
        worker = AgentLoopWorker.__new__(AgentLoopWorker)  # Its constructor wants the weights of a model.
        worker.processor, worker.mm_processor_kwargs = None, {}
        handle = SimpleNamespace(remote=RewardLoopWorker(config).compute_score)  # as the handle of an actor
        worker.reward_loop_worker_handles = [SimpleNamespace(compute_score=handle)]
        fields = {
            "raw_prompt": messages(PROBLEMS[2]),
            "data_source": "test",
            "reward_model": {"ground_truth": ANSWERS[2]},
            "extra_info": {},
        }
        await worker._compute_score([output], fields)
        return output.as_dict()

    fields = asyncio.run(run())
    rewards = fields["rm_scores"]
    assert fields["responses"].tolist() == token_ids and len(rewards) == len(token_ids)
    data = make_batch(tokenizer)
    data.meta_info["tokenizer"] = tokenizer
    assert torch.allclose(rewards, expected_rows(data, direct)[2, : len(rewards)], atol=1e-6)
    assert (rewards != 0).sum() == 4 and rewards[-1] == 1.0


def test_step_ends_in_characters_of_several_tokens(tokenizer):
    text = "数学 😀🧮.\n\n答案是 π≈3.14159 � 𝔸\n\nÜber 𝟚²"
    ids = tokenizer(text).input_ids
    assert len(ids) > len(text)  # most characters are several tokens
    for end in range(1, len(text) + 1):
        (token,) = step_end_tokens(tokenizer, ids, [end])
        assert tokenizer.decode(ids[: token + 1]).startswith(text[:end])
        assert not tokenizer.decode(ids[:token]).startswith(text[:end])
    assert step_end_tokens(tokenizer, ids, []) == []
    assert step_end_tokens(tokenizer, [*ids, tokenizer.eos_token_id], [len(text)]) == [len(ids) - 1]


def test_step_rewards_of_each_form():
    scores = [0.9, 0.25, 0.5]
    assert step_rewards(scores, "score") == scores
    assert step_rewards(scores, "gain") == pytest.approx([0.9, -0.65, 0.25])
    assert step_rewards(scores, "min") == [0.0, 0.25, 0.0]


def test_right_answers():
    assert compute_score("x", "so 4.", ["5", "4"])["score"] == 1.0
    assert compute_score("x", "so 4.", 4)["score"] == 1.0
    assert compute_score("x", "so 4.", "5")["undecided"] == 0.0
    for gold in (None, "", []):
        assert compute_score("x", "so 4.", gold, undecided_value=0.5)["score"] == 0.5
    assert [score["acc"] for score in compute_scores(["x"] * 3, ["4", None, "5"], ["4", "4", ["4", "5"]])] == [1.0, 0.0, 1.0]
    assert compute_scores([], [], []) == []


def test_threads_and_hard_answers():
    """Never hangs, in any thread: these made others run for minutes."""
    hard = ["9^{9^{9^{9^9}}}", "\\boxed{" * 2000, "1" * 100_000, "x^{10000000}-1", "(" * 5000, "\\frac" * 5000]
    begun = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        scores = list(pool.map(lambda answer: compute_score("x", answer, "(x+1)^{1000}"), hard * 16))
    assert time.monotonic() - begun < 60
    assert all(score["acc"] == 0.0 for score in scores)


@pytest.mark.parametrize("solution", ["", None, "x " * 20_000])
def test_odd_solutions(solution):
    score = compute_process_score("x", solution, "4", {"question": "2 + 2?"}, scorer=SCORER, unscored_value=-1.0)
    assert score["score"] == -1.0 and score["unscored"] == 1.0 and score["undecided"] == 1.0


def test_guide(tmp_path):
    run_guide("verl", tmp_path)
