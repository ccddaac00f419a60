"""Choosing, and the numbers of benchmarks, against a few lines that say the same."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradus
from gradus import metrics

ANSWERS = ["3", "1/2", "0.5", None]


def test_three_ways_to_choose() -> None:
    scores = [0.9, 0.2, 0.8, 0.95]
    assert gradus.select(scores=scores) == 3
    assert gradus.select(scores=scores, answers=ANSWERS, by="vote") == 2
    assert gradus.select(answers=ANSWERS, by="majority") == 1
    assert gradus.select(scores=[0.9, 0.2, 0.4, 0.1], answers=ANSWERS, by="vote", vote_power=8) == 0
    with pytest.raises(gradus.GradusError, match="nothing to choose from"):
        gradus.select(scores=[])
    assert gradus.select(scores=[None, 0.1]) == 1
    for wrong in [{"by": "vote", "answers": ANSWERS}, {"by": "best"}, {"by": "luck"}, {"vote_power": 0.0}]:
        with pytest.raises(gradus.GradusError):
            gradus.select(**wrong)  # type: ignore[arg-type]


def test_aggregates() -> None:
    scores = [0.9, 0.5, 0.8]
    expected = {"last": 0.8, "min": 0.5, "product": 0.36, "mean": 2.2 / 3, "norm_product": 0.36 ** (1 / 3)}
    for name, value in expected.items():
        assert gradus.aggregate(scores, name) == pytest.approx(value)  # type: ignore[arg-type]
    assert gradus.aggregate([]) is None


def test_processbench() -> None:
    found = metrics.process_scores([2, 1, -1, None], [2, 2, -1, -1])
    assert (found["acc_err"], found["acc_cor"], found["undecided"]) == (0.5, 0.5, 1)
    assert found["f1"] == pytest.approx(0.5)
    assert metrics.process_scores([], [])["f1"] is None
    with pytest.raises(gradus.GradusError, match="-2 is neither a step"):
        metrics.process_scores([-2], [0])


scored = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30)


@given(scored)
def test_area_under_the_curve_counts_pairs(pairs: list[tuple[float, bool]]) -> None:
    right = [score for score, correct in pairs if correct]
    wrong = [score for score, correct in pairs if not correct]
    found = metrics.roc_auc(*zip(*pairs, strict=True))
    if not right or not wrong:
        assert found is None
        return
    wins = sum((a > b) + (a == b) / 2 for a, b in itertools.product(right, wrong))
    assert found == pytest.approx(wins / (len(right) * len(wrong)))


@given(scored)
def test_calibration(pairs: list[tuple[float, bool]]) -> None:
    scores, correct = zip(*pairs, strict=True)
    assert metrics.brier(scores, correct) == pytest.approx(sum((s - c) ** 2 for s, c in pairs) / len(pairs))
    bins: dict[int, list[tuple[float, bool]]] = {}
    for score, right in pairs:
        bins.setdefault(min(int(score * 10), 9), []).append((score, right))
    expected = sum(abs(sum(r for _, r in one) - sum(s for s, _ in one)) for one in bins.values()) / len(pairs)
    assert metrics.ece(scores, correct) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=8), st.integers(1, 8))
def test_best_of_n_over_all_subsets(pairs: list[tuple[float, bool]], n: int) -> None:
    pairs = [(index / 100 + round(score), correct) for index, (score, correct) in enumerate(pairs)]
    n = min(n, len(pairs))
    subsets = list(itertools.combinations(pairs, n))
    scores, correct = zip(*pairs, strict=True)
    best = sum(max(subset)[1] for subset in subsets) / math.comb(len(pairs), n)
    some = sum(any(right for _, right in subset) for subset in subsets) / len(subsets)
    assert metrics.expected_best_of_n(scores, correct, n) == pytest.approx(best)
    assert metrics.pass_at_n(correct, n) == pytest.approx(some)


def test_lengths_must_agree() -> None:
    for call in [metrics.roc_auc, metrics.ece, metrics.brier, metrics.average_precision]:
        with pytest.raises(gradus.GradusError, match="2 scores and 1 outcomes"):
            call([0.1, 0.2], [True])
        with pytest.raises(gradus.GradusError, match="not a number"):
            call([math.nan], [True])
