"""Calls from Python: what they cost beside the program, and peers on the same work in the same run.

    python benches/python.py [--grade 10000] [--score 200]

Needs the wheel (make wheel), math-verify, and for the last part torch, transformers and peft; GRADUS_HOME has gradus-prm and
smollm2-135m, GRADUS_DATA the best-of-n sets. Prints one line for each figure.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gradus
from gradus.program import program_path

sys.path.insert(0, str(Path(__file__).parent / "peers"))
ROUNDS = 3
THREADS = 8
BATCH = 32


def best(work, rounds=ROUNDS):
    """The shortest time of several, in seconds."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def show(what, value, note=""):
    print(f"{what:58} {value:>12}  {note}", flush=True)


def call_overhead():
    calls = 20_000
    seconds = best(lambda: [gradus.grade("72", "72") for _ in range(calls)])
    show("a call of grade on a bare answer", f"{seconds / calls * 1e6:.1f} µs")
    golds = ["72"] * calls
    seconds = best(lambda: gradus.grade_batch(golds, golds))
    show("the same in grade_batch", f"{seconds / calls * 1e6:.1f} µs")


def solutions(count):
    """Solutions of several problems, eight of each, as `gradus score` reads them."""
    rows = []
    for number in range(count):
        a, b = number // 8 + 3, number % 8 + 2
        problem = f"A box has {a} rows of {b} eggs. Two boxes were sold, and 3 eggs were broken. How many whole eggs were sold?"
        steps = [f"One box has {a} * {b} = {a * b} eggs.", f"Two boxes have {2 * a * b} eggs.", f"Whole ones: {2 * a * b - 3}."]
        rows.append({"problem": problem, "steps": steps})
    return rows


