"""prmbench_cases.json: PRMBench's numbers by its official code and by our rules, on made-up scores.

Run `python prmbench.py` in this folder; no packages needed. The cases are drawn from a fixed seed; no record of the benchmark is in them.

Seen, of ssmisya/PRMBench: `mr_eval/tasks/prmtest_classified/task.py` (all counts), `mr_visualize/eval_res_view/draw_tabs/form_latex_strs.ipynb`
(PRMScore, groups, overall; the rows it prints are the published ones), `mr_eval/models/*.py` (thresholds). Nothing below is from the paper alone.
Official behaviour:
 1. A step is predicted correct if score > threshold, strictly (0.5; 0 for critics; Skywork's scores are differenced first, -0.05). Correct = positive.
 2. TP, FP, TN, FN are summed over all steps of a class; precision = TP/(TP+FP), negative precision = TN/(TN+FN), recalls alike; 0/0 is -1.
 3. F1 = 2pr/(p+r), but -1 if p + r = 0: finding no error at the right step (p = r = 0) gives -1, claiming none at all (p = -1, r = 0) gives 0.
 4. PRMScore of a class = (F1 + negative F1)/2, of multi_solutions (no wrong steps) F1 alone; below 0 it is shown as 0.
 5. S1, S2, S3 = plain means of their classes' PRMScores. Overall = (F1 + negative F1)/2 of the counts pooled over all nine classes, multi_solutions too:
    neither the mean of the classes nor of the groups.
 6. `error_steps` counts from 1. A number past the last step matches nothing and is ignored; a record with only such numbers counts as error-free.
 7. The loader makes a sample of class `correct`, id `correct_<idx>`, from every redundency record's original solution. It is left out of the overall and serves
    similarity = mean |share of steps predicted correct − that of `correct_<idx>`| (tables print 1 − it), skipped where the latter is 0 or unknown.
 8. Of records with the same class and idx only the first is kept (multi_solutions has some). Invalid results are dropped, up to four absent ones
    too (five fail an assertion); validity_rate = valid / (samples − `correct` results). Steps are those predicted, however many there should be.
 9. first_error_acc: share of records whose lowest error step (if it is there) is predicted wrong; accuracy: share of steps predicted right.
10. redundency and circular use a critic's separate redundancy labels where it gives them (not covered here).
`ours` differs in: an invalid, absent or wrongly long result counts as the wrong prediction for each step (and its first error as missed); a step is wrong when
its score is below the threshold (as in ProcessBench); 0/0 is null and F1 = 2TP/(2TP+FP+FN); equal idx are all kept; a record whose error steps are all out of
range has unknown labels: left out, counted as `unlabelled`; similarity takes every pair with two usable results, also where the correct one's share is 0.

Sample: {classification, idx, steps, error_steps, result: "scores" | "invalid" | "absent", scores}. A group that lacks a class is null.
"""

import json
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))

CLASSES = {
    "redundency": "NR",
    "circular": "NCL",
    "counterfactual": "ES",
    "step_contradiction": "SC",
    "domain_inconsistency": "DC",
    "confidence": "CI",
    "missing_condition": "PS",
    "deception": "DR",
    "multi_solutions": "MS",
}
GROUPS = {"S1": ["NR", "NCL"], "S2": ["ES", "SC", "DC", "CI"], "S3": ["PS", "DR", "MS"]}


# The official code, condensed.


def official_step_counts(error_steps, labels):
    errors = [number - 1 for number in error_steps]
    first = min(errors) if errors else -1
    counts = {"TP": 0, "FP": 0, "TN": 0, "FN": 0}
    first_found = None
    for index, label in enumerate(labels):
        if index == first:
            first_found = 0 if label else 1
        if index in errors:
            counts["FP" if label else "TN"] += 1
        else:
            counts["TP" if label else "FN"] += 1
    return counts, first_found, sum(labels) / len(labels) if labels else -1


