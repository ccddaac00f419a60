"""Scores from Python: equal to the command line's, interruptible, safe in threads, honest after a fork."""

import asyncio
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import gradus
from conftest import MODEL, PROBLEM, RIGHT, WRONG


def test_equal_to_the_command_line_to_the_bit(scorer: gradus.Scorer, tmp_path: Path) -> None:
    solutions = [RIGHT, WRONG, ["It is 72."], [*RIGHT, "So the answer is 72."]]
    rows = [{"problem": PROBLEM, "steps": steps} for steps in solutions]
    gradus.Dataset.from_rows(rows).write(tmp_path / "data.jsonl")
    report = gradus.run("score", tmp_path / "data.jsonl", **MODEL, progress=False)
    printed = {row["solution"]: row["scores"] for row in report.results}
    scored = scorer.score_batch(PROBLEM, solutions)
    assert sorted(printed.values()) == sorted(one.scores for one in scored if one is not None)
    assert report.solutions == len(solutions)


def test_one_text_and_its_steps_are_the_same(scorer: gradus.Scorer) -> None:
    whole = scorer.score(PROBLEM, "\n\n".join(RIGHT))
    assert whole.steps == RIGHT
    assert whole.scores == scorer.score(PROBLEM, RIGHT).scores
    assert len(whole) == 2
    assert whole.aggregate("min") == min(whole.scores)
    assert whole.aggregate() == whole.scores[-1]
    assert whole.first_error(threshold=1.1) == 0
    assert whole.first_error(threshold=0.0) is None
    assert whole.decision == ("threshold", 0.5)
    assert whole.first_error() == whole.first_error(threshold=0.5)
    assert whole.first_error(prior=1e9) is not None
    assert whole.first_error(rule="posterior") == whole.first_error(prior=1.0)
    assert sum(whole.posterior()) == pytest.approx(1.0) and len(whole.posterior()) == len(whole) + 1
    posterior = gradus.ScoredSolution(PROBLEM, RIGHT, [0.6, 0.6], "mine", ("posterior", 0.5))
    assert posterior.first_error() is None and posterior.first_error(prior=2.0) == 0
    assert pickle.loads(pickle.dumps(posterior)).decision == ("posterior", 0.5)
    proved = gradus.ScoredSolution("What is 48/2?", ["48/2 = 26."], [0.9], "mine", None, True)
    assert proved.first_error() == 0 and proved.posterior()[-1] == 0.0
    assert pickle.loads(pickle.dumps(proved)).exact_checks
    assert gradus.ScoredSolution("What is 48/2?", ["48/2 = 26."], [0.9]).first_error() is None
    with pytest.raises(gradus.GradusError, match="give one of the two"):
        whole.first_error(threshold=0.5, prior=1.0)
    assert whole.name == scorer.name
    same = pickle.loads(pickle.dumps(whole))
    assert (same.problem, same.steps, same.scores, same.name) == (PROBLEM, RIGHT, whole.scores, whole.name)
    with pytest.raises(gradus.GradusError, match="`avg` is not one of last"):
        whole.aggregate("avg")  # type: ignore[arg-type]


def test_a_batch_and_its_order(scorer: gradus.Scorer) -> None:
    assert scorer.score_batch(PROBLEM, []) == []
    assert scorer.score_batch([], []) == []
    both = scorer.score_batch([PROBLEM, "What is 1 + 1?"], [WRONG, "It is 2."])
    assert [one.problem for one in both if one] == [PROBLEM, "What is 1 + 1?"]
    with pytest.raises(gradus.GradusError, match="1 problems and 2 solutions"):
        scorer.score_batch([PROBLEM], [RIGHT, WRONG])


def test_a_solution_that_cannot_be_scored(scorer: gradus.Scorer) -> None:
    endless = ["1 + 1 = 2. " * 20_000]
    with pytest.raises(gradus.GradusError, match=r"solution `1`: .*context holds 8192.*on_error=.skip."):
        scorer.score_batch(PROBLEM, [RIGHT, endless])
    found = scorer.score_batch(PROBLEM, [RIGHT, endless, [], WRONG], on_error="skip")
    assert [one is None for one in found] == [False, True, True, False]
    with pytest.raises(gradus.GradusError, match="neither"):
        scorer.score_batch(PROBLEM, [RIGHT], on_error="ignore")  # type: ignore[arg-type]


def test_unicode_and_control_characters(scorer: gradus.Scorer) -> None:
    strange = ["∑ 因此 🎲 \u202e", "\x00\x1b[31m", "é" * 50]
    assert len(scorer.score("نص؟", strange).scores) == 3


def test_threads_get_the_same_scores(scorer: gradus.Scorer) -> None:
    alone = scorer.score(PROBLEM, RIGHT).scores
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: scorer.score(PROBLEM, RIGHT).scores, range(16)))
    assert found == [alone] * 16


def test_other_threads_run_meanwhile(scorer: gradus.Scorer) -> None:
    ticks = 0
    with ThreadPoolExecutor(1) as threads:
        work = threads.submit(scorer.score_batch, PROBLEM, [[f"{n} + {n} = {2 * n}."] * 6 for n in range(40)])
        while not work.done():
            ticks += 1
            time.sleep(0.001)
    assert ticks > 20


