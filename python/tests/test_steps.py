"""Texts as steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradus


def test_steps_of_a_solution() -> None:
    text = "We add.\n\n1. First 2 + 3 = 5.\n2. Then 5 + 4 = 9.\n\nSo it is 9.\n"
    assert gradus.split_steps(text) == ["We add.", "1. First 2 + 3 = 5.", "2. Then 5 + 4 = 9.", "So it is 9."]
    assert gradus.split_steps(text, "blank_lines")[0] == "We add."
    assert gradus.split_steps("") == []
    assert len(gradus.split_steps("a\n\nbcdef", min_chars=3)) == 1
    with pytest.raises(gradus.GradusError, match="`words` is not one of auto, blank_lines"):
        gradus.split_steps(text, "words")  # type: ignore[arg-type]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300))
def test_spans_count_characters(text: str) -> None:
    spans = gradus.step_spans(text)
    assert [text[start:end] for start, end in spans] == gradus.split_steps(text)
    ends = [place for span in spans for place in span]
    assert ends == sorted(ends)


def test_characters_of_several_bytes() -> None:
    text = "Größe: 3 × 4 = 12 ✓\n\n因此 12"
    assert gradus.step_spans(text) == [(0, 19), (21, 26)]