def official_f1(true, false_claimed, missed):
    precision = true / (true + false_claimed) if true + false_claimed else -1
    recall = true / (true + missed) if true + missed else -1
    f1 = 2 * precision * recall / (precision + recall) if precision + recall != 0 else -1
    return precision, recall, f1


def official_mean(values):
    return sum(values) / len(values) if values else -1


def official_numbers(counts, firsts, similarities):
    tp, fp, tn, fn = (counts[key] for key in ("TP", "FP", "TN", "FN"))
    precision, recall, f1 = official_f1(tp, fp, fn)
    negative_precision, negative_recall, negative_f1 = official_f1(tn, fn, fp)
    return {
        "counts": counts,
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "negative_precision": negative_precision,
        "negative_recall": negative_recall,
        "negative_f1": negative_f1,
        "accuracy": (tp + tn) / (tp + fp + tn + fn) if tp + fp + tn + fn else -1,
        "first_error_acc": official_mean(firsts),
        "similarity": official_mean(similarities),
    }


def official_prm_score(numbers, name):
    score = numbers["f1"] if name == "MS" else numbers["f1"] * 0.5 + numbers["negative_f1"] * 0.5
    return score if score > 0 else 0.0


def groups_of(classes):
    """Means of the classes' PRMScores; null where a class is absent or undefined."""
    found = {}
    for group, names in GROUPS.items():
        scores = [classes[name]["prm_score"] if name in classes else None for name in names]
        found[group] = None if None in scores else sum(scores) / len(scores)
    return found


def official(samples, threshold):
    kept, results = {}, {}
    for sample in samples:
        identity = f"{sample['classification']}_{sample['idx']}"
        if identity not in kept:
            kept[identity] = sample
            if sample["result"] != "absent":
                results[identity] = sample
    if len(kept) - len(results) >= 5:
        return None  # the assertion
    empty = {"TP": 0, "FP": 0, "TN": 0, "FN": 0}
    sums = {CLASSES.get(sample["classification"], "correct"): dict(empty) for sample in kept.values()} | {"total": dict(empty)}
    firsts, similarities, responses = {}, {}, {}
    valid = correct_results = 0

    # Counted first, because the other samples are compared with them.
    ordered = sorted(results.items(), key=lambda item: item[1]["classification"] != "correct")
    for identity, sample in ordered:
        name = CLASSES.get(sample["classification"], "correct")
        correct_results += name == "correct"
        if sample["result"] == "invalid":
            continue
        labels = [score > threshold for score in sample["scores"]]
        counts, first_found, response = official_step_counts(sample["error_steps"], labels)
        if name == "correct":
            responses[identity] = response
        else:
            valid += 1
        for place in [name] if name == "correct" else [name, "total"]:
            for key in counts:
                sums[place][key] += counts[key]
            if first_found is not None:
                firsts.setdefault(place, []).append(first_found)
            partner = None if name == "correct" else responses.get(f"correct_{sample['idx']}")
            if partner and response != -1:
                similarities.setdefault(place, []).append(abs(response - partner))

    numbers = {place: official_numbers(counts, firsts.get(place, []), similarities.get(place, [])) for place, counts in sums.items()}
    total = numbers.pop("total")
    total["prm_score"] = official_prm_score(total, "overall")
    for name, found in numbers.items():
        found["prm_score"] = None if name == "correct" else official_prm_score(found, name)
    tested = len(kept) - correct_results
    return {"classes": numbers, "groups": groups_of(numbers), "overall": total, "validity_rate": valid / tested if tested else None}


# Our rules, written another way: by pairs of (truth, prediction).


def ratio(part, whole):
    return part / whole if whole else None


