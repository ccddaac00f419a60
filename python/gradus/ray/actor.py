"""What every actor of a pool does: it uses its part of the node's cores, and counts rows without a result."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

try:
    import ray
    from ray.util.metrics import Counter
except ImportError as error:
    raise ImportError("gradus.ray needs Ray Data: pip install 'ray[data]'") from error

__all__ = ["Actor"]

_LOG = logging.getLogger("gradus.ray")


class Actor:
    """The base of the stages. A model is loaded by the class that derives from it, after this constructor."""

    def __init__(self) -> None:
        self.skipped = 0
        self._metric = Counter("gradus_skipped_rows", "Rows without a result", ("step",))
        _use_assigned_cores()

    def count(self, results: Sequence[object]) -> None:
        """Counts the results that are None."""
        self.count_missing(sum(result is None for result in results), len(results))

    def count_missing(self, missing: int, total: int) -> None:
        """Counts rows without a result, in `skipped`, in the log and in the Ray metric `gradus_skipped_rows`."""
        if missing:
            self.skipped += missing
            step = type(self).__name__
            self._metric.inc(missing, {"step": step})
            _LOG.warning("%s: %d of %d rows have no result", step, missing, total)


def _use_assigned_cores() -> None:
    """Computes with as many threads as Ray assigned cores, so that the actors of a node do not fight for them."""
    here = ray.get_runtime_context() if ray.is_initialized() else None
    if here is None or here.get_actor_id() is None:
        return
    assigned: dict[str, float] = here.get_assigned_resources()  # type: ignore[no-untyped-call]
    cores = int(assigned.get("CPU", 0))
    if cores > 0:
        os.environ.setdefault("RAYON_NUM_THREADS", str(cores))
