"""Models that tests share: loading one takes longer than asking it."""

import os

import pytest
from hypothesis import settings

import gradus

# Times differ from machine to machine; no test asserts one.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

MODEL = {"model": "smollm2-135m", "profile": "plain"}
PROBLEM = "Natalia sold 48 clips in April and half as many in May. How many did she sell?"
RIGHT = ["In May she sold 48 / 2 = 24 clips.", "Together that is 48 + 24 = 72."]
WRONG = ["In May she sold 48 * 2 = 96 clips.", "Together that is 48 + 96 = 144."]


@pytest.fixture(scope="session")
def scorer() -> gradus.Scorer:
    """A language model that judges steps by the words + and -."""
    if "GRADUS_HOME" not in os.environ:
        pytest.skip("GRADUS_HOME does not name a folder with smollm2-135m")
    return gradus.Scorer(**MODEL)
