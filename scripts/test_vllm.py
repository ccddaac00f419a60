"""The same requests to `gradus serve` and to a real vLLM: the same fields, the same shapes, the same numbers.

    python3 scripts/test_vllm.py GRADUS_URL VLLM_URL prm|lm [--record FILE]

Both serve the same model, by the name `prm` (a process reward model, vLLM with `--runner pooling` and a STEP pooler) or `lm` (a
language model). Fields of vLLM that we do not have are listed, numbers must agree to 1e-3. With --record, vLLM's
answers are kept: crates/server/tests/server/recorded.rs compares our server with them by the same rules.
Standard library only.
"""

import json
import sys
import urllib.error
import urllib.request

ours, theirs, kind = sys.argv[1:4]
text = "What is 2 + 3?<extra_0>It is 5.<extra_0>"
messages = [{"role": "user", "content": "What is 2 + 3?"}, {"role": "assistant", "content": "It is 5.<extra_0>So 5.<extra_0>"}]
CASES = {
    "prm": [
        ("/pooling", {"task": "token_classify", "input": text}),
        ("/pooling", {"input": [text, "One.<extra_0>"]}),
        ("/pooling", {"task": "token_classify", "input": [40, 41, 293, 42, 293]}),
        ("/pooling", {"task": "token_classify", "input": [[40, 41, 293], [42, 43, 44, 293]]}),
        ("/pooling", {"task": "token_classify", "messages": messages}),
        ("/pooling", {"task": "token_classify", "input": text, "use_activation": False}),
        ("/v1/models", None),
    ],
    "lm": [
        ("/v1/completions", {"prompt": "What is 2 + 3?", "max_tokens": 8, "temperature": 0, "logprobs": 2}),
        ("/v1/completions", {"prompt": [40, 41, 42], "max_tokens": 4, "temperature": 0}),
        ("/v1/completions", {"prompt": "What is 2 + 3?", "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}),
        ("/v1/chat/completions", {"messages": messages[:1], "max_tokens": 8, "temperature": 0, "logprobs": True, "top_logprobs": 2}),
        ("/v1/chat/completions", {"messages": messages, "max_tokens": 6, "temperature": 0, "continue_final_message": True,
                                  "add_generation_prompt": False}),
        ("/v1/models", None),
    ],
}
# Ids, times and what a server says about itself; vLLM's second form of what `logprobs` has.
OWN = {"id", "created", "owned_by", "root", "parent", "permission", "max_model_len", "system_fingerprint", "prompt_logprobs"}
faults, missing = [], set()


def ask(url, path, body):
    data = json.dumps({"model": kind, **body}).encode() if body is not None else None
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def compare(where, mine, other):
    # A part of a character: vLLM's completions write nothing for it, ours U+FFFD.
    if isinstance(other, dict) and isinstance(mine, dict) and isinstance(other.get("tokens"), list):
        mine, other = without_parts(mine), without_parts(other)
    if isinstance(other, dict) and isinstance(mine, dict):
        for key, value in other.items():
            if key in OWN:
                continue
            if key not in mine:
                (missing.add(f"{where}.{key}") if value in (None, [], {}) else faults.append(f"{where}.{key} is missing, vLLM has {str(value)[:60]}"))
            else:
                compare(f"{where}.{key}", mine[key], value)
    elif isinstance(other, list) and isinstance(mine, list):
        if len(mine) != len(other):
            faults.append(f"{where}: {len(mine)} entries, vLLM has {len(other)}")
        for index, (one, two) in enumerate(zip(mine, other)):
            compare(f"{where}[{index}]", one, two)
    elif isinstance(other, (int, float)) and isinstance(mine, (int, float)) and not isinstance(other, bool):
        if abs(mine - other) > 1e-3:
            faults.append(f"{where}: {mine}, vLLM has {other}")
    elif isinstance(mine, str) and isinstance(other, str):
        if mine.replace("\ufffd", "") != other.replace("\ufffd", ""):
            faults.append(f"{where}: {mine[:60]!r}, vLLM has {other[:60]!r}")
    elif mine != other:
        faults.append(f"{where}: {str(mine)[:60]!r}, vLLM has {str(other)[:60]!r}")


def without_parts(logprobs):
    is_part = [not token.strip("\ufffd") for token in logprobs["tokens"]]
    alternatives = [top and {token: value for token, value in top.items() if token.strip("\ufffd")} for top in logprobs["top_logprobs"]]
    kept = {"tokens": [token.strip("\ufffd") for token in logprobs["tokens"]], "token_logprobs": logprobs["token_logprobs"], "top_logprobs": alternatives}
    return kept if any(is_part) else {**kept, "text_offset": logprobs["text_offset"]}


recorded = []
for path, body in CASES[kind]:
    status, mine = ask(ours, path, body)
    expected, other = ask(theirs, path, body)
    recorded.append({"path": path, "body": body, "status": expected, "answer": other})
    label = f"{path} {json.dumps(body)[:70] if body else ''}"
    before = len(faults)
    if status != expected:
        faults.append(f"{label}: {status} {str(mine)[:200]}, vLLM {expected} {str(other)[:200]}")
    elif status == 200:
        compare(path, mine, other)
    print(f"{'same' if len(faults) == before else 'DIFFERENT'}: {label}")
if "--record" in sys.argv:
    with open(sys.argv[sys.argv.index("--record") + 1], "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in recorded)
print("only vLLM has, always empty:", ", ".join(sorted(missing)) or "nothing")
for fault in faults:
    print(fault)
sys.exit(1 if faults else 0)
