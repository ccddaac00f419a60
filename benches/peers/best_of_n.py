"""Best-of-N, votes and pass@N of every PRM in a best-of-n file, in plain numpy: the twin that our own numbers must equal to 1e-9.

    python best_of_n.py --data gsm8k_n32.jsonl.gz [--groups groups.jsonl] [--vote-power 4] [--against RUN/report.json] [-o out.json]

--against holds every number beside those of `gradus bench best-of-n` (whose run folder also has the groups) and fails above 1e-9.

Input, one problem a line: {"id", "candidates": [{"answer", "correct", "prm_scores": {prm: [score per step]}}]}.
--groups, one problem a line: {"id", "groups": [int per candidate]}: the index of the first candidate with an equivalent answer;
-1 is 'no answer' and never votes. Without it answers are grouped by exact string (null or blank is 'no answer').

Aggregates of a candidate's step scores, all in 64-bit floats from left to right, so that equal inputs tie in every implementation:
last, min, product, mean (sum / count), norm_product (exp of the mean of the natural logarithms). A candidate without scores, or with one that
is missing or not a number, has -inf: it is chosen only when all are, and weighs 0 in votes.

`first` uses the first N candidates in file order (all of them where there are fewer):
  best      the highest aggregate, the earliest candidate among equals
  majority  the largest answer group, the one whose first candidate is earliest among equals; right when that first candidate is
  vote      the same with the sum of the aggregates to the power of --vote-power (in file order) in place of the count; no answer at all is wrong
  pass      any right candidate; chance: the share of right ones, which a random choice gets on average
`expected` is the exact mean over all subsets of N drawn without replacement, the file order kept inside (n candidates, c right):
  best      sorted by aggregate (ties: file order) the candidate of rank i, from 0, is best in C(n-1-i, N-1) of the C(n, N) subsets
  pass      1 - C(n-c, N) / C(n, N); chance: c / n
`by_outcome`: of the candidates with scores whose outcome is right and of those where it is wrong, their number, the mean and the median of their aggregates;
  auc       the share of pairs of a right and a wrong one, over all problems, in which the right one has the higher aggregate; equals count half

Output: {"data", "grouped_by", "problems", "n": [1, 2, 4, …], "first": {"pass", "chance", "majority": [one per N], "prms": {prm: {aggregate: {"best", "vote"}}}},
"expected": {"pass", "chance", "prms": {prm: {aggregate: {"best"}}}}, "by_outcome": {prm: {aggregate: {"right", "wrong", "auc"}}}, "counts": {…}}. Accuracies are shares of problems. Left out: bootstrap intervals.
"""

import argparse
import gzip
import json
import math
import os
import sys
import time

import numpy as np

SIZES = [1, 2, 4, 8, 16, 32]
NEVER = -math.inf


def product(scores):
    result = 1.0
    for score in scores:
        result *= score
    return result


def mean(scores):
    total = 0.0
    for score in scores:
        total += score
    return total / len(scores)


def norm_product(scores):
    return math.exp(mean([math.log(score) if score > 0 else NEVER for score in scores]))


AGGREGATES = {"last": lambda scores: scores[-1], "min": min, "product": product, "mean": mean, "norm_product": norm_product}


def usable(scores):
    return bool(scores) and all(score is not None and not math.isnan(score) for score in scores)


