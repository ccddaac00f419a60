"""Numbers of benchmarks, from plain predictions and truths; a number over nothing is None."""

from gradus._gradus import (
    average_precision,
    brier,
    ece,
    expected_best_of_n,
    pass_at_n,
    process_scores,
    roc_auc,
)

__all__ = [
    "average_precision",
    "brier",
    "ece",
    "expected_best_of_n",
    "pass_at_n",
    "process_scores",
    "roc_auc",
]
