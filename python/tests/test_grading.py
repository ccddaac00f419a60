"""The grader from Python: verdicts, threads, and whatever texts there are."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradus

CASES = [
    ("1/2", "So the answer is 0.5.", True),
    ("1/2", "0.5", True),
    (r"\frac{\sqrt{3}}{3}", r"1/\sqrt{3}", True),
    ("72", "She sold \\boxed{71} clips.", False),
    ("72", "I do not know.", None),
    ("", "72", None),
]


@pytest.mark.parametrize(("gold", "solution", "correct"), CASES)
def test_verdicts(gold: str, solution: str, correct: bool | None) -> None:
    grade = gradus.grade(gold, solution)
    assert grade.correct is correct
    assert bool(grade) is (correct is True)
    assert (grade.reason is None) == (correct is not None)


def test_what_was_compared() -> None:
    grade = gradus.grade("72", r"48 + 24 = 72, so \boxed{72}.")
    assert (grade.verdict, grade.answer) == ("equal", "72")
    assert gradus.extract_answer(r"so \boxed{72}.") == "72"
    assert gradus.extract_answer("") is None
    assert gradus.compare("(-2, 3]", r"-2 < x \le 3").correct
    assert repr(grade) == 'Grade(equal, answer="72")'
    assert grade == gradus.grade("72", r"48 + 24 = 72, so \boxed{72}.")


def test_a_batch_is_its_parts_in_any_number_of_threads() -> None:
    golds, solutions, _ = zip(*CASES, strict=True)
    alone = [gradus.grade(gold, solution) for gold, solution in zip(golds, solutions, strict=True)]
    assert gradus.grade_batch(golds, solutions) == alone
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(lambda _: gradus.grade_batch(golds, solutions), range(40)):
            assert found == alone
    assert gradus.grade_batch([], []) == []
    with pytest.raises(gradus.GradusError, match="2 gold answers and 1 solutions"):
        gradus.grade_batch(["1", "2"], ["1"])


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_texts_get_a_verdict(gold: str, solution: str) -> None:
    assert gradus.grade(gold, solution).verdict in {"equal", "different", "undecided"}
    assert gradus.compare(gold, solution).verdict in {"equal", "different", "undecided"}


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError):
        gradus.grade(1, "2")  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        gradus.grade("\ud800", "2")


def test_huge_texts_take_no_longer_than_they_must() -> None:
    assert gradus.grade("1", "(" * 1_000_000).correct is None
    assert gradus.grade("1", "so 1. " * 200_000 + r"\boxed{1}").correct