def test_awaited(scorer: gradus.Scorer) -> None:
    async def both() -> list[list[float]]:
        one, many = await asyncio.gather(
            scorer.score_async(PROBLEM, RIGHT), scorer.score_batch_async(PROBLEM, [WRONG, RIGHT])
        )
        return [one.scores, *(each.scores for each in many if each is not None)]

    right, wrong = scorer.score(PROBLEM, RIGHT).scores, scorer.score(PROBLEM, WRONG).scores
    assert asyncio.run(both()) == [right, wrong, right]

    async def refused() -> None:
        await scorer.score_async(PROBLEM, [])

    with pytest.raises(gradus.GradusError):
        asyncio.run(refused())


def test_a_cancelled_task_stops_its_work(scorer: gradus.Scorer) -> None:
    async def cancelled() -> float:
        many = [[f"{n} + {n} = {2 * n}. "] * 12 for n in range(400)]
        work = asyncio.ensure_future(scorer.score_batch_async([f"Problem {n}" for n in range(400)], many))
        await asyncio.sleep(0.2)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        begun = time.monotonic()
        await scorer.score_async(PROBLEM, RIGHT)
        return time.monotonic() - begun

    begun = time.monotonic()
    scorer.score(PROBLEM, RIGHT)
    usual = time.monotonic() - begun
    # Without the cancelling, hundreds of solutions would come first.
    assert asyncio.run(cancelled()) < 20 * usual + 5


INTERRUPTED = """
import gradus, sys, time
scorer = gradus.Scorer("smollm2-135m", profile="plain")
print("loaded", flush=True)
try:
    scorer.score_batch("p", [[f"{n} + {n}. "] * 20 for n in range(3000)])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_control_c(scorer: gradus.Scorer) -> None:
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "loaded\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert (output, child.returncode) == ("interrupted\n", 0)


def _in_child(_: int) -> str:
    try:
        gradus.Scorer(**MODEL).score("1 + 1?", ["2"])
    except gradus.GradusError as error:
        return str(error)
    return gradus.grade("1/2", "0.5").verdict


def test_a_forked_process_is_told_and_a_spawned_one_works(scorer: gradus.Scorer) -> None:
    scorer.score(PROBLEM, RIGHT)
    with multiprocessing.get_context("fork").Pool(1) as forked:
        assert "was forked from one that has models loaded" in forked.map(_in_child, [0])[0]
    with multiprocessing.get_context("spawn").Pool(1) as spawned:
        assert spawned.map(_in_child, [0]) == ["equal"]


def test_a_forked_process_can_grade(scorer: gradus.Scorer) -> None:
    with multiprocessing.get_context("fork").Pool(2) as forked:
        assert all(forked.starmap(gradus.grade, [("1/2", "0.5")] * 8))


REFUSALS = [
    ({"model": "no-such-model"}, gradus.GradusError, "there is no model no-such-model"),
    ({"model": "smollm2-135m", "profile": "no-such-profile"}, gradus.GradusError, "no-such-profile"),
    ({"model": "smollm2-135m", "device": "abacus"}, ValueError, "`abacus` is not one of cpu"),
    ({"model": "smollm2-135m", "key_env": "KEY"}, ValueError, "--endpoint"),
    ({"model": "smollm2-135m", "max_batch_tokens": 0}, ValueError, "not a whole number of at least 1"),
    ({"model": "smollm2-135m", "temperature": 1}, TypeError, "Scorer has no argument `temperature`"),
    ({"endpoint": "http://127.0.0.1:1", "adapter": "x"}, ValueError, "cannot be used with"),
    ({"pool": "no-such-pool"}, gradus.GradusError, "no-such-pool"),
]


@pytest.mark.parametrize(("options", "kind", "sentence"), REFUSALS)
def test_refusals_in_one_sentence(options: dict[str, object], kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind) as refused:
        gradus.Scorer(**options)  # type: ignore[arg-type]
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_server_that_is_not_there() -> None:
    scorer = gradus.Scorer("m", endpoint="http://127.0.0.1:1", api="score", retries=0, no_cache=True)
    with pytest.raises(gradus.GradusError, match=r"127\.0\.0\.1:1"):
        scorer.score(PROBLEM, RIGHT)


def test_a_notebook_shows_it(scorer: gradus.Scorer) -> None:
    html = scorer.score("<script>alert(1)</script>", ["$1 + 1 = 2$"])._repr_html_()
    assert html.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in html
    assert "<script>alert(1)" not in html
    assert "&amp;lt;script" in html


def test_embeddings() -> None:
    if not (Path(os.environ.get("GRADUS_HOME", "")) / "models").is_dir():
        pytest.skip("GRADUS_HOME has no models")
    embedder = gradus.Embedder("all-minilm-l6-v2")
    one, same, other = embedder.embed(["a sum", "a sum", "a triangle"])
    assert one == same != other
    assert abs(sum(value * value for value in one) - 1) < 1e-5
    assert embedder.embed([]) == []
    assert asyncio.run(_awaited(embedder)) == [one]
    assert repr(embedder) == 'Embedder("all-minilm-l6-v2")'


async def _awaited(embedder: gradus.Embedder) -> list[list[float]]:
    return await embedder.embed_async(["a sum"])
