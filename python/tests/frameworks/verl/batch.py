"""A batch of verl with SmolLM2's tokenizer, and the configuration of verl's PPO trainer."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
import verl
from hydra import compose, initialize_config_dir
from tensordict import TensorDict
from transformers import AutoTokenizer
from verl import DataProto

SMOLLM2 = Path(os.environ.get("GRADUS_HOME", Path.home() / ".gradus")) / "models" / "smollm2-135m"
SCORER = {"model": "smollm2-135m", "profile": "plain"}

PROBLEMS = ["What is 3 + 4?", "What is 5 × 6?", "求 2³ 的值。😀", "What is 1 + 1?"]
RESPONSES = [
    "Take 3.\n\nAdd 4, which gives 7.\n\nThe answer is \\boxed{7}.",
    "Five times six is 35.\n\nSo the answer is \\boxed{35}.",
    "我们计算 2×2×2 😀。\n\n得到 8 🧮🎉。\n\n答案是 \\boxed{8}。",
    "",
]
ANSWERS = ["7", "30", "8", "2"]


def save_tokenizer(folder: Path) -> Any:
    """SmolLM2's tokenizer from its GGUF file, saved as verl wants it, with the configuration of its model."""
    tokenizer = AutoTokenizer.from_pretrained(SMOLLM2, gguf_file=next(SMOLLM2.glob("*.gguf")).name)
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    tokenizer.name_or_path = str(folder)
    return tokenizer


def compose_config(tokenizer: Any, overrides: list[str]) -> Any:
    """The configuration of verl's PPO trainer."""
    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        return compose(
            "ppo_trainer", overrides=[f"actor_rollout_ref.model.path={tokenizer.name_or_path}", *overrides]
        )


def messages(problem: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": problem}]


def make_batch(tokenizer: Any) -> DataProto:
    """Prompts padded on the left, responses with an end of text padded on the right, as verl's rollouts give them."""
    prompts = [
        tokenizer.apply_chat_template(messages(problem), tokenize=False, add_generation_prompt=True)
        for problem in PROBLEMS
    ]
    prompt_ids = [tokenizer(prompt, add_special_tokens=False).input_ids for prompt in prompts]
    ends = [[tokenizer.eos_token_id]] * 3 + [[]]
    response_ids = [
        tokenizer(text, add_special_tokens=False).input_ids + end for text, end in zip(RESPONSES, ends, strict=True)
    ]
    before, after = max(map(len, prompt_ids)), max(map(len, response_ids)) + 3
    pad = tokenizer.pad_token_id
    prompt = torch.tensor([[pad] * (before - len(ids)) + ids for ids in prompt_ids])
    response = torch.tensor([ids + [pad] * (after - len(ids)) for ids in response_ids])
    mask = torch.tensor(
        [
            [0] * (before - len(p)) + [1] * (len(p) + len(r)) + [0] * (after - len(r))
            for p, r in zip(prompt_ids, response_ids, strict=True)
        ]
    )
    tensors = {
        "prompts": prompt,
        "responses": response,
        "input_ids": torch.cat([prompt, response], 1),
        "attention_mask": mask,
    }
    fields = {
        "data_source": ["test"] * 4,
        "reward_model": [{"style": "rule", "ground_truth": answer} for answer in ANSWERS],
        "extra_info": [{"question": problem} for problem in PROBLEMS],
        "raw_prompt": [messages(problem) for problem in PROBLEMS],
        "uid": ["a", "a", "b", "b"],
    }
    objects = {}
    for name, values in fields.items():
        objects[name] = np.empty(4, dtype=object)
        objects[name][:] = values
    return DataProto(batch=TensorDict(tensors, batch_size=4), non_tensor_batch=objects)
