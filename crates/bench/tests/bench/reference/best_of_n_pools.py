"""best_of_n_pools.jsonl: made-up candidates with what is awkward, for benches/peers/best_of_n.py to evaluate.

    python best_of_n_pools.py > best_of_n_pools.jsonl
    python ../../../../benches/peers/best_of_n.py --data best_of_n_pools.jsonl -o best_of_n_expected.json   # made with numpy 2.4.6
    python ../../../../benches/peers/best_of_n.py --data best_of_n_pools.jsonl --vote-power 3 -o best_of_n_expected_cubed.json

Three to nine candidates a problem; few distinct scores, so that ties are common; now and then no answer, no scores, no right candidate.
Answers are whole numbers, so that equal strings and equal answers are the same and the twin needs no grader.
"""

import json
import random

random.seed(20261115)


def candidate():
    steps = random.randint(1, 4)
    answer = random.choice(["1", "2", "3", "7", None])
    scores = {}
    for prm in ("even", "odd"):
        if random.random() < 0.9:
            scores[prm] = [random.choice([0.0, 0.25, 0.5, 0.5, 0.875, 1.0]) for _ in range(steps)]
    return {
        # No number, which would be found as the answer of a candidate without one.
        "steps": ["a step"] * steps,
        "answer": answer,
        "correct": answer == "7",
        "prm_scores": scores,
    }


for problem in range(60):
    candidates = [candidate() for _ in range(random.randint(3, 9))]
    for candidate_ in candidates:
        if candidate_["answer"] is None:
            del candidate_["answer"]
    print(json.dumps({"id": f"made-up-{problem}", "problem": "?", "gold_answer": "7", "generator": "made-up", "candidates": candidates}))
