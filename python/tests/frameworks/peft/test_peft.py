"""Reward models in transformers and PEFT against the engine: the PRM that the program carries, and small ones that `gradus train` writes here."""

import json
import math
import os
import shutil
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

import gradus
from gradus import peft
from gradus.peft import RewardModel, load_reward_model

sys.path.insert(0, str(Path(__file__).parents[2]))
from guide import run_guide  # noqa: E402

REPOSITORY = Path(__file__).parents[4]
TINY = REPOSITORY / "crates" / "engine" / "tests" / "reference" / "models"
PROBLEM = "Natalia sold 48 clips in April and half as many in May. How many did she sell?"
SOLUTIONS = [
    ["In May she sold 48 / 2 = 24 clips.", "Together that is 48 + 24 = 72."],
    ["48 * 2 = 96 clips in May.", "48 + 96 = 144."],
    ["It is 72."],
    # Digits after blanks and line breaks are where tokenizers differ.
    ["48/2 = 24", "\n\n  12 + 4 = 16 ≠ 15, naïvely 😀", "  7\t8\n\n9", "<|im_end|> <file_sep> 5"],
    [f"{number} + {number} = {2 * number}." for number in range(40)],
]
torch.set_num_threads(1)


def greatest_difference(ours: gradus.Scorer, theirs: RewardModel) -> float:
    differences = []
    for steps in SOLUTIONS:
        expected, found = ours.score(PROBLEM, steps).scores, theirs.score(PROBLEM, steps)
        assert len(expected) == len(found) == len(steps)
        differences += [abs(one - other) for one, other in zip(expected, found)]
    return max(differences)


@pytest.fixture(scope="module")
def gradus_prm() -> RewardModel:
    if "GRADUS_HOME" not in os.environ:
        pytest.skip("GRADUS_HOME does not name a folder with smollm2-135m")
    return load_reward_model("gradus-prm")


def test_the_default_prm_scores_as_the_engine(gradus_prm: RewardModel) -> None:
    ours = gradus.Scorer(precision="f32", dequantize=True)
    difference = greatest_difference(ours, gradus_prm)
    print(f"greatest difference of a score: {difference:.1e}")
    assert difference < 1e-5
    # The engine's logits, from its scores: calibration undone.
    calibration = gradus_prm.profile["calibration"]
    greatest = 0.0
    for steps in SOLUTIONS:
        scores, logits = ours.score(PROBLEM, steps).scores, gradus_prm.logits(PROBLEM, steps)
        assert logits.shape == (len(steps), 2)
        lengths = [calibration["characters"]]
        for step, score, (wrong, right) in zip(steps, scores, logits.tolist()):
            lengths.append(len(step))
            weight = calibration["prior"] * len(step) * len(lengths) / sum(lengths)
            expected = -calibration["temperature"] * math.log((1 / score - 1) / weight)
            greatest = max(greatest, abs(expected - (right - wrong)))
    print(f"greatest difference of a logit: {greatest:.1e}")
    assert greatest < 1e-4


def test_what_cannot_be_scored_is_an_error_or_none(gradus_prm: RewardModel) -> None:
    long = ["again and again, " * 9000]
    for steps, reason in [([], "no steps"), (["a", " "], "step 1 is empty"), (long, "context holds 8192")]:
        with pytest.raises(gradus.GradusError, match=reason):
            gradus_prm.score(PROBLEM, steps)
    some = gradus_prm.score_batch(PROBLEM, ["", "It is 72.", long], on_error="skip")
    assert [one is None for one in some] == [True, False, True]
    assert gradus_prm.score_batch([], []) == []
    with pytest.raises(gradus.GradusError, match="1 problems and 2 solutions"):
        gradus_prm.score_batch(["a"], ["b", "c"])


def test_threads_score_alike(gradus_prm: RewardModel) -> None:
    alone = gradus_prm.score(PROBLEM, SOLUTIONS[0])
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda _: gradus_prm.score(PROBLEM, SOLUTIONS[0]), range(4)))
    assert together == [alone] * 4


# Profile, head and base of small models: every head that a checkpoint can have, and every kind of input.
SMALL = {
    "classes-one-layer": ("qwen2", "trl", "classes"),
    "classes-of-the-base": ("qwen2-token-classification", "trl", "classes"),
    "classes-two-layers": ("qwen2-prm", "qwen2.5-math-prm", "classes"),
    "value-one-layer": ("llama", "skywork-prm", "value"),
    "value-of-the-base": ("skywork", "skywork-prm", "value"),
    "tokens-at-tags": ("mistral", "brief", "tokens"),
    "tokens-in-a-chat": ("qwen3", "rlhflow", "tokens"),
    "tokens-per-step": ("qwen2", "plain", "tokens"),
    "own-profile": ("qwen2", "own.toml", "classes"),
}
OWN_PROFILE = """
name = "own"
description = "a class head with a calibration"
[input]
kind = "tagged"
before = "{% if problem %}Q: {{ problem }}\\n{% endif %}"
step = "{{ number }}. {{ step }}"
tag = "<extra_0>"
after = " "
[score]
kind = "classes"
positive = 0
[calibration]
temperature = 1.5
prior = 0.7
characters = 50
"""


