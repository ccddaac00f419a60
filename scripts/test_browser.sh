#!/bin/sh
# Every report of `gradus bench`, opened in a real Chromium on a page and on a phone: no console message, no request to a network,
# no text that is cut off or too small; then the pages of `gradus view` and the served page Look, and the labeling page, by
# keyboard and with kills. Pictures are left in OUT.
# Needs GRADUS, the program, with the examples of its build beside it. Installs Debian's chromium and, into OUT, playwright and
# axe-core; without them it says so and passes.
set -eu
out=${OUT:-target/browser}
gradus=$(realpath "${GRADUS:?names the program}")
fragment=$(dirname "$gradus")/examples/fragment
checkout=$(pwd)
model=$checkout/crates/engine/tests/reference/models/qwen2
mkdir -p "$out"

if ! command -v "${CHROMIUM:-chromium}" > /dev/null; then
  apt-get install -y -qq chromium > "$out/apt.log" 2>&1 || { apt-get update -qq && apt-get install -y -qq chromium; } >> "$out/apt.log" 2>&1 || {
    echo "skipped: no Chromium, and it cannot be installed here (see $out/apt.log)"
    exit 0
  }
fi
[ -x "$out/venv/bin/python" ] || python3 -m venv "$out/venv"
"$out/venv/bin/python" -c 'import playwright, axe_playwright_python' 2> "$out/pip.log" || "$out/venv/bin/pip" -q install playwright axe-playwright-python >> "$out/pip.log" 2>&1 || {
  echo "skipped: playwright cannot be installed here (see $out/pip.log)"
  exit 0
}

rm -rf "$out/reports" && mkdir -p "$out/reports" && cd "$out/reports"
"$gradus" synth -n 40 --solutions 4 --seed 5 -o world.jsonl > synth.txt
"$gradus" score world.jsonl --model "$model" --profile plain --name tiny -o scored.jsonl > score.txt
for benchmark in processbench best-of-n drift labels; do
  "$gradus" bench $benchmark scored.jsonl --scores tiny -o $benchmark > $benchmark.txt
done
"$gradus" bench processbench scored.jsonl --scores tiny --threshold 0.45 -o other > other.txt
"$gradus" bench compare processbench other -o compare.html > compare.txt
# Three 'families' that agree: the styles of the synthetic world, as if models had written them.
python3 - > many.jsonl << 'PYTHON'
import json
for problem in range(40):
    answer = "14" if problem % 2 else "13"
    solutions = [{"model": model, "output": f"{start} 3 * 4 = 12. Then 2 + 12 = {answer}.\nSo the answer is {answer}.", "answer": answer,
                  "correct": answer == "14"} for model, start in (("llama-a", "First"), ("qwen-a", "We see that"), ("gpt-a", f"In step {problem}"))]
    print(json.dumps({"id": f"p{problem}", "question": "What is 2 + 3 * 4?", "gold": "14", "solutions": solutions}))
PYTHON
"$gradus" bench preference build many.jsonl -o ops.jsonl > build.txt
"$gradus" bench preference ops.jsonl --model "$model" --profile plain -o preference > preference.txt
"$gradus" bench preference analyse preference -o analysis.html > analysis.txt
python3 - > prmbench.jsonl << 'PYTHON'
import json
classes = "redundency circular counterfactual step_contradiction domain_inconsistency confidence missing_condition deception multi_solutions".split()
for number in range(45):
    kind = classes[number % 9]
    steps = [f"Step {step} of {number}: {step} + {number} = {step + number}." for step in range(4)]
    print(json.dumps({"original_question": "?", "modified_question": f"What is {number} + 3?", "original_process": steps, "modified_process": steps,
                      "modified_steps": [2], "error_steps": [] if kind == "multi_solutions" else [2], "reason": "made up", "idx": f"made_up_{number}",
                      "question": "?", "classification": kind}))
PYTHON
"$gradus" bench prmbench prmbench.jsonl --model "$model" --profile plain -o prmbench > prmbench.txt
"$gradus" view scored.jsonl --limit 20 -o view.html > view.txt
cd "$checkout"
for page in processbench/report best-of-n/report drift/report labels/report preference/report prmbench/report compare analysis; do
  echo "$page.html"
  "$out/venv/bin/python" scripts/screenshots.py "$out/reports/$page.html" "$out/pictures/$(echo $page | tr / -)" --light
done

axe=$out/node_modules/axe-core/axe.min.js
[ -e "$axe" ] || npm install --silent --prefix "$out" axe-core > "$out/npm.log" 2>&1 || echo "without axe-core: npm cannot install it here (see $out/npm.log)"
"$out/venv/bin/python" scripts/test_page.py "$fragment" "$out/reports/view.html" "$out/pictures/pages" "$axe"
echo "labeling page"
GRADUS=$gradus "$out/venv/bin/python" scripts/test_label_page.py "$out/label" sh scripts/serve_label.sh
echo "the page of gradus serve"
"$out/venv/bin/python" scripts/test_serve.py "$gradus" "$out/serve"
