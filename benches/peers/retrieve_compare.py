"""Holds the references that we found beside those of the peers, prints how many are equal and how the times compare, and fails where one differs.

    python retrieve_compare.py --pool POOL OURS.jsonl THEIRS.jsonl… [--seconds S]

Both are lines as in retrieve_common.py; ours may have more fields, and more targets where the peer took some only. Rank by rank, a reference is
  equal      the same, similarities less than TOLERANCE apart (as in the next two)
  elsewhere  the same step text in another place
  tied       another question or step that is as near
  edge       another step, and rounding decides which question was the last of the step database (steps only)
  different  anything else: the command fails
Times are read from OURS.times.json ({"seconds": …}) and THEIRS.times.json; --seconds gives ours. A peer that took some of the targets only is also compared as if it had
taken all: what it does for each target is multiplied, loading and opening are not.
"""

import argparse
import collections
import json
import os
import sys

from retrieve_common import Pool, times_path

TOLERANCE = 1e-4
PER_TARGET = ("embed targets", "embed databases", "search")
KINDS = ("equal", "elsewhere", "tied", "edge", "different")


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def rows_by_name(pool):
    """The rows of the step texts that go by a name; a solution's id may occur twice."""
    found = collections.defaultdict(set)
    for question in range(pool.counts["questions"]):
        of_question = pool.question_id(question)
        for solution in range(pool.by_question[question], pool.by_question[question + 1]):
            start, end = int(pool.by_solution[solution]), int(pool.by_solution[solution + 1])
            for number, row in enumerate(pool.rows[start:end].tolist()):
                found[of_question, pool.solution_id(solution), number].add(row)
    return found


def name(step):
    return step["question"], step["solution"], step["step"]


def compare(ours, theirs, texts):
    """Counts by kind for questions and steps, the largest difference of a similarity of equals, and what differs."""
    questions, steps, largest, different = collections.Counter(), collections.Counter(), 0.0, []
    ours = {line["id"]: line for line in ours}
    for their in theirs:
        our = ours.get(their["id"])
        if our is None:
            different.append(f"{their['id']}: not among ours")
            questions["different"] += len(their["questions"])
            steps["different"] += sum(map(len, their["steps"]))
            continue

        def count(where, counts, a, b, kind):
            nonlocal largest
            apart = abs(a["similarity"] - b["similarity"])
            found = kind(a, b, apart < TOLERANCE)
            counts[found] += 1
            if found == "equal":
                largest = max(largest, apart)
            if found == "different":
                different.append(f"{their['id']}: {where}: ours {a}, theirs {b}")

        def question(a, b, near):
            if not near:
                return "different"
            return "equal" if a["question"] == b["question"] else "tied"

        def step(a, b, near):
            if not near:
                # Another database may have a nearer step, but the same step cannot be nearer.
                return "edge" if their["edge"] < TOLERANCE and name(a) != name(b) else "different"
            if name(a) == name(b):
                return "equal"
            return "elsewhere" if texts[name(a)] & texts[name(b)] else "tied"

        pairs = [("questions", questions, our["questions"], their["questions"], question)]
        pairs += [(f"step {at}", steps, a, b, step) for at, (a, b) in enumerate(zip(our["steps"], their["steps"]))]
        if len(our["steps"]) != len(their["steps"]):
            different.append(f"{their['id']}: ours has {len(our['steps'])} steps, theirs {len(their['steps'])}")
            steps["different"] += 1
        for where, counts, mine, other, kind in pairs:
            if len(mine) != len(other):
                different.append(f"{their['id']}: {where}: ours has {len(mine)} references, theirs {len(other)}")
                counts["different"] += 1
            for a, b in zip(mine, other):
                count(where, counts, a, b, kind)
    return questions, steps, largest, different


def show_times(ours, times):
    """Ours, and the peer's times; what it did for some targets is what it would do for as many others."""
    factor = times["of"] / times["targets"]
    more = sum(times.get(part, 0.0) for part in PER_TARGET) * (factor - 1)
    whole = times["seconds"] + more
    if more:
        print(f"  times: {times['seconds']:.2f} s for {times['targets']} of {times['of']} targets, {whole:.2f} s for all at the same pace")
    for what, seconds in [("total", whole), ("without loading their model", whole - times["load model"])]:
        ratio = "" if ours is None else f", ours {ours:.2f} s, ratio {seconds / ours:.2f}"
        print(f"  {what}: theirs {seconds:.2f} s{ratio}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pool", required=True)
    arguments.add_argument("--seconds", type=float, help="our time, where it is in no file")
    arguments.add_argument("ours")
    arguments.add_argument("theirs", nargs="+")
    arguments = arguments.parse_args()

    seconds = arguments.seconds
    if seconds is None and os.path.exists(times_path(arguments.ours)):
        with open(times_path(arguments.ours), encoding="utf-8") as file:
            seconds = json.load(file)["seconds"]
    texts, ours, failed = rows_by_name(Pool(arguments.pool)), read_lines(arguments.ours), False
    for path in arguments.theirs:
        theirs = read_lines(path)
        questions, steps, largest, different = compare(ours, theirs, texts)
        print(f"{os.path.splitext(os.path.basename(path))[0]}: {len(theirs)} targets of our {len(ours)}")
        for what, counts in [("questions", questions), ("steps", steps)]:
            print(f"  {what}: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind] or kind in ("equal", "tied", "different")))
        print(f"  largest difference of a similarity: {largest:.1e}")
        with open(times_path(path), encoding="utf-8") as file:
            times = json.load(file)
        if (len(theirs), len(ours)) != (times["targets"], times["of"]):
            raise SystemExit(f"{path}: {len(theirs)} lines, ours {len(ours)}: times are for {times['targets']} of {times['of']} targets")
        show_times(seconds, times)
        for line in different[:10]:
            print(f"  {line}", file=sys.stderr)
        failed = failed or bool(different)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
