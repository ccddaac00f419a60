"""Rewards of critiques: the cases and numbers that the trainer's own test reads."""

import json
from pathlib import Path

import pytest

from gradus import critic

# The tests may be run from a copy below the repository.
FILE = "crates/train/tests/reference/critic_rewards.json"
CASES = next(folder / FILE for folder in Path(__file__).resolve().parents if (folder / FILE).is_file())


def test_rewards_equal_those_of_the_trainer() -> None:
    cases = json.loads(CASES.read_text(encoding="utf-8"))
    assert len(cases) >= 12
    for case in cases:
        parsed = critic.parse(case["answer"], len(case["steps"]))
        assert critic.reward(parsed, case["truth"], case["steps"]) == pytest.approx(case["reward"]), case


def test_what_an_answer_says() -> None:
    parsed = critic.parse("<critique>7 is odd.</critique>\n<verdict>wrong</verdict>\n<step>1</step>", 3)
    assert parsed == ("7 is odd.", "wrong", 1, True)
    assert critic.parse("I do not know.", 3).verdict is None
