"""Calls of many threads in few passes: training loops often ask for one score at a time."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from gradus._gradus import GradusError, ScoredSolution, Scorer

__all__ = ["Collector", "score_or_none"]

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


class Collector(Generic[Item, Result]):
    """Gathers the items of many threads for a few milliseconds and works on them in one pass.

    `work` takes a list of items and returns a result for each; `calls` and `passes` count what was asked and what was done.
    """

    def __init__(self, work: Callable[[list[Item]], Sequence[Result]], wait: float = 0.005, max_batch: int = 64) -> None:
        self._work = work
        self._wait = wait
        self._max_batch = max_batch
        self.calls = 0
        self.passes = 0
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: list[tuple[Item, Future[Result]]] = []
        self._running = False

    def submit(self, item: Item) -> "Future[Result]":
        """Hands in an item; the future gets its result, or the error of its pass."""
        if self._process != os.getpid():  # A fork copies the state, but not the thread that works on it.
            self._reset()
        future: Future[Result] = Future()
        with self._lock:
            self.calls += 1
            self._waiting.append((item, future))
            start, self._running = not self._running, True
        if start:
            try:
                threading.Thread(target=self._run, name="gradus-collector", daemon=True).start()
            except RuntimeError:  # No thread is left, or the interpreter is shutting down.
                self._run()
        return future

    def _run(self) -> None:
        time.sleep(self._wait)
        while batch := self._take():
            # What was cancelled in the meantime is left out.
            batch = [(item, future) for item, future in batch if future.set_running_or_notify_cancel()]
            if batch:
                self._pass([item for item, _ in batch], [future for _, future in batch])

    def _take(self) -> "list[tuple[Item, Future[Result]]]":
        with self._lock:
            batch, self._waiting = self._waiting[: self._max_batch], self._waiting[self._max_batch :]
            self._running = bool(batch)
            return batch

    def _pass(self, items: list[Item], futures: "list[Future[Result]]") -> None:
        self.passes += 1
        try:
            results = self._work(items)
            for future, result in zip(futures, results, strict=True):
                future.set_result(result)
        except BaseException as error:  # Whatever it is, nobody may wait forever.
            for future in futures:
                if not future.done():
                    future.set_exception(error)


def score_or_none(
    scorer: Scorer, problems: Sequence[str], solutions: Sequence[str | Sequence[str]]
) -> list[ScoredSolution | None]:
    """Scores solutions; what cannot be scored is None, and so are all if the model fails, which is logged."""
    try:
        return scorer.score_batch(problems, solutions, on_error="skip")
    except GradusError:  # A training run goes on without a few scores.
        logger.exception("%d solutions were not scored", len(solutions))
        return [None] * len(solutions)
