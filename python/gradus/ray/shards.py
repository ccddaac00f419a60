"""Shards in, shards out: a dataset is scored, sampled, embedded or labeled by a pool of actors that hold a model.

    score_shards("sampled", "scored/scored.jsonl.zst", model="./Qwen2.5-Math-PRM-7B", actors=8, num_gpus=1)

Every shard of the input becomes one shard of the output, with the bytes that the program writes for it: `gradus score
SHARD -o OUTPUT`, and likewise `sample`, `embed` and `annotate monte-carlo`. Seeds belong to problems, solutions and
steps, so the number of actors, their order and restarts change nothing. A shard is the unit of work: it appears whole
or not at all, and a run that is repeated leaves whole shards alone. The manifest beside them is the program's.

Left out: a file is not cut into shards (`--shard-size` of the program does that), and paths are those of a file system
that all nodes share.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus._gradus import Dataset, Embedder, Generator, GradusError, Scorer, shard_entry, shard_names
from gradus.ray.actor import Actor
from gradus.ray.batches import MONTE_CARLO_OPTIONS, SAMPLE_OPTIONS, split_options

import ray.data

if TYPE_CHECKING:
    from gradus._gradus import OnError, StrPath

__all__ = ["ShardsReport", "embed_shards", "monte_carlo_shards", "sample_shards", "score_shards"]

# As the program reads folders.
_ENDINGS = (".json", ".jsonl", ".ndjson", ".parquet")
_NOT_DATA = {"dataset_info.json", "dataset_infos.json", "state.json"}
_MANIFEST = ".manifest.json"


@dataclass(frozen=True)
class ShardsReport:
    """What was written."""

    manifest: Path
    """The list of shards."""
    shards: int
    """Shards in all."""
    kept: int
    """Shards of an earlier run that were left alone."""
    records: int
    """Records in all shards; texts, of embeddings."""
    failed: int
    """Solutions without scores or labels, or problems without solutions, with `on_error="skip"`; tried again next time."""


def score_shards(
    inputs: StrPath | Sequence[StrPath],
    output: StrPath,
    *,
    model: StrPath | None = None,
    name: str | None = None,
    on_error: OnError = "fail",
    actors: int = 1,
    num_cpus: float = 1,
    num_gpus: float = 0,
    shards_per_task: int = 1,
    **options: Any,
) -> ShardsReport:
    """Scores the solutions of shards, as `gradus score` does. Further options are those of `gradus.Scorer`.

    `num_cpus` and `num_gpus` are those of each actor; with a GPU, the model runs on it.
    """
    pool = _Pool(actors, num_cpus, num_gpus, shards_per_task)
    settings = {"model": model, "name": name, "on_error": on_error, **options}
    return _run(_ScoreShard, inputs, output, settings, pool)


def sample_shards(
    inputs: StrPath | Sequence[StrPath],
    output: StrPath,
    *,
    model: StrPath | None = None,
    on_error: OnError = "fail",
    actors: int = 1,
    num_cpus: float = 1,
    num_gpus: float = 0,
    shards_per_task: int = 1,
    **options: Any,
) -> ShardsReport:
    """Samples solutions to the problems of shards. Further options are those of `gradus sample`, such as `solutions=8`."""
    pool = _Pool(actors, num_cpus, num_gpus, shards_per_task)
    return _run(_SampleShard, inputs, output, {"model": model, "on_error": on_error, **options}, pool)


def monte_carlo_shards(
    inputs: StrPath | Sequence[StrPath],
    output: StrPath,
    *,
    model: StrPath | None = None,
    on_error: OnError = "fail",
    actors: int = 1,
    num_cpus: float = 1,
    num_gpus: float = 0,
    shards_per_task: int = 1,
    **options: Any,
) -> ShardsReport:
    """Labels the steps of shards by rollouts. Further options are those of `gradus annotate monte-carlo`."""
    pool = _Pool(actors, num_cpus, num_gpus, shards_per_task)
    return _run(_MonteCarloShard, inputs, output, {"model": model, "on_error": on_error, **options}, pool)


def embed_shards(
    inputs: StrPath | Sequence[StrPath],
    output: StrPath,
    *,
    model: StrPath | None = None,
    actors: int = 1,
    num_cpus: float = 1,
    num_gpus: float = 0,
    shards_per_task: int = 1,
    **options: Any,
) -> ShardsReport:
    """Embeds the problems of shards into `.npy` or `.jsonl`. Further options are those of `gradus.Embedder`."""
    if Path(output).suffix not in (".npy", ".jsonl"):
        raise GradusError(f"{os.fspath(output)}: embeddings are written as .npy or .jsonl")
    pool = _Pool(actors, num_cpus, num_gpus, shards_per_task)
    return _run(_EmbedShard, inputs, output, {"model": model, **options}, pool)


# The stages: an actor holds a model, reads a shard, and writes the one of the output.


class _ShardStage(Actor):
    """Works on rows with `input` and `output`, and returns what the manifest says of each output."""

    # The command that writes the same.
    command = ""
    # Whether a format with a solution to each problem is read as solved problems.
    solutions = True
    # What becomes of invalid records.
    on_error: OnError = "fail"

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        entries = [self._work(Path(source), Path(target)) for source, target in zip(batch["input"], batch["output"])]
        return {"entry": [json.dumps(entry) for entry in entries]}

    def _work(self, source: Path, target: Path) -> dict[str, Any]:
        shard = Dataset.read(source, solutions=self.solutions, on_error=self.on_error)
        records, failed = self.write(shard, target)
        self.count_missing(failed + shard.skipped, records)
        return shard_entry(target, records, failed)

    def write(self, shard: Dataset, target: Path) -> tuple[int, int]:
        """Writes the shard of the output: its records, and how many results are missing."""
        raise NotImplementedError


class _ScoreShard(_ShardStage):
    command = "score"

    def __init__(self, model: StrPath | None, name: str | None, on_error: OnError, **options: Any) -> None:
        super().__init__()
        self.on_error = on_error
        self._how: dict[str, Any] = {"name": name, "on_error": on_error}
        self._scorer = Scorer(model, **options)

    def write(self, shard: Dataset, target: Path) -> tuple[int, int]:
        scored = self._scorer.score_dataset(shard, **self._how)
        return scored.write(target), scored.skipped


class _SampleShard(_ShardStage):
    command = "sample"
    solutions = False

    def __init__(self, model: StrPath | None, on_error: OnError, **options: Any) -> None:
        super().__init__()
        self.on_error = on_error
        self._how, settings = split_options(SAMPLE_OPTIONS, options)
        self._how["on_error"] = on_error
        self._generator = Generator(model, **settings)

    def write(self, shard: Dataset, target: Path) -> tuple[int, int]:
        sampled = self._generator.sample(shard, **self._how)
        return sampled.write(target), sampled.skipped


class _MonteCarloShard(_ShardStage):
    command = "annotate monte-carlo"

    def __init__(self, model: StrPath | None, on_error: OnError, **options: Any) -> None:
        super().__init__()
        self.on_error = on_error
        self._how, settings = split_options(MONTE_CARLO_OPTIONS, options)
        self._how["on_error"] = on_error
        self._generator = Generator(model, **settings)

    def write(self, shard: Dataset, target: Path) -> tuple[int, int]:
        labeled = self._generator.monte_carlo(shard, **self._how)
        return labeled.write(target), labeled.skipped


class _EmbedShard(_ShardStage):
    command = "embed"
    solutions = False

    def __init__(self, model: StrPath | None, **options: Any) -> None:
        super().__init__()
        self._embedder = Embedder(model, **options)

    def write(self, shard: Dataset, target: Path) -> tuple[int, int]:
        return self._embedder.embed_dataset(shard, target), 0


# The driver: what is to be done, and the manifest of what is.


@dataclass(frozen=True)
class _Pool:
    actors: int
    num_cpus: float
    num_gpus: float
    shards_per_task: int


def _run(
    stage: type[Any], inputs: StrPath | Sequence[StrPath], output: StrPath, settings: dict[str, Any], pool: _Pool
) -> ShardsReport:
    if pool.num_gpus > 0:
        # Ray shows an actor its own GPUs only.
        settings = {"device": "cuda", **settings}
    sources = _files(inputs)
    targets, place = _targets(Path(output).absolute(), len(sources))
    manifest = _Manifest.open(place, targets, _fingerprint(stage.command, settings, sources))
    left = [number for number, target in enumerate(targets) if not manifest.is_whole(target)]
    place.parent.mkdir(parents=True, exist_ok=True)
    manifest.write(complete=not left)
    for entry in _worked(stage, [(sources[number], targets[number]) for number in left], settings, pool):
        manifest.add(entry)
        manifest.write(complete=False)
    manifest.write(complete=True)
    records = sum(entry["records"] for entry in manifest.shards)
    failed = sum(entry.get("failed", 0) for entry in manifest.shards)
    return ShardsReport(place, len(targets), len(targets) - len(left), records, failed)


def _worked(
    stage: type[Any], pairs: list[tuple[Path, Path]], settings: dict[str, Any], pool: _Pool
) -> Iterator[dict[str, Any]]:
    """What the manifest says of each shard, as soon as its task is done."""
    if not pairs:
        return
    rows = [{"input": str(source), "output": str(target)} for source, target in pairs]
    tasks = -(-len(rows) // pool.shards_per_task)
    done = ray.data.from_items(rows, override_num_blocks=tasks).map_batches(
        stage,
        fn_constructor_kwargs=settings,
        batch_size=pool.shards_per_task,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(size=min(pool.actors, tasks)),
        num_cpus=pool.num_cpus,
        num_gpus=pool.num_gpus,
    )
    for row in done.iter_rows():
        yield json.loads(row["entry"])


def _files(inputs: StrPath | Sequence[StrPath]) -> list[Path]:
    """The shards of the input: files, or those of folders, by name. A manifest says whether they are all there."""
    paths = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    files = []
    for path in (Path(path).absolute() for path in paths):
        if not path.is_dir():
            if not path.is_file():
                raise GradusError(f"there is no file or folder {path}")
            files.append(path)
            continue
        for manifest in sorted(path.glob(f"*{_MANIFEST}")):
            _check_input(manifest)
        found = [one for one in sorted(path.rglob("*")) if one.is_file() and _is_data(one.relative_to(path))]
        if not found:
            raise GradusError(f"{path} has no data files ({', '.join(_ENDINGS)}, also with .gz or .zst)")
        files += found
    if not files:
        raise GradusError("name at least one file or folder of shards")
    return files


def _is_data(path: Path) -> bool:
    name = path.name
    is_hidden = any(part.startswith(".") for part in path.parts)
    plain = name.removesuffix(".gz").removesuffix(".zst")
    return not is_hidden and plain.endswith(_ENDINGS) and name not in _NOT_DATA and not name.endswith(_MANIFEST)


def _check_input(path: Path) -> None:
    """Refuses shards that a job still writes, or that are missing."""
    manifest = _read_manifest(path)
    if not manifest["complete"]:
        raise GradusError(f"{path}: the job that writes these shards is not complete")
    for entry in manifest["shards"]:
        shard = path.parent / entry["file"]
        if not shard.is_file() or shard.stat().st_size != entry["bytes"]:
            raise GradusError(f"{shard} is missing or not the shard that {path.name} lists")


def _targets(output: Path, count: int) -> tuple[list[Path], Path]:
    """The shards of the output and their manifest, with the names that the program gives them."""
    if output.suffix != ".npy":
        shards, manifest = shard_names(output, count)
        return list(map(Path, shards)), Path(manifest)
    shards, manifest = shard_names(output.with_suffix(".jsonl"), count)
    return [Path(shard).with_suffix(".npy") for shard in shards], Path(manifest)


def _fingerprint(command: str, settings: dict[str, Any], sources: list[Path]) -> str:
    """A hash of what determines the output: command, options and input. A model is known by its name alone."""
    told = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in settings.items()}
    hashed = hashlib.blake2b(json.dumps([command, told], sort_keys=True, default=str).encode(), digest_size=16)
    for source in sources:
        hashed.update(shard_entry(source, 0)["blake3"].encode())
    return f"ray-{hashed.hexdigest()}"


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if manifest["gradus_shards"] == 1 and isinstance(manifest["shards"], list):
            return manifest
    except (ValueError, KeyError, TypeError):
        pass
    raise GradusError(f"{path} is no list of shards of this version: move it away")


class _Manifest:
    """The list of shards that are whole, as the program writes it."""

    def __init__(self, path: Path, job: str, shards: list[dict[str, Any]]) -> None:
        self.path = path
        self.shards = shards
        self._job = job

    @classmethod
    def open(cls, path: Path, targets: list[Path], job: str) -> _Manifest:
        """The manifest of this work, or a new one. Shards of other work are refused, never mixed."""
        known = _read_manifest(path) if path.exists() else None
        if known is not None and known["job"] != job:
            raise GradusError(f"{path} lists shards of other work: remove it and its shards, or name another output")
        names = {target.name for target in targets}
        stem = path.name.removesuffix(_MANIFEST)
        for other in path.parent.glob(f"{stem}-[0-9]*-of-[0-9]*"):
            if other.name not in names:
                raise GradusError(f"{other} is a shard of other work: remove it, or name another output")
        return cls(path, job, known["shards"] if known is not None else [])

    def is_whole(self, target: Path) -> bool:
        """Whether a shard is listed with nothing left out, and its file has the bytes that are listed."""
        listed = next((entry for entry in self.shards if entry["file"] == target.name), None)
        if listed is None or listed.get("failed", 0) or not target.is_file():
            return False
        return shard_entry(target, listed["records"]) == listed

    def add(self, entry: dict[str, Any]) -> None:
        others = [known for known in self.shards if known["file"] != entry["file"]]
        self.shards = sorted([*others, entry], key=lambda known: known["file"])

    def write(self, complete: bool) -> None:
        """Writes it, whole or not at all."""
        # 0: shards are as large as those of the input.
        content = {"gradus_shards": 1, "job": self._job, "shard_size": 0, "complete": complete, "shards": self.shards}
        descriptor, pending = tempfile.mkstemp(prefix=f".gradus-unfinished-{self.path.name}-", dir=self.path.parent)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.chmod(pending, 0o644)
            os.replace(pending, self.path)
        except BaseException:
            Path(pending).unlink(missing_ok=True)
            raise
