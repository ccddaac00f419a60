"""Process supervision for reasoning language models.

>>> import gradus
>>> gradus.grade("1/2", "So the answer is 0.5.").correct
True
>>> gradus.split_steps("First, 2 + 3 = 5.\\n\\nSo 5.")
['First, 2 + 3 = 5.', 'So 5.']

The command line is installed with the package: `gradus --help`, or `gradus.run("bench", "processbench", ...)`.
"""

from gradus import metrics
from gradus._gradus import (
    Dataset,
    Embedder,
    Generator,
    Grade,
    GradusError,
    Pool,
    ScoredSolution,
    Scorer,
    __version__,
    aggregate,
    compare,
    extract_answer,
    grade,
    grade_batch,
    select,
    split_steps,
    step_spans,
)
from gradus.program import Report, run
from gradus.training import TrainingRun

__all__ = [
    "Dataset",
    "Embedder",
    "Generator",
    "Grade",
    "GradusError",
    "Pool",
    "Report",
    "ScoredSolution",
    "Scorer",
    "TrainingRun",
    "__version__",
    "aggregate",
    "compare",
    "extract_answer",
    "grade",
    "grade_batch",
    "metrics",
    "run",
    "select",
    "split_steps",
    "step_spans",
]
