"""The answer of a critic and its reward, by the rule of `gradus train grpo` (Perplexity-aware GRPO, Tian et al., 2026).

An answer is `<critique>…</critique>`, a line with `<verdict>correct</verdict>`, or `<verdict>wrong</verdict>` and a line with
`<step>2</step>`, the 0-based first wrong step. The reward is 0.1 for exactly this form, and 0.8 for a correct solution that
is called so, or 0.6 + F1 for a wrong one that is called so: F1 of the words of the named and of the true step, rounded to
one decimal. `gradus.trl.CriticReward` gives it to TRL.

>>> parse("<critique>7 is odd.</critique>\\n<verdict>wrong</verdict>\\n<step>1</step>", 3).step
1
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["ParsedCritique", "Verdict", "parse", "reward"]

Verdict: TypeAlias = Literal["correct", "wrong"]

_TAGS = ("<critique>", "</critique>", "<verdict>", "</verdict>", "<step>", "</step>")


class ParsedCritique(NamedTuple):
    """What a critic's answer says."""

    critique: str
    verdict: Verdict | None
    """None where it has no verdict, or several."""
    step: int | None
    """The first wrong step, where the verdict is wrong and the index is clear and in range."""
    strict: bool
    """Whether the form was followed exactly."""


def parse(text: str, steps: int) -> ParsedCritique:
    """Reads an answer about a solution of so many steps. White space at either end does not count."""
    text = text.strip()
    verdict, step, clear = _read(text, steps)
    critique = next(iter(_contents(text, "critique")), text)
    written = f"<critique>{critique}</critique>\n<verdict>{'correct' if step is None else 'wrong'}</verdict>"
    written += "" if step is None else f"\n<step>{step}</step>"
    strict = clear and not any(tag in critique for tag in _TAGS) and written == text
    return ParsedCritique(critique, verdict, step, strict)


def reward(parsed: ParsedCritique, truth: int | None, steps: Sequence[str]) -> float:
    """The reward of an answer about steps of which `truth` is the first wrong one; None where all are right."""
    form = 0.1 if parsed.strict else 0.0
    if truth is None and parsed.verdict == "correct":
        return form + 0.8
    if truth is not None and parsed.verdict == "wrong":
        named = "" if parsed.step is None else steps[parsed.step]
        return form + 0.6 + int(_f1(named, steps[truth]) * 10 + 0.5) / 10
    return form


def _read(text: str, steps: int) -> tuple[Verdict | None, int | None, bool]:
    """Verdict, step, and whether both are clear."""
    words = {word.strip().lower() for word in _contents(text, "verdict")}
    verdicts: set[Verdict | None] = {_VERDICTS.get(word) for word in words}
    verdict = verdicts.pop() if len(verdicts) == 1 else None
    if verdict is None:
        return None, None, False
    indices = {_index(index) for index in _contents(text, "step")}
    if verdict == "correct":
        return verdict, None, not indices
    index = indices.pop() if len(indices) == 1 else None
    if index is None or index >= steps:
        return verdict, None, False
    return verdict, index, True


_VERDICTS: dict[str, Verdict] = {"correct": "correct", "wrong": "wrong"}


def _index(text: str) -> int | None:
    return int(text.strip()) if re.fullmatch(r"\+?[0-9]+", text.strip()) else None


def _contents(text: str, tag: str) -> list[str]:
    """What stands between each `<tag>` and the next `</tag>`."""
    return re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)


def _f1(predicted: str, truth: str) -> float:
    """Word F1, as in SQuAD's evaluation but with articles, and with words that are nothing but punctuation."""
    words, true_words = _words(predicted), _words(truth)
    common = (Counter(words) & Counter(true_words)).total()
    return 2 * common / (len(words) + len(true_words)) if common else 0.0


def _words(text: str) -> list[str]:
    bare = ((word, word.translate(_NO_PUNCTUATION)) for word in text.split())
    return [kept.lower() if kept else word for word, kept in bare]


_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
