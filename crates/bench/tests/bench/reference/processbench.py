"""processbench_cases.json: ProcessBench's numbers by its official formulas, on made-up predictions.

Run `python processbench.py` in this folder; it needs numpy. The cases are drawn from a fixed seed; no record of the benchmark is in them.

Seen: QwenLM/ProcessBench `code/run_eval_prm_trl.py` and `code/run_eval_prm_rlhflow.py`; `code/run_eval.py` (critics) only in copies elsewhere.
  match    prediction == label; label -1 is 'no error'. A critic's `\\boxed{}` that is no integer is None, which never matches: wrong, not dropped
  acc_err  mean of match where label != -1; acc_cor: where label == -1; f1 = 2·acc_err·acc_cor / (acc_err + acc_cor)
  undefined is numpy's nan: an accuracy over no samples, f1 with such an accuracy, f1 of 0 and 0. Here it is null
  average  the plain mean of the four subsets' f1 (nan if one is)
  PRMs     the first step whose class is 'wrong': argmax of two logits (a tie is 'wrong'), or a generated token other than '+'. No threshold in
           the code; the paper (known from its text only) sets one for scalar PRMs to the best F1 on GSM8K
Not in the official code: accuracy (ArithACC of the RetrievalPRM paper, all samples weighted equally: its printed 76.0 is
(207·64.7 + 193·88.1) / 400), and the threshold: the first step with a score BELOW it is the error.

`cases`            {name, samples: [{label, prediction}], expected}; prediction null: unreadable
`threshold_cases`  {name, scores: [[per step]], labels, threshold, predictions, expected}; where a score equals the threshold, `tie_is_error`
                   has the numbers of the other rule
`sweep_cases`      {name, scores, labels, points: [{threshold, expected}], best_f1, best_thresholds: all that reach it}
`average_cases`    {name, f1: [per subset], expected}
`ours` stands beside `expected` where we differ: f1 is 0, not undefined, when both accuracies are 0.
"""

import json
import os
import random
import warnings

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def plain(value):
    return None if np.isnan(value) else float(value)


def metrics(samples):
    """The official lines, without their factor of 100."""
    match = [sample["prediction"] == sample["label"] for sample in samples]
    wrong = [hit for hit, sample in zip(match, samples) if sample["label"] != -1]
    right = [hit for hit, sample in zip(match, samples) if sample["label"] == -1]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        acc_err, acc_cor = np.mean(wrong), np.mean(right)
        f1 = 2 * acc_err * acc_cor / (acc_err + acc_cor)
        accuracy = np.mean(match)
    return {"acc_err": plain(acc_err), "acc_cor": plain(acc_cor), "f1": plain(f1), "accuracy": plain(accuracy)}


def with_ours(case):
    expected = case["expected"]
    if expected["acc_err"] == 0 and expected["acc_cor"] == 0:
        case["ours"] = expected | {"f1": 0.0}
    return case


def case(name, samples):
    samples = [{"label": label, "prediction": prediction} for label, prediction in samples]
    return with_ours({"name": name, "samples": samples, "expected": metrics(samples)})


def first_error(scores, threshold, tie_is_error=False):
    for index, score in enumerate(scores):
        if score < threshold or (tie_is_error and score == threshold):
            return index
    return -1


def at_threshold(scores, labels, threshold, tie_is_error=False):
    predictions = [first_error(steps, threshold, tie_is_error) for steps in scores]
    samples = [{"label": label, "prediction": prediction} for label, prediction in zip(labels, predictions)]
    return predictions, metrics(samples)


def threshold_case(name, scores, labels, threshold):
    predictions, expected = at_threshold(scores, labels, threshold)
    found = {"name": name, "scores": scores, "labels": labels, "threshold": threshold, "predictions": predictions, "expected": expected}
    if any(score == threshold for steps in scores for score in steps):
        found["tie_is_error"] = at_threshold(scores, labels, threshold, tie_is_error=True)[1]
    return with_ours(found)


