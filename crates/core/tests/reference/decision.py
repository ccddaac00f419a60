"""decision.json: probabilities of the first error, by numpy.

Run `python decision.py` in this folder; made with numpy 2.4.6. Scores come from a fixed seed, rounded, and are in the file.

Each place of the first error, and 'none', is a row of a table that says which steps are right before it and which one is wrong: its weight is the product of the
scores of the right ones, 1 - the score of the wrong one, and the prior where there is an error. Nothing is shared with the program, which goes over the steps once.
A step that is proven wrong has score 0. Ties go to 'none', then to the earliest step.
"""

import json
import pathlib

import numpy as np


def case(scores, prior, proven=None):
    known = np.array(scores, dtype=np.float64)
    if proven is not None:
        known[proven] = 0.0
    n = len(known)
    right = np.tri(n + 1, n, k=-1, dtype=bool)  # row j: steps before j are right; the last row: all of them
    wrong = np.eye(n + 1, n, dtype=bool)
    factors = np.where(right, known, np.where(wrong, 1.0 - known, 1.0))
    weights = np.prod(factors, axis=1) * np.append(np.full(n, prior), 1.0)
    shares = weights / weights.sum()
    order = np.append(shares[n], shares[:n])  # 'none' first
    best = int(np.argmax(order)) - 1
    found = {"scores": scores, "prior": prior}
    if proven is not None:
        found["proven"] = proven
    return found | {"steps": shares[:n].tolist(), "none": float(shares[n]), "first_error": None if best < 0 else best}


def main():
    random = np.random.default_rng(0)
    cases = []
    for n in (1, 2, 3, 5, 8, 21):
        for prior in (1.0, 0.5, 3.0):
            scores = np.round(random.beta(4, 1, n), 4).tolist()
            cases.append(case(scores, prior))
        cases.append(case(scores, 0.5, proven=n // 2))
    cases += [case([0.9, 0.0, 0.7], 1.0), case([1.0, 1.0], 2.0), case([0.2] * 60, 1.0), case([0.999] * 300, 0.25), case([], 1.0)]
    rows = ",\n".join(json.dumps(case) for case in cases)
    pathlib.Path(__file__).with_name("decision.json").write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
