"""Progress bars: tqdm's, which work in terminals and notebooks, where it is installed."""

import sys
from typing import Any

__all__ = ["ProgressBar"]


class ProgressBar:
    """A bar that appears with the first progress. Without tqdm, notes go to standard error and there is no bar."""

    def __init__(self) -> None:
        self._bar: Any = None

    def show(self, done: int, total: int, unit: str, message: str) -> None:
        """Moves to `done` of `total` tasks or bytes; a total of 0 is unknown."""
        if self._bar is None:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(unit=unit, unit_scale=unit == "bytes")
        self._bar.total = total or None
        self._bar.n = done
        self._bar.set_description(message, refresh=False)
        self._bar.refresh()

    def note(self, text: str) -> None:
        """Shows a line without disturbing the bar."""
        if self._bar is not None:
            self._bar.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr)

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()