def read_lines(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def groups_of_strings(candidates):
    """The index of the first candidate with the same answer; -1 for no answer."""
    first = {}
    found = []
    for index, candidate in enumerate(candidates):
        answer = candidate.get("answer")
        blank = answer is None or not str(answer).strip()
        found.append(-1 if blank else first.setdefault(answer, index))
    return found


def groups_of_file(path, problems):
    by_id = {line["id"]: line["groups"] for line in read_lines(path)}
    found = []
    for problem in problems:
        groups = by_id.get(problem["id"])
        if groups is None or len(groups) != len(problem["candidates"]):
            raise SystemExit(f"{path}: problem {problem['id']} needs {len(problem['candidates'])} groups, found {groups and len(groups)}")
        for index, group in enumerate(groups):
            if group != -1 and not (0 <= group <= index and groups[group] == group):
                raise SystemExit(f"{path}: problem {problem['id']}: candidate {index} has group {group}, which is no first candidate")
        found.append(groups)
    return found


def padded(rows, width, fill):
    table = np.full((len(rows), width), fill, dtype=np.array(fill).dtype)
    for row, values in zip(table, rows):
        row[: len(values)] = values
    return table


def best_first(scores, correct, size):
    chosen = scores[:, :size].argmax(axis=1)  # the earliest among equals
    return correct[np.arange(len(scores)), chosen]


def voted(weights, groups, correct, size):
    """Is the first candidate of the heaviest group right?"""
    rows, width = groups.shape
    shown = groups[:, :size]
    votes = shown >= 0
    cells = (np.arange(rows)[:, None] * width + shown)[votes]
    # bincount adds in file order; a group that nobody is in must lose against one that weighs 0.
    totals = np.bincount(cells, weights=weights[:, :size][votes], minlength=rows * width)
    totals[np.bincount(cells, minlength=rows * width) == 0] = NEVER
    winner = totals.reshape(rows, width).argmax(axis=1)
    return correct[np.arange(rows), winner] & votes.any(axis=1)


def best_expected(scores, correct, counts, size):
    order = np.argsort(-scores, axis=1, kind="stable")
    right = np.take_along_axis(correct, order, axis=1)
    weights = np.zeros(scores.shape)
    for count in set(counts.tolist()):
        drawn = min(size, count)
        subsets = math.comb(count, drawn)
        weights[counts == count, :count] = [math.comb(count - 1 - rank, drawn - 1) / subsets for rank in range(count)]
    return (weights * right).sum(axis=1)


def pass_expected(correct, counts, size):
    found = []
    for row, count in zip(correct, counts.tolist()):
        drawn = min(size, count)
        found.append(1.0 - math.comb(count - int(row.sum()), drawn) / math.comb(count, drawn))
    return found


def by_outcome(scores, correct):
    """Pair by pair, a wrong one at a time; no sorting, no ranks."""
    scored = np.isfinite(scores)
    right, wrong = scores[scored & correct], scores[scored & ~correct]
    above = sum(float((right > score).sum()) + 0.5 * float((right == score).sum()) for score in wrong)

    def of(values):
        return {"solutions": len(values), "mean": float(np.mean(values)), "median": float(np.median(values))} if len(values) else {"solutions": 0}

    pairs = len(right) * len(wrong)
    return {"right": of(right), "wrong": of(wrong), "auc": above / pairs if pairs else None}


def over(values):
    return float(np.mean(values))


def evaluate(problems, groups, sizes, power):
    counts = np.array([len(problem["candidates"]) for problem in problems])
    width = int(counts.max())
    correct = padded([[bool(candidate["correct"]) for candidate in problem["candidates"]] for problem in problems], width, False)
    groups = padded(groups, width, -1)
    ones = np.ones(groups.shape)
    names = sorted({prm for problem in problems for candidate in problem["candidates"] for prm in candidate.get("prm_scores") or {}})

    first = {
        "pass": [over(correct[:, :size].any(axis=1)) for size in sizes],
        "chance": [over(correct[:, :size].sum(axis=1) / np.minimum(counts, size)) for size in sizes],
        "majority": [over(voted(ones, groups, correct, size)) for size in sizes],
        "prms": {},
    }
    expected = {
        "pass": [over(pass_expected(correct, counts, size)) for size in sizes],
        "chance": [over(correct.sum(axis=1) / counts) for _ in sizes],
        "prms": {},
    }
    missing, outcomes = {}, {}
    for prm in names:
        steps = [[(candidate.get("prm_scores") or {}).get(prm) for candidate in problem["candidates"]] for problem in problems]
        missing[prm] = sum(not usable(scores) for row in steps for scores in row)
        first["prms"][prm], expected["prms"][prm], outcomes[prm] = {}, {}, {}
        for name, aggregate in AGGREGATES.items():
            rows = [[float(aggregate(scores)) if usable(scores) else NEVER for scores in row] for row in steps]
            scores = padded(rows, width, NEVER)
            weights = padded([[0.0 if score == NEVER else math.copysign(math.pow(abs(score), power), score) for score in row] for row in rows], width, 0.0)
            first["prms"][prm][name] = {
                "best": [over(best_first(scores, correct, size)) for size in sizes],
                "vote": [over(voted(weights, groups, correct, size)) for size in sizes],
            }
            outcomes[prm][name] = by_outcome(scores, correct)
            expected["prms"][prm][name] = {"best": [over(best_expected(scores, correct, counts, size)) for size in sizes]}

    answered = groups >= 0
    leaders = np.take_along_axis(correct, np.where(answered, groups, 0), axis=1)
    real = np.arange(width)[None, :] < counts[:, None]
    return {
        "problems": len(problems),
        "n": sizes,
        "first": first,
        "expected": expected,
        "by_outcome": outcomes,
        "counts": {
            "candidates": int(counts.sum()),
            "fewest_candidates": int(counts.min()),
            "no_answer": int((real & ~answered).sum()),
            # Candidates that the data calls right or wrong otherwise than the first of their answer group.
            "otherwise_than_their_group": int((answered & (leaders != correct)).sum()),
            "without_usable_scores": missing,
        },
    }


def largest_difference(result, report_path, subset):
    with open(report_path, encoding="utf-8") as file:
        numbers = json.load(file)["numbers"]["best-of-n"]
    ours = next(found for found in numbers["sets"] if found["name"] == subset)
    sizes = [size for size in numbers["sizes"] if size in result["n"]]
    pairs = []

    def pair(name, twin, figures):
        for size in sizes:
            value = figures[numbers["sizes"].index(size)]["value"]
            pairs.append((abs(value - twin[result["n"].index(size)]), f"{name} at N = {size}"))

    for name in ("pass", "chance", "majority"):
        pair(name, result["first"][name], ours[name])
    pair("expected pass", result["expected"]["pass"], ours["expected_pass"])
    scorers = {scorer["name"]: scorer for scorer in ours["scorers"]}
    if sorted(scorers) != sorted(result["first"]["prms"]):
        raise SystemExit(f"{report_path}: scorers {sorted(scorers)}, here {sorted(result['first']['prms'])}")
    for prm, scorer in scorers.items():
        for choice in scorer["choices"]:
            aggregation = choice["aggregation"]
            twin = result["first"]["prms"][prm][aggregation]
            pair(f"{prm} {aggregation} best", twin["best"], choice["best"])
            pair(f"{prm} {aggregation} vote", twin["vote"], choice["vote"])
            pair(f"{prm} {aggregation} expected best", result["expected"]["prms"][prm][aggregation]["best"], choice["expected_best"])
            twin, found = result["by_outcome"][prm][aggregation], choice["by_outcome"]
            for kind in ("right", "wrong"):
                for name, value in twin[kind].items():
                    pairs.append((abs(value - found[kind][name]), f"{prm} {aggregation} {kind} {name}"))
            if twin["auc"] is not None:
                pairs.append((abs(twin["auc"] - found["auc"]["value"]), f"{prm} {aggregation} auc"))
    return len(pairs), max(pairs)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--data", required=True)
    arguments.add_argument("--groups")
    arguments.add_argument("--vote-power", type=float, default=1.0)
    arguments.add_argument("--against", help="report.json of gradus bench best-of-n")
    arguments.add_argument("-o", "--output")
    arguments = arguments.parse_args()

    started = time.perf_counter()
    problems = read_lines(arguments.data)
    if not problems or not all(problem["candidates"] for problem in problems):
        raise SystemExit(f"{arguments.data}: every problem needs candidates")
    read = time.perf_counter()
    if arguments.groups:
        groups = groups_of_file(arguments.groups, problems)
    else:
        groups = [groups_of_strings(problem["candidates"]) for problem in problems]
    grouped = time.perf_counter()
    result = {"data": os.path.basename(arguments.data), "grouped_by": "file" if arguments.groups else "string"}
    result |= evaluate(problems, groups, SIZES, arguments.vote_power)
    done = time.perf_counter()

    text = json.dumps(result, indent=1) + "\n"
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as out:
            out.write(text)
    elif not arguments.against:
        sys.stdout.write(text)
    print(
        f"{len(problems)} problems: read {read - started:.3f} s, group {grouped - read:.3f} s, evaluate {done - grouped:.3f} s",
        file=sys.stderr,
    )
    if arguments.against:
        count, (difference, where) = largest_difference(result, arguments.against, os.path.basename(arguments.data).split(".")[0])
        print(f"{count} numbers, largest difference {difference:.1e} ({where})")
        if difference > 1e-9:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
