"""Filtered distributions for src/sample.rs, by an independent way: full sorts in numpy.

Run with: python reference.py > expected.json   (numpy 2)
"""

import json

import numpy as np


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def by_rank(scores):
    """Ids, best first; of equals the lowest first."""
    return np.lexsort((np.arange(len(scores)), -scores))


def filtered(logits, sampling, seen, mask):
    scores = logits.astype(np.float64).copy()
    if mask is not None:
        allowed = np.array([(mask[i // 32] >> (i % 32)) & 1 for i in range(len(scores))], bool)
        scores[~allowed] = -np.inf
    for token in set(seen):
        scores[token] *= sampling["repetition_penalty"] if scores[token] < 0 else 1 / sampling["repetition_penalty"]
    if sampling["temperature"] == 0:
        return np.eye(len(scores))[by_rank(scores)[0]]
    scores /= sampling["temperature"]
    if sampling["top_k"]:
        scores[by_rank(scores)[sampling["top_k"] :]] = -np.inf
    if sampling["top_p"] < 1:
        order = by_rank(scores)
        before = np.cumsum(softmax(scores)[order]) - softmax(scores)[order]
        scores[order[before >= sampling["top_p"]]] = -np.inf
    if sampling["min_p"] > 0:
        p = softmax(scores)
        scores[p < sampling["min_p"] * p.max()] = -np.inf
    return softmax(scores)


def main():
    rng = np.random.default_rng(7)
    cases = []
    for index in range(48):
        size = int(rng.integers(2, 60))
        logits = np.round(rng.normal(0, 3, size), 3).astype(np.float32)
        if index % 6 == 0:
            logits = np.round(logits)  # many equals
        sampling = {
            "temperature": float(rng.choice([0.3, 0.7, 1.0, 1.5])),
            "top_p": float(rng.choice([1.0, 0.95, 0.8, 0.5, 0.1])),
            "top_k": int(rng.choice([0, 0, 1, 5, 20])),
            "min_p": float(rng.choice([0.0, 0.0, 0.05, 0.3])),
            "repetition_penalty": float(rng.choice([1.0, 1.2, 0.8])),
        }
        seen = [int(t) for t in rng.integers(0, size, int(rng.integers(0, 8)))]
        mask = None
        if index % 3 == 0:
            mask = [int(word) for word in rng.integers(0, 2**32, (size + 31) // 32)]
            mask[0] |= 1
        probabilities = filtered(logits, sampling, seen, mask)
        plain = logits.astype(np.float64)
        logprobs = plain - plain.max() - np.log(np.exp(plain - plain.max()).sum())
        cases.append(
            {
                "logits": [float(x) for x in logits],
                "sampling": sampling,
                "seen": seen,
                "mask": mask,
                "probabilities": [round(float(p), 7) for p in probabilities],
                "logprobs": [round(float(p), 6) for p in logprobs],
            }
        )
    print("[" + ",\n".join(json.dumps(case) for case in cases) + "]")


main()
