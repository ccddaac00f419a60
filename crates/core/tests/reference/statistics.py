"""statistics.json: regression, ranking, calibration and interval numbers by scipy and scikit-learn.

Run `python statistics.py` in this folder; made with numpy 2.4.6, scipy 1.17.1 and scikit-learn 1.9.1. Inputs come from a fixed seed, rounded, and are in the file.
Floats have 17 significant digits; a number that is undefined is null.

`regression`  scipy.stats.linregress: slope, intercept, r, two-sided p of slope = 0 (t, n-2 degrees of freedom), stderr of the slope; `band`: the 95 % confidence
              band of the mean response, ŷ ± t(0.975, n-2)·s·√(1/n + (x - x̄)²/Σ(xᵢ - x̄)²), s² = Σ residual²/(n-2). On a perfect line p and stderr are 0
              up to rounding: compare absolutely.
`student_t`   two-sided p = 2·(1 - F(|t|)); `student_t_quantile`: t with F(t) = q
`ranking`     roc_auc_score (a tie counts half) and average_precision_score (Σ (Rₙ - Rₙ₋₁)·Pₙ over distinct scores, from the highest; no interpolation);
              one class only: no AUC
`calibration` brier = mean (p - y)²; ece = Σ_b n_b/n·|mean y - mean p| over ten bins of equal width, bin = min(⌊10·p⌋, 9): the left edge belongs to the bin, 1 to the last
`wilson`      95 % interval of k of n without continuity correction: binomtest(k, n).proportion_ci(method="wilson")
Left out: bootstrap intervals, which depend on the generator.
"""

import json
import math
import os
import random
import sys
import warnings

# This file has the name of a standard module that scipy imports; its folder must not come first.
sys.path = [entry for entry in sys.path if os.path.abspath(entry or ".") != os.path.dirname(os.path.abspath(__file__))]

import numpy as np
from scipy import stats
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

HERE = os.path.dirname(os.path.abspath(__file__))


def regression(name, x, y):
    found = stats.linregress(x, y)
    n, mean = len(x), np.mean(x)
    residuals = np.array(y) - (found.intercept + found.slope * np.array(x))
    s = math.sqrt(float(np.sum(residuals**2)) / (n - 2))
    quantile = stats.t.ppf(0.975, n - 2)
    spread = float(np.sum((np.array(x) - mean) ** 2))
    low, high = min(x), max(x)
    band = []
    # Both ends, the middle, and one position outside on either side.
    for position in [low - (high - low) / 4, low, (low + high) / 2, high, high + (high - low) / 4]:
        fitted = found.intercept + found.slope * position
        half = quantile * s * math.sqrt(1 / n + (position - mean) ** 2 / spread)
        band.append({"x": position, "y": fitted, "low": fitted - half, "high": fitted + half})
    return {
        "name": name,
        "x": x,
        "y": y,
        "slope": found.slope,
        "intercept": found.intercept,
        "r": found.rvalue,
        "p": found.pvalue,
        "stderr": found.stderr,
        "band": band,
    }


def ranking(name, labels, scores):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = len(set(labels)) == 2
        auc = roc_auc_score(labels, scores) if both else None
        precision = average_precision_score(labels, scores) if any(labels) else None
    return {"name": name, "labels": labels, "scores": scores, "roc_auc": auc, "average_precision": precision}


def calibration(name, labels, scores):
    bins = [[] for _ in range(10)]
    for label, score in zip(labels, scores):
        bins[min(math.floor(10 * score), 9)].append((label, score))
    ece = 0.0
    for held in bins:
        if held:
            right = sum(label for label, _ in held) / len(held)
            said = sum(score for _, score in held) / len(held)
            ece += len(held) / len(labels) * abs(right - said)
    return {
        "name": name,
        "labels": labels,
        "scores": scores,
        "brier": brier_score_loss(labels, scores, pos_label=1),
        "ece": ece,
        "bin_counts": [len(held) for held in bins],
    }


def wilson(k, n):
    interval = stats.binomtest(k, n).proportion_ci(confidence_level=0.95, method="wilson")
    return {"k": k, "n": n, "low": interval.low, "high": interval.high}


def written(value, depth=0):
    """JSON with floats at 17 significant digits; lists of plain values on one line."""
    if value is None or isinstance(value, (bool, str, int)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.17g}" if math.isfinite(value) else "null"
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {written(item, depth + 1)}" for key, item in value.items()]
    else:
        items = [written(item, depth + 1) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if depth < 2:
        return opening + "\n" + ",\n".join(" " * (depth + 1) + item for item in items) + "\n" + " " * depth + closing
    return opening + ", ".join(items) + closing


def main():
    rng = random.Random(20260103)
    x = [round(rng.uniform(-3, 7), 4) for _ in range(40)]
    y = [round(1.5 - 0.4 * value + rng.gauss(0, 1.2), 4) for value in x]
    deciles = list(range(1, 11))
    bias = [round(38 - 4.1 * value + rng.gauss(0, 6), 2) for value in deciles]

    fine = [round(rng.random(), 6) for _ in range(80)]
    fine_labels = [int(rng.random() < score) for score in fine]
    coarse = [rng.randrange(6) / 5 for _ in range(60)]
    coarse_labels = [int(rng.random() < 0.2 + 0.6 * score) for score in coarse]
    edges = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 0.05, 0.95]
    edge_labels = [0, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1]

    data = {
        "regression": [
            regression("random", x, y),
            regression("perfect line", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]),
            regression("three points", [1.0, 2.0, 4.0], [2.0, 1.0, 5.0]),
            regression("deciles", [float(value) for value in deciles], bias),
            regression("slope 0", [-2.0, -1.0, 0.0, 1.0, 2.0], [1.0, 2.0, 4.0, 2.0, 1.0]),
        ],
        "student_t": [
            {"t": t, "df": df, "p": 2 * stats.t.sf(abs(t), df)} for t, df in [(0.0, 5), (0.5, 1), (1.0, 2), (-2.306, 8), (2.5, 8), (4.2, 38), (12.0, 3), (30.0, 100)]
        ],
        "student_t_quantile": [{"q": q, "df": df, "t": stats.t.ppf(q, df)} for q in (0.95, 0.975, 0.995) for df in (1, 2, 3, 8, 38, 1000)],
        "ranking": [
            ranking("no ties", fine_labels, fine),
            ranking("many ties", coarse_labels, coarse),
            ranking("all scores equal", [1, 0, 0, 1, 0], [0.5] * 5),
            ranking("perfect", [0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9]),
            ranking("reversed", [1, 1, 0, 0], [0.1, 0.2, 0.8, 0.9]),
            ranking("one class only", [1, 1, 1], [0.2, 0.9, 0.4]),
        ],
        "calibration": [
            calibration("drawn from the scores", fine_labels, fine),
            calibration("many ties", coarse_labels, coarse),
            calibration("scores on the edges of bins", edge_labels, edges),
            calibration("certain and right", [1, 0, 1], [1.0, 0.0, 1.0]),
            calibration("certain and wrong", [0, 1, 0], [1.0, 0.0, 1.0]),
        ],
        "wilson": [wilson(k, n) for k, n in [(0, 10), (10, 10), (1, 2), (3, 17), (88, 237), (211, 237), (5000, 10000)]],
    }
    with open(os.path.join(HERE, "statistics.json"), "w") as out:
        out.write(written(data) + "\n")


if __name__ == "__main__":
    main()
