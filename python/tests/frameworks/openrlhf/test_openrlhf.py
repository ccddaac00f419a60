"""OpenRLHF's own loader and single-turn executor with our reward function.

Run for real: `SingleTurnAgentExecutor` (loading of the file, `execute`, `_fetch_rewards_via_func` with its threads), SmolLM2's
tokenizer, the grader, and SmolLM2 as reward model. In place of vLLM, which needs a GPU: an engine that replays prepared responses.
"""

import asyncio
import os
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from openrlhf.utils.agent import SingleTurnAgentExecutor
from transformers import AutoTokenizer

import gradus
import gradus.openrlhf
from gradus.batching import Collector
from gradus.chat import last_user_message
from gradus.openrlhf import Reward, response_text

sys.path.insert(0, str(Path(__file__).parents[2]))
from guide import run_guide  # noqa: E402

SMOLLM2 = Path(os.environ.get("GRADUS_HOME", Path.home() / ".gradus")) / "models" / "smollm2-135m"
REWARD_FILE = """
import gradus
from gradus.openrlhf import Reward

reward_func = Reward(gradus.Scorer("smollm2-135m", profile="plain"), aggregation="mean", answer_weight=1.0, wait=0.05)
"""


@pytest.fixture(scope="module")
def scorer():
    return gradus.Scorer("smollm2-135m", profile="plain")


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(SMOLLM2, gguf_file=next(SMOLLM2.glob("*.gguf")).name)


def problem(number):
    return f"What is {number} + {number}?"


def response(number):
    answer = 2 * number + (number % 3 == 0)
    return f"“{number} × 2” is {answer}.\n\nThe answer is \\boxed{{{answer}}}."


@pytest.fixture(scope="module")
def direct(scorer):
    """What the reward of each number has to be, by Gradus alone."""
    scored = scorer.score_batch([problem(number) for number in range(64)], [response(number) for number in range(64)])
    correct = [gradus.grade(str(2 * number), response(number)).correct for number in range(64)]
    return [float(right) + solution.aggregate("mean") for right, solution in zip(correct, scored, strict=True)]


class ReplayEngine:
    """Stands in for vLLM: answers the prompt of a number with its prepared response."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    async def generate(self, prompt_token_ids, sampling_params, multi_modal_data=None):
        await asyncio.sleep(0)
        prompt = self.tokenizer.decode(prompt_token_ids)
        text = response(int(prompt.split("What is ")[1].split(" ")[0])) + self.tokenizer.eos_token
        token_ids = self.tokenizer(text, add_special_tokens=False).input_ids
        output = SimpleNamespace(token_ids=token_ids, text=text, finish_reason="stop", logprobs=None)
        return SimpleNamespace(outputs=[output])


async def execute_all(executor, tokenizer, numbers):
    """OpenRLHF's rollouts, all at once, with a thread for each call of the reward function."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
    sampling = SimpleNamespace(max_tokens=256, logprobs=None)
    return await asyncio.gather(
        *[
            executor.execute(
                tokenizer.apply_chat_template(
                    [{"role": "user", "content": problem(number)}], tokenize=False, add_generation_prompt=True
                ),
                str(2 * number),
                sampling,
                1024,
                tokenizer,
                ReplayEngine(tokenizer),
            )
            for number in numbers
        ]
    )


@pytest.fixture(scope="module")
def rollouts(tokenizer, tmp_path_factory):
    """64 rollouts of OpenRLHF's executor with a reward file that it loaded."""
    file = tmp_path_factory.mktemp("reward") / "reward.py"
    file.write_text(REWARD_FILE)
    executor = SingleTurnAgentExecutor(str(file))
    return executor.reward_func, asyncio.run(execute_all(executor, tokenizer, range(64)))


def test_executor_equals_gradus(rollouts, direct):
    reward, outputs = rollouts
    for number, output in enumerate(outputs):
        assert float(output["reward"]) == pytest.approx(direct[number], abs=1e-6)
        assert float(output["scores"]) == float(number % 3 != 0)
        assert output["extra_logs"]["undecided"] == 0 and output["extra_logs"]["unscored"] == 0
    assert reward.collector.calls == 64
    assert reward.collector.passes < 16
    print(f"\n{reward.collector.calls} calls in {reward.collector.passes} passes")


def test_experiences(rollouts):
    """What the trainer makes of the outputs; needs vLLM and Ray to be imported, nothing of them runs."""
    pytest.importorskip("vllm", reason="OpenRLHF's samples_generator imports vllm", exc_type=ImportError)
    generator = pytest.importorskip("openrlhf.trainer.ppo_utils.samples_generator", exc_type=ImportError)
    make = generator.SamplesGenerator._process_response_into_experience
    for output in rollouts[1][:4]:
        experience = make(None, output, max_len=1024)
        assert experience.rewards.shape == (1,) and torch.isfinite(experience.rewards).all()
        assert experience.info["undecided"].tolist() == [0.0]
        assert set(experience.info) >= {"reward", "score", "correct", "process_score", "unscored"}


