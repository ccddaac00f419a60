import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, overload

from typing_extensions import Unpack, final

StrPath: TypeAlias = str | os.PathLike[str]
Aggregation: TypeAlias = Literal["last", "min", "product", "mean", "norm_product"]
Rule: TypeAlias = Literal["threshold", "posterior"]
OnError: TypeAlias = Literal["fail", "skip"]
SplitStrategy: TypeAlias = Literal["auto", "blank_lines", "numbered", "step_markers", "lines", "sentences"]

__version__: str

class GradusError(Exception):
    """What went wrong, in one sentence: what, where, and how to mend it."""

class LocalOptions(TypedDict, total=False):
    """How a local model runs."""

    precision: Literal["f32", "bf16x3", "bf16"] | None
    dequantize: bool
    keep_quantized: bool
    max_batch_tokens: int | None

class EndpointOptions(TypedDict, total=False):
    """Servers of a model, and how they are called."""

    endpoint: str | Sequence[str] | None
    key_env: str | None
    key_file: StrPath | None
    concurrency: int | None
    requests_per_minute: float | None
    tokens_per_minute: float | None
    timeout: float | None
    retries: int | None
    cache: StrPath | None
    cache_size: int | str | None
    no_cache: bool
    no_request_seed: bool
    prices: StrPath | None
    dialect: Literal["open", "openai"] | None

class RetrievalOptions(TypedDict, total=False):
    """What is retrieved from a pool."""

    questions: int
    reference_steps: int
    candidate_questions: int
    strategy: Literal["nearest", "tf-idf", "random"]
    retrieval_seed: int
    jaccard_threshold: float
    cosine_threshold: float
    allow_duplicates: bool

class ScorerOptions(LocalOptions, EndpointOptions, RetrievalOptions, total=False):
    """Further options of `gradus score`."""

    api: Literal["pooling", "score", "completions"]
    tokenizer: StrPath | None
    encoder: StrPath | None

class EmbedderOptions(LocalOptions, EndpointOptions, total=False):
    """Further options of `gradus embed`."""

    recorded: StrPath | None

class GeneratorOptions(LocalOptions, EndpointOptions, total=False):
    """Further options of `gradus sample` and `gradus annotate monte-carlo` that choose a model."""

    adapter: StrPath | None
    recorded: StrPath | None
    system: str | None
    raw: bool
    template: StrPath | None

class SampleOptions(TypedDict, total=False):
    """How solutions are drawn: options of `gradus sample`."""

    solutions: int
    max_tokens: int
    temperature: float
    top_p: float
    stop: str | Sequence[str]
    steps: SplitStrategy
    prompt: StrPath | None
    seed: int

class MonteCarloOptions(TypedDict, total=False):
    """How steps are labeled: options of `gradus annotate monte-carlo`."""

    samples: int
    threshold: int
    labels: Literal["hard", "soft"]
    search: Literal["linear", "binary"]
    no_early_stop: bool
    max_tokens: int
    temperature: float
    prompt: StrPath | None
    continue_prompt: StrPath | None
    seed: int

class PoolOptions(LocalOptions, EndpointOptions, RetrievalOptions, total=False):
    """Further options of `gradus pool search`."""

@final
class Grade:
    """Whether an answer is the right one."""

    def __new__(cls, verdict: str, reason: str | None = None, answer: str | None = None) -> Grade: ...
    def __getnewargs__(self) -> tuple[str, str | None, str | None]: ...
    @property
    def verdict(self) -> Literal["equal", "different", "undecided"]: ...
    @property
    def reason(self) -> str | None:
        """Why it is undecided."""
    @property
    def answer(self) -> str | None:
        """The answer that was compared."""
    @property
    def correct(self) -> bool | None:
        """True, False, or None where it is undecided."""
    def __bool__(self) -> bool:
        """True for an answer that is surely right."""

def grade(gold: str, solution: str) -> Grade:
    """Finds the final answer of a solution, or takes a bare answer, and compares it with the right one."""

def grade_batch(golds: Sequence[str], solutions: Sequence[str]) -> list[Grade]:
    """Grades many solutions on all cores."""

def compare(gold: str, answer: str) -> Grade:
    """Compares two final answers; nothing is searched in either."""

def extract_answer(solution: str) -> str | None:
    """The final answer that a solution states, or None."""

def split_steps(text: str, strategy: SplitStrategy = "auto", *, min_chars: int = 0) -> list[str]:
    """Splits a solution into steps, by default as its text suggests."""

def step_spans(text: str, strategy: SplitStrategy = "auto", *, min_chars: int = 0) -> list[tuple[int, int]]:
    """Where each step begins and ends: `text[start:end]` is the step."""

