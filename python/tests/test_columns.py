"""Cells of users' tables, whatever they hold."""

import pytest

import gradus
from gradus.chat import last_user_message
from gradus.columns import joined, solution_of, text_of, where_known


def test_texts_and_solutions() -> None:
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    chat = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    for value, expected in [("a", "a"), (3, "3"), (numpy.int64(3), "3"), (chat, "4"), (None, None), (float("nan"), None)]:
        assert text_of(value, "c") == expected
    assert text_of(pandas.NA, "c") is None
    assert solution_of(numpy.array(["a", "b"], dtype=object), "c") == ["a", "b"]
    assert solution_of(["a", None], "c") is None
    assert (solution_of(chat, "c"), solution_of([], "c")) == ("4", [])
    assert (joined(["a", "b"]), joined("a"), joined(None)) == ("a\n\nb", "a", None)
    for refused in [{"a": 1}, object()]:
        with pytest.raises(gradus.GradusError, match="column `c` holds"):
            solution_of(refused, "c")
        with pytest.raises(gradus.GradusError, match="column `c` holds"):
            text_of(refused, "c")


def test_rows_without_a_value_have_no_result() -> None:
    add = lambda ones, others: [one + other for one, other in zip(ones, others, strict=True)]  # noqa: E731
    assert where_known(add, [1, None, 3], [1, 2, None]) == [2, None, None]
    assert where_known(add, [None], [None]) == [None]
    assert where_known(add, [], []) == []


def test_the_problem_of_a_prompt() -> None:
    assert last_user_message([{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]) == "1 + 1?"
    assert last_user_message("<|im_start|>user\n1 + 1?<|im_end|>\n<|im_start|>assistant\n") == "1 + 1?"
    assert (last_user_message(" 1 + 1? "), last_user_message(None), last_user_message([])) == ("1 + 1?", "", "")
