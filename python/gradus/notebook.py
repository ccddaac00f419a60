"""What notebooks show: whole pages in a frame of their own, and tables of numbers."""

from collections.abc import Mapping
from html import escape
from typing import Any

__all__ = ["frame", "table"]


def frame(page: str, height: str = "32em") -> str:
    """A whole page inside a notebook. It may run its own scripts, and reach nothing of the notebook."""
    style = f"width:100%;height:{height};border:0"
    return f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" style="{style}" title="Gradus"></iframe>'


def table(title: str, fields: Mapping[str, Any]) -> str:
    """A table of the fields that are plain values; those of objects inside come with their path."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in _flat("", fields))
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def _flat(prefix: str, fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in fields.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            rows.extend(_flat(f"{path}.", value))
        elif isinstance(value, list):
            rows.append((path, f"{len(value)} entries"))
        elif isinstance(value, float):
            rows.append((path, f"{value:.4g}"))
        else:
            rows.append((path, "" if value is None else str(value)))
    return rows