def test_threads(scorer, direct):
    reward = Reward(scorer, aggregation="mean", answer_weight=1.0, wait=0.05)
    with ThreadPoolExecutor(64) as pool:
        results = list(
            pool.map(lambda n: reward([problem(n) + response(n)], [problem(n)], [str(2 * n)]), range(64))
        )
    for number, result in enumerate(results):
        assert float(result["rewards"]) == pytest.approx(direct[number], abs=1e-6)
    assert reward.collector.calls == 64 and reward.collector.passes < 16


def test_this_module_is_a_reward_file():
    executor = SingleTurnAgentExecutor(gradus.openrlhf.__file__)
    queries = ["2 + 2?The answer is 4.<|im_end|>", "2 + 2?The answer is 5.</s>", "2 + 2?I cannot tell."]
    results = asyncio.run(executor._fetch_rewards_via_func(queries, ["2 + 2?"] * 3, ["4"] * 3))
    assert [result["rewards"].tolist() for result in results] == [[1.0], [0.0], [0.0]]
    assert [result["extra_logs"]["undecided"].tolist() for result in results] == [[0.0], [0.0], [1.0]]


def test_undecided_is_not_wrong():
    reward = Reward(undecided_value=0.5)
    result = reward(["no answer", "so 5."], ["", ""], ["4", "4"])
    assert result["rewards"].tolist() == [0.5, 0.0]
    assert result["extra_logs"]["undecided"].tolist() == [1.0, 0.0]


def test_no_labels(scorer):
    result = Reward(scorer)(["2 + 2 = 4.\n\nSo 4."], [""], [None])
    assert result["scores"].tolist() == result["rewards"].tolist() != [0.0]


@pytest.mark.parametrize("query", ["", None, "x " * 20_000, "\n \n", "𝟚" * 10])
def test_odd_responses(scorer, query):
    result = Reward(scorer, unscored_value=-1.0)([query], [""], ["4"])
    assert torch.isfinite(result["rewards"]).all() and result["extra_logs"]["undecided"].tolist() == [1.0]
    assert (result["extra_logs"]["unscored"].tolist() == [1.0]) == (result["rewards"].tolist() == [-1.0])


def test_empty_batch(scorer):
    for reward in (Reward(), Reward(scorer)):
        assert reward([], [], [])["rewards"].shape == (0,)


def test_model_that_fails_does_not_end_the_run(caplog):
    scorer = gradus.Scorer("m", endpoint="http://127.0.0.1:9/v1", profile="plain", retries=0, tokenizer=None)
    result = Reward(scorer)(["2 + 2 = 4."], [""], ["4"])
    assert result["extra_logs"]["unscored"].tolist() == [1.0]


def test_response_text():
    prompt = "<|im_start|>user\n" + "a long question " * 20 + "<|im_end|>\n<|im_start|>assistant\n"
    assert response_text(prompt + "It is 4.<|im_end|>\n", prompt) == "It is 4."
    assert response_text(prompt[100:] + "It is 4.<｜end▁of▁sentence｜>", prompt) == "It is 4."
    assert response_text("It is 4.</s>", None) == "It is 4."
    assert response_text("if x<|y|> holds, then 4", "") == "if x<|y|> holds, then 4"


def test_last_user_message(tokenizer):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": [{"type": "text", "text": "2 + 2?"}]},
    ]
    assert last_user_message(messages) == "2 + 2?"
    plain = [*messages[:3], {"role": "user", "content": "2 + 2?"}]
    text = tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
    assert last_user_message(text) == last_user_message(" 2 + 2?\n") == "2 + 2?"
    assert last_user_message("<s>[INST] 2 + 2? [/INST]") == "2 + 2?"
    assert last_user_message("<|start_header_id|>user<|end_header_id|>\n\n2 + 2?<|eot_id|>") == "2 + 2?"
    assert last_user_message(None) == ""


def test_collector_errors_reach_all():
    def fail(items):
        raise ValueError("no")

    collector = Collector(fail, wait=0.02)
    futures = [collector.submit(item) for item in range(8)]
    for future in futures:
        with pytest.raises(ValueError, match="no"):
            future.result(timeout=10)
    assert collector.passes == 1


def test_collector_limits_and_cancels():
    sizes = []
    collector = Collector(lambda items: [sizes.append(len(items))] * len(items), wait=0.05, max_batch=8)
    futures = [collector.submit(item) for item in range(20)]
    assert futures[3].cancel()
    for number, future in enumerate(futures):
        if number == 3:
            with pytest.raises(CancelledError):
                future.result(timeout=10)
        else:
            future.result(timeout=10)
    assert sizes == [7, 8, 4]


def test_collector_after_fork():
    collector = Collector(lambda items: items, wait=0.2)
    waiting = collector.submit(1)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if collector.submit(2).result(timeout=10) == 2 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert waiting.result(timeout=10) == 1
    assert threading.active_count() < 100


def test_guide(tmp_path):
    run_guide("openrlhf", tmp_path)