@final
class ScoredSolution:
    """A solution with the scores of its steps."""

    def __new__(
        cls,
        problem: str,
        steps: Sequence[str],
        scores: Sequence[float],
        name: str = "",
        decision: tuple[Rule, float] | None = None,
        exact_checks: bool = False,
    ) -> ScoredSolution: ...
    def __getnewargs__(self) -> tuple[str, list[str], list[float], str, tuple[Rule, float], bool]: ...
    @property
    def problem(self) -> str: ...
    @property
    def steps(self) -> list[str]: ...
    @property
    def scores(self) -> list[float]:
        """For each step, how probable it is that it and all before it are right."""
    @property
    def name(self) -> str:
        """The name of the scores: model and profile."""
    @property
    def decision(self) -> tuple[Rule, float]:
        """The rule by which the scores become a first error, that of the model's profile, and its threshold or prior."""
    @property
    def exact_checks(self) -> bool:
        """Whether arithmetic that is proved wrong is an error, whatever the scores say: by the profile."""
    def first_error(
        self, threshold: float | None = None, *, rule: Rule | None = None, prior: float | None = None
    ) -> int | None:
        """The first error by the profile's rule, or by the one that is named, and by exact checks where the profile has
        them, from 0; None where there is none."""
    def posterior(self, prior: float | None = None) -> list[float]:
        """How probable it is that the first error is in each step, and at the end that there is none."""
    def aggregate(self, aggregation: Aggregation = "last") -> float | None:
        """One number for the solution."""
    def __len__(self) -> int: ...
    def _repr_html_(self) -> str: ...

@final
class Scorer:
    """A process reward model: local, or behind servers."""

    def __new__(
        cls,
        model: StrPath | None = None,
        *,
        adapter: StrPath | None = None,
        profile: StrPath | None = None,
        pool: StrPath | None = None,
        device: str | None = None,
        **settings: Unpack[ScorerOptions],
    ) -> Scorer:
        """Loads a model, or prepares connections to servers. Nothing is downloaded: `gradus models pull` does that."""
    @property
    def model(self) -> str: ...
    @property
    def profile(self) -> str | None: ...
    @property
    def name(self) -> str:
        """What its scores are called in datasets: model and profile."""
    def score(self, problem: str, solution: str | Sequence[str]) -> ScoredSolution:
        """Scores one solution of a problem: its text, which is split into steps, or its steps."""
    @overload
    def score_batch(
        self,
        problems: str | Sequence[str],
        solutions: Sequence[str | Sequence[str]],
        *,
        on_error: Literal["fail"] = "fail",
    ) -> list[ScoredSolution]:
        """Scores many solutions in few passes."""
    @overload
    def score_batch(
        self, problems: str | Sequence[str], solutions: Sequence[str | Sequence[str]], *, on_error: Literal["skip"]
    ) -> list[ScoredSolution | None]:
        """Scores many solutions in few passes; one that cannot be scored is None."""
    def score_async(self, problem: str, solution: str | Sequence[str]) -> asyncio.Future[ScoredSolution]:
        """As `score`, to be awaited. Cancelling stops the work."""
    @overload
    def score_batch_async(
        self,
        problems: str | Sequence[str],
        solutions: Sequence[str | Sequence[str]],
        *,
        on_error: Literal["fail"] = "fail",
    ) -> asyncio.Future[list[ScoredSolution]]:
        """As `score_batch`, to be awaited. Cancelling stops the work."""
    @overload
    def score_batch_async(
        self, problems: str | Sequence[str], solutions: Sequence[str | Sequence[str]], *, on_error: Literal["skip"]
    ) -> asyncio.Future[list[ScoredSolution | None]]:
        """As `score_batch`, to be awaited; one that cannot be scored is None."""

    def score_dataset(self, dataset: Dataset, *, name: str | None = None, on_error: OnError = "fail") -> Dataset:
        """Scores the solutions of a dataset, as `gradus score` does; `skipped` counts those without scores."""

@final
class Generator:
    """A language model: local, or behind servers."""

    def __new__(
        cls, model: StrPath | None = None, *, device: str | None = None, **settings: Unpack[GeneratorOptions]
    ) -> Generator:
        """Loads a model, or prepares connections to servers. Nothing is downloaded: `gradus models pull` does that."""
    @property
    def model(self) -> str: ...
    def sample(self, problems: Dataset, *, on_error: OnError = "fail", **settings: Unpack[SampleOptions]) -> Dataset:
        """Samples solutions, as `gradus sample` does; `skipped` counts problems that are left out."""
    def monte_carlo(
        self, solutions: Dataset, *, on_error: OnError = "fail", **settings: Unpack[MonteCarloOptions]
    ) -> Dataset:
        """Labels steps by rollouts, as `gradus annotate monte-carlo` does; `skipped` counts solutions without labels."""

