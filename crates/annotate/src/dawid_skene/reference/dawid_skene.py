"""Reference values for the Dawid–Skene ensemble, by dense arrays and without the code under test: python dawid_skene.py > dawid_skene.json

Steps are items. Annotator a votes on step j of a solution if it decided and saw no error before j. EM for two classes with one half added to
both counts of every share, from prior 0.1, sensitivity 0.7, false alarms 0.1, for exactly 60 iterations.
"""

import json

import numpy as np

random = np.random.default_rng(11)
SOLUTIONS, ANNOTATORS, ITERATIONS = 40, 4, 60
solutions = []
for _ in range(SOLUTIONS):
    steps = int(random.integers(2, 7))
    truth = int(random.integers(0, steps)) if random.random() < 0.5 else None
    said = []
    for annotator in range(ANNOTATORS):
        if random.random() < 0.1:
            said.append("undecided")
        elif truth is not None and random.random() < 0.5 + 0.12 * annotator:
            said.append(truth)
        else:
            said.append(int(random.integers(0, steps)) if random.random() < 0.2 else None)
    solutions.append({"steps": steps, "said": said})

# votes[i, a] is 1 for 'wrong', 0 for 'right', nan for no vote.
votes, owner = [], []
for index, solution in enumerate(solutions):
    for step in range(solution["steps"]):
        row = []
        for said in solution["said"]:
            if said == "undecided" or (said is not None and said < step):
                row.append(np.nan)
            else:
                row.append(1.0 if said == step else 0.0)
        if not np.all(np.isnan(row)):
            votes.append(row)
            owner.append((index, step))
votes = np.array(votes)
cast = ~np.isnan(votes)
wrong_votes = np.where(cast, votes, 0.0)
prior, sensitivity, false_alarm = 0.1, np.full(ANNOTATORS, 0.7), np.full(ANNOTATORS, 0.1)


def posterior():
    if_wrong = prior * np.prod(np.where(cast, np.where(votes == 1, sensitivity, 1 - sensitivity), 1.0), axis=1)
    if_right = (1 - prior) * np.prod(np.where(cast, np.where(votes == 1, false_alarm, 1 - false_alarm), 1.0), axis=1)
    return if_wrong / (if_wrong + if_right)


for _ in range(ITERATIONS):
    p = posterior()
    prior = (0.5 + p.sum()) / (1.0 + len(p))
    sensitivity = (0.5 + p @ wrong_votes) / (1.0 + p @ cast)
    false_alarm = (0.5 + (1 - p) @ wrong_votes) / (1.0 + (1 - p) @ cast)

p = dict(zip(owner, posterior()))
estimates = []
for index, solution in enumerate(solutions):
    if all(said == "undecided" for said in solution["said"]):
        estimates.append(None)
        continue
    right, places = 1.0, []
    for step in range(solution["steps"]):
        hazard = p.get((index, step), prior)
        places.append(right * hazard)
        right *= 1 - hazard
    best = int(np.argmax(places))
    first = None if right >= places[best] else best
    estimates.append({"first_error": first, "probability": right if first is None else places[best], "all_right": right})
print(json.dumps({
    "iterations": ITERATIONS,
    "solutions": solutions,
    "prior": prior,
    "sensitivity": list(sensitivity),
    "false_alarm": list(false_alarm),
    "estimates": estimates,
}))