@pytest.mark.parametrize("name", SMALL)
def test_what_gradus_train_writes_scores_as_the_engine(name: str, tmp_path: Path) -> None:
    adapter = trained(*SMALL[name], tmp_path)
    ours, theirs = gradus.Scorer(adapter, precision="f32"), load_reward_model(adapter)
    difference = greatest_difference(ours, theirs)
    print(f"{name}: greatest difference of a score {difference:.1e}")
    assert difference < 1e-5
    # The adapter is what makes the difference.
    with theirs.model.disable_adapter():
        assert greatest_difference(ours, theirs) > 1e-3


def trained(base: str, profile: str, head: str, folder: Path) -> Path:
    """An adapter of a few steps of training."""
    (folder / "own.toml").write_text(OWN_PROFILE)
    gradus.run("synth", output=folder / "train.jsonl", problems=4, difficulty="1-2", progress=False)
    recipe = {
        "model": {"base": str(TINY / base), "precision": "f32"},
        "lora": {"rank": 4, "alpha": 8, "dropout": 0.0, "targets": ["all-linear"]},
        "data": {"train": [str(folder / "train.jsonl")], "max_tokens": 4096},
        "optimizer": {"learning_rate": 0.05, "schedule": "constant"},
        "batch": {"examples": 8},
        "steps": {"total": 2},
        "prm": {"profile": str(folder / profile) if profile.endswith(".toml") else profile, "head": head},
    }
    lines = ['objective = "prm"']
    for section, values in recipe.items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    (folder / "recipe.toml").write_text("\n".join(lines))
    gradus.run("train", "prm", folder / "recipe.toml", output=folder / "run", progress=False)
    return folder / "run" / "adapter"


def test_peft_alone_drops_a_class_head(tmp_path: Path) -> None:
    adapter = trained("qwen2", "trl", "classes", tmp_path)
    alone = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(TINY / "qwen2"), str(adapter))
    assert not any("score" in name for name, _ in alone.named_parameters())
    assert any("score" in name for name, _ in load_reward_model(adapter).model.named_parameters())


def test_a_trainable_model_has_gradients_of_adapter_and_head(tmp_path: Path) -> None:
    reward_model = load_reward_model(trained("qwen2", "trl", "classes", tmp_path), is_trainable=True)
    [prompt] = reward_model.prompts(PROBLEM, SOLUTIONS[0])
    logits = reward_model.model(input_ids=torch.tensor([prompt.token_ids])).logits[0, prompt.reads]
    torch.nn.functional.cross_entropy(logits, torch.tensor([1, 1])).backward()
    learning = {name for name, parameter in reward_model.model.named_parameters() if parameter.grad is not None}
    assert any("lora_A" in name for name in learning) and any("score" in name for name in learning)


def test_adapters_that_are_not_ours_are_refused(tmp_path: Path) -> None:
    def refused(folder: Path, **options: str) -> str:
        with pytest.raises(gradus.GradusError) as error:
            load_reward_model(folder, **options)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "is not an adapter" in refused(tmp_path)
    foreign = TINY / "llama-lora"
    assert "is not a reward model of `gradus train`, since it has no gradus.json" in refused(foreign)
    assert "there is no reward model nowhere/at-all" in refused(Path("nowhere/at-all"))

    ours = trained("qwen2", "trl", "classes", tmp_path)
    note = json.loads((ours / "gradus.json").read_text())

    def changed(name: str, **changes: object) -> Path:
        copy = shutil.copytree(ours, tmp_path / name)
        (copy / "gradus.json").write_text(json.dumps({**note, **changes}))
        return copy

    assert "its objective is sft" in refused(changed("sft", objective="sft", profile=None, head=None))
    assert "later version" in refused(changed("later", gradus=2))
    assert "does not read its head" in refused(changed("head", profile="brief"))
    assert "profile retrieval-prm is not known here" in refused(changed("retrieval", profile="retrieval-prm"))
    assert "does not fit its base" in refused(ours, base=str(TINY / "qwen3"))
    missing = changed("missing", base="no/such-base", hub=None)
    config = json.loads((missing / "adapter_config.json").read_text())
    (missing / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": None}))
    assert "its base no/such-base is missing: `gradus models pull no/such-base`" in refused(missing)
    (missing / "gradus.json").write_text("[]")
    assert "is not a note about a model" in refused(missing)


def test_the_built_in_profiles_are_those_of_the_program() -> None:
    files = {path.stem: tomllib.loads(path.read_text()) for path in (REPOSITORY / "assets" / "profiles").glob("*.toml")}
    del files["retrieval-prm"]
    for profile in files.values():
        del profile["description"]
    assert {name: {"name": name, **profile} for name, profile in peft._BUILT_IN.items()} == files


def test_the_guide_runs(tmp_path: Path) -> None:
    if "GRADUS_HOME" not in os.environ:
        pytest.skip("GRADUS_HOME does not name a folder with smollm2-135m")
    run_guide("peft", tmp_path)