def our_numbers(pairs, firsts, similarities, only_f1):
    tp = sum(truth and said for truth, said in pairs)
    fp = sum(not truth and said for truth, said in pairs)
    tn = sum(not truth and not said for truth, said in pairs)
    fn = sum(truth and not said for truth, said in pairs)
    f1 = ratio(2 * tp, 2 * tp + fp + fn)
    negative_f1 = ratio(2 * tn, 2 * tn + fp + fn)
    if only_f1:
        score = f1
    else:
        score = None if f1 is None or negative_f1 is None else (f1 + negative_f1) / 2
    return {
        "counts": {"TP": tp, "FP": fp, "TN": tn, "FN": fn},
        "precision": ratio(tp, tp + fp),
        "recall": ratio(tp, tp + fn),
        "f1": f1,
        "negative_precision": ratio(tn, tn + fn),
        "negative_recall": ratio(tn, tn + fp),
        "negative_f1": negative_f1,
        "accuracy": ratio(tp + tn, len(pairs)),
        "first_error_acc": ratio(sum(firsts), len(firsts)),
        "similarity": ratio(sum(similarities), len(similarities)),
        "prm_score": score,
    }


def ours(samples, threshold):
    unlabelled = missing = 0
    shares = {}
    for sample in samples:
        usable = sample["result"] == "scores" and len(sample["scores"]) == sample["steps"]
        if usable and sample["classification"] == "correct":
            shares[sample["idx"]] = sum(score >= threshold for score in sample["scores"]) / sample["steps"]
    gathered = {}
    for sample in samples:
        name = CLASSES.get(sample["classification"], "correct")
        wrong = {number - 1 for number in sample["error_steps"] if 1 <= number <= sample["steps"]}
        if sample["error_steps"] and not wrong:
            unlabelled += 1
            continue
        truth = [step not in wrong for step in range(sample["steps"])]
        usable = sample["result"] == "scores" and len(sample["scores"]) == sample["steps"]
        missing += not usable
        said = [score >= threshold for score in sample["scores"]] if usable else [not correct for correct in truth]
        for place in [name] if name == "correct" else [name, "total"]:
            pairs, firsts, similarities = gathered.setdefault(place, ([], [], []))
            pairs += zip(truth, said)
            if wrong:
                firsts.append(not said[min(wrong)])
            if usable and name != "correct" and sample["idx"] in shares:
                similarities.append(abs(sum(said) / sample["steps"] - shares[sample["idx"]]))
    # A missing result says the opposite of the truth, so the first error counts as missed without a special case.
    numbers = {place: our_numbers(*found, only_f1=place == "MS") for place, found in gathered.items()}
    total = numbers.pop("total", None)
    if "correct" in numbers:
        numbers["correct"]["prm_score"] = None
    return {"classes": numbers, "groups": groups_of(numbers), "overall": total, "missing": missing, "unlabelled": unlabelled}


# Cases.


def made_up(rng, name, idx, decimals=3):
    steps = rng.randint(3, 9)
    errors = []
    if name not in ("multi_solutions", "correct"):
        errors = sorted(rng.sample(range(1, steps + 1), rng.randint(1, 3)))
    scores = [round(min(0.999, max(0.001, rng.gauss(0.4 if step + 1 in errors else 0.7, 0.25))), decimals) for step in range(steps)]
    return {"classification": name, "idx": idx, "steps": steps, "error_steps": errors, "result": "scores", "scores": scores}


def all_classes(rng, each):
    samples = []
    for index in range(each):
        idx = f"made_up_{index}"
        samples.append(made_up(rng, "correct", idx))
        samples += [made_up(rng, name, idx) for name in CLASSES]
    return samples


def without(sample, result):
    return sample | {"result": result, "scores": None}


def one(name, errors, scores, idx="made_up_0", steps=None):
    steps = len(scores) if steps is None else steps
    return {"classification": name, "idx": idx, "steps": steps, "error_steps": errors, "result": "scores", "scores": scores}


