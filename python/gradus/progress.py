"""Progress bars: tqdm's, which work in terminals and notebooks, where it is installed."""

import sys
import time
from typing import Any

__all__ = ["ProgressBar"]


# Work shorter than this shows no bar, as in a terminal.
_PATIENCE_SECONDS = 2.0


class ProgressBar:
    """A bar for work that takes a while. Without tqdm, notes go to standard error and there is no bar."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._unit = ""
        self._begun = 0.0

    def show(self, done: int, total: int, unit: str, message: str) -> None:
        """Moves to `done` of `total` tasks or bytes; a total of 0 is unknown. Another unit is another bar."""
        if unit != self._unit:
            self.close()
            self._unit, self._begun = unit, time.monotonic()
        if self._bar is None:
            if time.monotonic() - self._begun < _PATIENCE_SECONDS:
                return
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total or None, unit=unit, unit_scale=unit == "bytes")
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
            self._bar = None