@final
class Embedder:
    """An embedding model: local, or behind servers."""

    def __new__(
        cls, model: StrPath | None = None, *, device: str | None = None, **settings: Unpack[EmbedderOptions]
    ) -> Embedder: ...
    @property
    def model(self) -> str: ...
    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 for each text."""
    def embed_dataset(self, dataset: Dataset, path: StrPath) -> int:
        """Writes the embeddings of a dataset's problems, as `gradus embed` does: `.npy`, or JSONL."""
    def embed_async(self, texts: Sequence[str]) -> asyncio.Future[list[list[float]]]:
        """As `embed`, to be awaited. Cancelling stops the work."""

@final
class Pool:
    """A pool of solved problems, from which references of new ones are retrieved."""

    def __new__(
        cls,
        folder: StrPath,
        *,
        encoder: StrPath | None = None,
        device: str | None = None,
        **settings: Unpack[PoolOptions],
    ) -> Pool: ...
    def search(self, question: str, steps: Sequence[str] = ()) -> dict[str, Any]:
        """Solved problems like this one, and for each step solved steps like it; never the problem itself."""
    def __len__(self) -> int: ...

@final
class Dataset(Sequence[dict[str, Any]]):
    """Problems with their solutions, labels and scores."""

    @staticmethod
    def read(
        *paths: StrPath,
        format: str | None = None,
        map: str | None = None,
        problem: str | None = None,
        on_error: OnError = "fail",
        solutions: bool = True,
    ) -> Dataset:
        """Reads files, folders of shards, or "-"; formats are recognized. Texts are split into steps."""
    @staticmethod
    def from_rows(
        rows: Iterable[Any], *, format: str | None = None, map: str | None = None, on_error: OnError = "fail"
    ) -> Dataset:
        """Takes rows as dicts: of a list, or of a table of datasets, pandas, polars or pyarrow."""
    @staticmethod
    def merge(*datasets: Dataset) -> Dataset:
        """The records of several datasets, joined by problem."""
    def write(self, path: StrPath, *, format: str = "gradus") -> int:
        """Writes a file; its name says the container. Returns the number of rows."""
    def to_list(self) -> list[dict[str, Any]]:
        """All records as dicts, in Gradus format."""
    def to_arrow(self) -> Any:
        """A table of pyarrow with a row for each solution; nothing is copied."""
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def to_datasets(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    @property
    def skipped(self) -> int:
        """Invalid records that were left out, or what a model could not take."""
    @property
    def solutions(self) -> int:
        """Solutions in all."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> dict[str, Any]: ...  # type: ignore[override]
    def _repr_html_(self) -> str: ...

def shard_names(output: StrPath, count: int) -> tuple[list[os.PathLike[str]], os.PathLike[str]]:
    """The files of an output in `count` shards, and its manifest."""

def shard_entry(path: StrPath, records: int, failed: int = 0) -> dict[str, Any]:
    """What a manifest says of a shard: its name, records, size and BLAKE3 hash."""

def select(
    *,
    scores: Sequence[float | None] | None = None,
    answers: Sequence[str | None] | None = None,
    by: Literal["best", "vote", "majority"] = "best",
    vote_power: float = 1.0,
) -> int:
    """The index of the chosen solution: by its score, by the sum of its answer's scores, or by its answer's votes."""

def aggregate(scores: Sequence[float], aggregation: Aggregation = "last") -> float | None:
    """One number from the scores of a solution's steps."""

def expected_best_of_n(scores: Sequence[float | None], correct: Sequence[bool], n: int) -> float | None:
    """The exact expectation, over all subsets of `n` candidates, that the best by score is right."""

def pass_at_n(correct: Sequence[bool], n: int) -> float | None:
    """The exact expectation, over all subsets of `n` candidates, that one is right."""

def process_scores(predicted: Sequence[int | None], truth: Sequence[int]) -> dict[str, Any]:
    """ProcessBench's numbers. A prediction and a truth are the first wrong step, from 0; -1 is none; None is unreadable."""

def roc_auc(scores: Sequence[float], correct: Sequence[bool]) -> float | None: ...
def average_precision(scores: Sequence[float], correct: Sequence[bool]) -> float | None: ...
def ece(scores: Sequence[float], correct: Sequence[bool]) -> float | None: ...
def brier(scores: Sequence[float], correct: Sequence[bool]) -> float | None: ...