def main():
    rng = random.Random(20260102)
    ordinary = all_classes(rng, 6)
    # Out of range, beside numbers that are in range: ignored by both.
    for sample in ordinary[3::10]:
        sample["error_steps"] = sample["error_steps"] + [sample["steps"] + 1, sample["steps"] + 4]

    gaps = all_classes(rng, 4)
    gaps = [without(sample, "invalid") if index % 7 == 2 else sample for index, sample in enumerate(gaps)]
    gaps = [without(sample, "absent") if index in (3, 10, 19, 25) else sample for index, sample in enumerate(gaps)]
    five_absent = [without(sample, "absent") if index < 5 else sample for index, sample in enumerate(all_classes(rng, 1))]

    cases = [
        ("ordinary", ordinary, 0.5),
        ("ordinary, another threshold", ordinary, 0.6155),
        ("every step predicted correct", [one("circular", [2], [0.9, 0.9, 0.8]), one("circular", [1, 3], [0.7, 0.9, 0.9])], 0.5),
        ("every step predicted wrong", [one("circular", [2], [0.1, 0.2, 0.3]), one("circular", [1, 3], [0.1, 0.2, 0.3])], 0.5),
        ("errors found only where there are none", [one("deception", [2], [0.1, 0.9, 0.8]), one("deception", [1], [0.9, 0.2])], 0.5),
        ("everything right", [one("confidence", [2], [0.9, 0.1, 0.8]), one("confidence", [1], [0.1, 0.9])], 0.5),
        ("everything wrong", [one("confidence", [2], [0.1, 0.9, 0.2]), one("confidence", [1], [0.9, 0.1])], 0.5),
        ("several solutions, all accepted", [one("multi_solutions", [], [0.9, 0.8, 0.7])], 0.5),
        ("several solutions, some rejected", [one("multi_solutions", [], [0.9, 0.2, 0.7]), one("multi_solutions", [], [0.1, 0.8], "made_up_1")], 0.5),
        ("invalid and absent results", gaps, 0.5),
        ("five absent results", five_absent, 0.5),
        ("one class without a result", [without(one("circular", [2], [0.9, 0.1]), "invalid"), one("deception", [1], [0.1, 0.9])], 0.5),
        ("a score on the threshold", [one("circular", [2], [0.5, 0.5, 0.9, 0.2]), one("circular", [1], [0.5, 0.8], "made_up_1")], 0.5),
        ("error steps all out of range", [one("missing_condition", [4, 5], [0.9, 0.2, 0.8]), one("missing_condition", [1], [0.3, 0.9], "made_up_1")], 0.5),
        ("fewer scores than steps", [one("deception", [3], [0.9, 0.8], steps=3), one("deception", [1], [0.2, 0.9], "made_up_1")], 0.5),
        ("the same idx twice", [one("multi_solutions", [], [0.9, 0.8]), one("multi_solutions", [], [0.1, 0.2, 0.9])], 0.5),
        ("a correct solution rejected throughout", [one("correct", [], [0.1, 0.2]), one("redundency", [2], [0.9, 0.1, 0.8, 0.7])], 0.5),
    ]
    found = []
    for name, samples, threshold in cases:
        # Ids are per class, so a class's records get their own unless the case is about equal ones.
        if name != "the same idx twice":
            seen = set()
            for index, sample in enumerate(samples):
                if (sample["classification"], sample["idx"]) in seen:
                    samples[index] = sample = sample | {"idx": f"made_up_{index}"}
                seen.add((sample["classification"], sample["idx"]))
        found.append({"name": name, "threshold": threshold, "samples": samples, "official": official(samples, threshold), "ours": ours(samples, threshold)})

    def lines(case):
        rows = ",\n".join("   " + json.dumps(sample) for sample in case["samples"])
        rest = ",\n".join(f'  "{key}": {json.dumps(case[key])}' for key in ("official", "ours"))
        return f'{{"name": {json.dumps(case["name"])}, "threshold": {case["threshold"]},\n  "samples": [\n{rows}],\n{rest}}}'

    short = {"classes": CLASSES, "groups": GROUPS}
    with open(os.path.join(HERE, "prmbench_cases.json"), "w") as out:
        head = "".join(f' "{key}": {json.dumps(value)},\n' for key, value in short.items())
        out.write("{\n" + head + ' "cases": [\n ' + ",\n ".join(lines(case) for case in found) + "]\n}\n")


if __name__ == "__main__":
    main()
