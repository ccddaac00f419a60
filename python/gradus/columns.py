"""Cells of users' tables as texts and solutions."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any, TypeAlias

from gradus._gradus import GradusError

__all__ = ["Solution", "joined", "solution_of", "text_of", "where_known"]

Solution: TypeAlias = str | list[str]
"""A text, or steps."""


def text_of(value: Any, column: str) -> str | None:
    """A text, a number as text, the last message of a conversation, or None where there is none."""
    if _is_missing(value):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, Number):
        return str(value)
    if _is_conversation(value):
        return text_of(value[-1].get("content"), column)
    raise GradusError(f"column `{column}` holds {type(value).__name__}: it should hold texts or conversations")


def solution_of(value: Any, column: str) -> Solution | None:
    """A text, a list of steps, the last message of a conversation, or None where there is none."""
    if _is_missing(value) or isinstance(value, str) or _is_conversation(value):
        return text_of(value, column)
    if _is_list(value):
        return None if any(map(_is_missing, value)) else [str(step) for step in value]
    raise GradusError(f"column `{column}` holds {type(value).__name__}: it should hold texts, steps or conversations")


def joined(solution: Solution | None) -> str | None:
    """The whole solution as a text."""
    return "\n\n".join(solution) if isinstance(solution, list) else solution


def where_known(compute: Callable[..., Sequence[Any]], *columns: Sequence[Any]) -> list[Any]:
    """What is computed from the rows that have all their values; the others are None."""
    rows = list(zip(*columns, strict=True))
    known = [row for row in rows if None not in row]
    results = iter(compute(*map(list, zip(*known, strict=True))) if known else [])
    return [None if None in row else next(results) for row in rows]


def _is_missing(value: Any) -> bool:
    """None, NaN, or what pandas has for it."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or type(value).__name__ == "ndarray"


def _is_conversation(value: Any) -> bool:
    return _is_list(value) and len(value) > 0 and isinstance(value[-1], Mapping)