def score_overhead():
    rows = solutions(64)
    problems, steps = [row["problem"] for row in rows], [row["steps"] for row in rows]
    scorer = gradus.Scorer("smollm2-135m", profile="plain")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.jsonl"
        gradus.Dataset.from_rows(rows).write(path)
        command = [program_path(), "score", str(path), "--model", "smollm2-135m", "--profile", "plain", "--json"]

        def program():
            printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
            return json.loads(printed)["seconds"]

        ratios = []
        scorer.score_batch(problems, steps)
        for _ in range(ROUNDS):
            here = best(lambda: scorer.score_batch(problems, steps), 1)
            there = program()
            ratios.append((here / there, here, there))
    ratio, here, there = sorted(ratios)[len(ratios) // 2]
    show("64 solutions: Python's call over the program's computing", f"{ratio:.3f}", f"{here:.2f} s and {there:.2f} s")


def math_verify(count):
    from grade import pairs
    from math_verify import parse, verify

    sample = pairs(os.environ.get("GRADUS_DATA", "../shared/data"), count)
    golds, texts = [pair["gold"] for pair in sample], [pair["text"] for pair in sample]
    with ThreadPoolExecutor(THREADS) as threads:
        # A pool of threads costs more for each call than the grade does.
        begun = time.perf_counter()
        list(threads.map(lambda gold, _: gold, golds, texts))
        idle_rate = len(sample) / (time.perf_counter() - begun)
        begun = time.perf_counter()
        ours = list(threads.map(gradus.grade, golds, texts))
        our_rate = len(sample) / (time.perf_counter() - begun)

        def theirs(gold, text):
            try:
                return verify(parse(f"${gold}$"), parse(text))
            except Exception as error:
                return error

        def untimed(gold, text):
            return verify(
                parse(f"${gold}$", parsing_timeout=None), parse(text, parsing_timeout=None), timeout_seconds=None
            )

        begun = time.perf_counter()
        as_users_call_it = list(threads.map(theirs, golds, texts))
        their_rate = len(sample) / (time.perf_counter() - begun)
        begun = time.perf_counter()
        without_limit = list(threads.map(untimed, golds, texts))
        untimed_rate = len(sample) / (time.perf_counter() - begun)
    show(f"grade, {THREADS} threads, {len(sample)} pairs", f"{our_rate:,.0f} /s", f"threads that do nothing {idle_rate:,.0f} /s")
    batch_time = best(lambda: gradus.grade_batch(golds, texts))
    show("the same in grade_batch", f"{len(sample) / batch_time:,.0f} /s")
    equal, undecided = sum(map(bool, ours)), sum(one.correct is None for one in ours)
    show("  equal, undecided", f"{equal}, {undecided}")
    raised = sum(isinstance(one, Exception) for one in as_users_call_it)
    right = sum(one is True for one in as_users_call_it)
    show(f"math-verify, {THREADS} threads", f"{their_rate:,.0f} /s", f"{right} equal, {raised} raised")
    show("math-verify without its time limit", f"{untimed_rate:,.0f} /s", f"{sum(map(bool, without_limit))} equal")
    show("ratio to math-verify without its limit", f"{our_rate / untimed_rate:,.0f} ×")
    missed = sum(bool(a) and one is not True for a, one in zip(without_limit, as_users_call_it, strict=True))
    show("  right answers that it calls wrong, or fails on, in threads", str(missed))


def transformers(count):
    import torch

    from gradus.peft import load_reward_model

    rows = solutions(count)
    problems, steps = [row["problem"] for row in rows], [row["steps"] for row in rows]
    ours = gradus.Scorer()
    ours.score_batch(problems[:8], steps[:8])
    our_scores = []
    our_time = best(lambda: our_scores.append(ours.score_batch(problems, steps)), 2)
    del ours
    show(f"gradus-prm, {count} solutions", f"{our_time:.1f} s")
    theirs = load_reward_model("gradus-prm")
    their_scores = []
    times = [best(lambda: their_scores.append(theirs.score_batch(problems, steps)), 1)]
    apart = max(
        abs(a - b)
        for one, other in zip(our_scores[0], their_scores[0], strict=True)
        for a, b in zip(one.scores, other, strict=True)
    )
    show("transformers and PEFT, one by one", f"{times[0]:.1f} s", f"scores at most {apart:.4f} apart")
    for dtype in [torch.float32, torch.bfloat16]:
        model = theirs.model.to(dtype)
        prompts = [prompt for problem, its in zip(problems, steps, strict=True) for prompt in theirs.prompts(problem, its)]
        in_batches(model, prompts[:32])
        times.append(best(lambda: in_batches(model, prompts), 1))
        show(f"transformers and PEFT, batches of {BATCH} by length, {dtype}", f"{times[-1]:.1f} s")
    show("ratio to the fastest of them", f"{min(times) / our_time:.2f} ×")


def in_batches(model, prompts):
    """The logits where steps are judged, of padded batches of about equal length."""
    import torch

    ordered = sorted(prompts, key=lambda prompt: len(prompt.token_ids))
    for start in range(0, len(ordered), BATCH):
        batch = ordered[start : start + BATCH]
        longest = len(batch[-1].token_ids)
        tokens = torch.tensor([prompt.token_ids + [0] * (longest - len(prompt.token_ids)) for prompt in batch])
        lengths = torch.tensor([len(prompt.token_ids) for prompt in batch])
        with torch.inference_mode():
            logits = model(input_ids=tokens, attention_mask=torch.arange(longest)[None] < lengths[:, None]).logits
        for row, prompt in enumerate(batch):
            logits[row, prompt.reads].float().softmax(-1)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--grade", type=int, default=10_000)
    arguments.add_argument("--score", type=int, default=200)
    arguments = arguments.parse_args()
    call_overhead()
    score_overhead()
    for part, count, needs in [(math_verify, arguments.grade, "math-verify"), (transformers, arguments.score, "peft")]:
        try:
            part(count)
        except ImportError as error:
            print(f"skipped: {needs} is not installed ({error})")


if __name__ == "__main__":
    main()