def sweep_case(name, scores, labels, thresholds):
    points = [{"threshold": threshold, "expected": at_threshold(scores, labels, threshold)[1]} for threshold in thresholds]
    reached = [point for point in points if point["expected"]["f1"] is not None]
    best = max(point["expected"]["f1"] for point in reached)
    tied = [point["threshold"] for point in reached if point["expected"]["f1"] == best]
    return {"name": name, "scores": scores, "labels": labels, "points": points, "best_f1": best, "best_thresholds": tied}


def average_case(name, values):
    total = np.mean([np.nan if value is None else value for value in values])
    return {"name": name, "f1": values, "expected": plain(total)}


def made_up_scores(rng, count):
    """Labelled score lists that lean the right way: low from the first error on, high before it."""
    scores, labels = [], []
    for _ in range(count):
        steps = rng.randint(2, 9)
        label = rng.randrange(steps) if rng.random() < 0.6 else -1
        low = [label != -1 and step >= label for step in range(steps)]
        scores.append([round(min(0.999, max(0.001, rng.gauss(0.35 if bad else 0.75, 0.2))), 3) for bad in low])
        labels.append(label)
    return scores, labels


def main():
    rng = random.Random(20260101)
    labels = [rng.randrange(8) if rng.random() < 0.55 else -1 for _ in range(60)]

    def guess(label):
        return label if rng.random() < 0.5 else rng.choice([-1, 0, 1, 2, 3, 5, 7])

    ordinary = [(label, guess(label)) for label in labels]
    wrong_everywhere = [(label, 3 if label == -1 else label + 1) for label in labels]
    cases = [
        case("ordinary", ordinary),
        case("only error-free samples", [(-1, rng.choice([-1, -1, 2])) for _ in range(12)]),
        case("only erroneous samples", [(label, guess(label)) for label in labels if label != -1]),
        case("all right", [(label, label) for label in labels]),
        case("all wrong", wrong_everywhere),
        case("only wrong samples, all wrong", [(2, 1), (0, -1)]),
        case("always no error", [(label, -1) for label in labels]),
        case("unreadable predictions", [(label, None if index % 4 == 0 else answer) for index, (label, answer) in enumerate(ordinary)]),
        case("nothing readable", [(label, None) for label in labels[:10]]),
        case("step that is not there", [(2, 99), (0, -2), (-1, 99), (-1, -2), (-1, -1), (4, 4)]),
        case("no samples", []),
    ]
    scores, truth = made_up_scores(rng, 40)
    on_the_line = [[0.9, 0.5, 0.2], [0.5, 0.9], [0.7, 0.8], [0.6, 0.5], [0.4]]
    threshold_cases = [threshold_case(f"random scores at {threshold}", scores, truth, threshold) for threshold in (0.3, 0.5, 0.55, 0.7)]
    threshold_cases += [
        threshold_case("threshold 0 finds nothing", scores, truth, 0.0),
        threshold_case("threshold above 1 finds the first step", scores, truth, 1.5),
        threshold_case("a score on the threshold", on_the_line, [2, -1, -1, 1, 0], 0.5),
        threshold_case("a later, lower score does not matter", [[0.45, 0.01], [0.9, 0.45, 0.0]], [0, 1], 0.5),
    ]
    grid = [round(0.05 * step, 2) for step in range(1, 20)]
    sweep_cases = [
        sweep_case("random scores", scores, truth, grid),
        # Nothing lies between 0.3 and 0.6, so thresholds in there give the same numbers.
        sweep_case("equal thresholds", [[0.9, 0.2], [0.8, 0.7], [0.3, 0.1], [0.95, 0.6]], [1, -1, 0, -1], [0.2, 0.35, 0.5, 0.6, 0.75]),
    ]
    average_cases = [
        average_case("four subsets", [0.746, 0.711, 0.602, 0.5733]),
        average_case("one subset undefined", [0.5, None, 0.25, 0.25]),
    ]

    sections = {"cases": cases, "threshold_cases": threshold_cases, "sweep_cases": sweep_cases, "average_cases": average_cases}
    with open(os.path.join(HERE, "processbench_cases.json"), "w") as out:
        body = [f' "{name}": [\n' + ",\n".join("  " + json.dumps(one) for one in found) + "\n ]" for name, found in sections.items()]
        out.write("{\n" + ",\n".join(body) + "\n}\n")


if __name__ == "__main__":
    main()
