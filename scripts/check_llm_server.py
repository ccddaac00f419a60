"""Checks the summaries that test_llm_server.sh leaves in a folder: every solution is labeled, undecided or failed, and every token is accounted for."""

import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])


def load(name: str) -> dict:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def solutions(name: str) -> list[dict]:
    rows = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [solution for row in rows for solution in json.loads(row)["solutions"]]


for where in ("server", "here"):
    sampled = load(f"{where}-sample")
    assert sampled["problems"] == 6 and sampled["failed"] == 0, sampled
    assert sampled["solutions"] + sampled["repeated"] + sampled["empty"] == 6, sampled
    assert sampled["right"] + sampled["wrong"] + sampled["unknown"] == sampled["solutions"], sampled
    for annotator, file in (("monte-carlo", "mc"), ("judge", "judge"), ("reference", "reference")):
        summary = load(f"{where}-{annotator}")
        assert summary["solutions"] == sampled["solutions"] and summary["failed"] == 0, summary
        assert summary["labeled"] + summary["undecided"] == summary["solutions"], summary
        assert sum(summary["undecided_by_reason"].values()) == summary["undecided"], summary
        written = [s["annotations"][-1] for s in solutions(f"{where}-{file}") if s.get("annotations")]
        assert len(written) == summary["labeled"], (len(written), summary)
        assert sum(1 for a in written for label in a["labels"] if label) == summary["steps_labeled"], summary
        cost, kept = summary["cost"], [a["cost"] for a in written]
        assert cost["requests"] >= sum(c["requests"] for c in kept), summary
        if summary["undecided"] == 0:
            for field in ("requests", "prompt_tokens", "completion_tokens"):
                assert cost[field] == sum(c[field] for c in kept), (field, summary)
        if where == "server":
            # What the server says it used is what the labels say they cost.
            for field in ("prompt_tokens", "completion_tokens"):
                assert summary["traffic"][field] == cost[field], (field, summary)
        tokens = cost["prompt_tokens"] + cost["completion_tokens"]
        reasons = "; ".join(f"{count} {reason}" for reason, count in summary["undecided_by_reason"].items())
        print(
            f"{where:6} {annotator:11} {summary['labeled']:2} labeled, {summary['with_error']:2} with an error, {summary['undecided']:2} undecided; "
            f"{cost['requests']:3} requests, {tokens:6} tokens, {cost['seconds'] / summary['solutions']:5.1f} s a solution  {reasons}"
        )
    print(f"{where:6} sampled     {sampled['right']} right, {sampled['wrong']} wrong, {sampled['unknown']} unknown; {sampled['cut']} cut off")
print("every solution and every token is accounted for")
