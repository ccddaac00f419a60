"""The same process reward model behind `gradus serve`, vLLM's CPU build, and transformers with FastAPI: 64 clients, one run.

    python3 benches/peers/serve.py GRADUS VENV SMOLLM2 [--clients 64]

SMOLLM2 is a folder with SmolLM2-135M's GGUF file; VENV has vllm (see scripts/test_vllm.sh), gguf, accelerate and fastapi. Its layers
become a PRM with a random head in bfloat16 (`Qwen2ForProcessRewardModel`, the one form that all three read). Each server gets the same
requests to `/pooling`, one solution each, alone on the machine; the best of three rounds counts. The scores of all must agree.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

arguments = argparse.ArgumentParser()
arguments.add_argument("gradus")
arguments.add_argument("venv")
arguments.add_argument("smollm2")
arguments.add_argument("--clients", type=int, default=64)
arguments.add_argument("--problems", type=int, default=8)
arguments.add_argument("--solutions", type=int, default=16)
options = arguments.parse_args()
folder = pathlib.Path(tempfile.mkdtemp())
python = f"{options.venv}/bin/python"

MAKE = """
import json, pathlib, sys, torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
source, folder = map(pathlib.Path, sys.argv[1:])
gguf = next(source.glob("*.gguf")).name
model = AutoModelForCausalLM.from_pretrained(source, gguf_file=gguf, dtype=torch.bfloat16)
tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=gguf)
tokenizer.save_pretrained(folder)
# A special token that texts do not have becomes the step tag.
for name in ("tokenizer.json", "tokenizer_config.json"):
    path = folder / name
    path.write_text(path.read_text().replace("<file_sep>", "<extra_0>"))
weights = {name: value.contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"}
config = model.config
torch.manual_seed(1)
width, heads = config.hidden_size, config.num_key_value_heads * (config.hidden_size // config.num_attention_heads)
for layer in range(config.num_hidden_layers):
    for part, size in (("q", width), ("k", heads), ("v", heads)):
        weights[f"model.layers.{layer}.self_attn.{part}_proj.bias"] = torch.zeros(size, dtype=torch.bfloat16)
for part, shape in (("0", (width, width)), ("2", (2, width))):
    weights[f"score.{part}.weight"] = (torch.randn(shape) / width ** 0.5).to(torch.bfloat16)
    weights[f"score.{part}.bias"] = torch.zeros(shape[0], dtype=torch.bfloat16)
save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
written = {key: getattr(config, key) for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "max_position_embeddings", "rms_norm_eps")}
written |= {"architectures": ["Qwen2ForProcessRewardModel"], "model_type": "qwen2", "hidden_act": "silu", "tie_word_embeddings": False,
    "rope_theta": 100000.0, "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}, "torch_dtype": "bfloat16", "dtype": "bfloat16",
    "use_sliding_window": False, "bos_token_id": None, "eos_token_id": config.eos_token_id, "num_labels": 2}
(folder / "config.json").write_text(json.dumps(written, indent=1))
"""
model = folder / "prm"
model.mkdir()
subprocess.run([python, "-c", MAKE, options.smollm2, model], check=True, stderr=subprocess.DEVNULL)
tag = next(token["id"] for token in json.loads((model / "tokenizer.json").read_text())["added_tokens"] if token["content"] == "<extra_0>")
world = folder / "world.jsonl"
subprocess.run([options.gradus, "synth", "-n", str(options.problems), "--solutions", str(options.solutions), "--seed", "3", "-o", world], check=True, capture_output=True)
records = [json.loads(line) for line in world.read_text().splitlines()]
texts = ["<|im_start|>user\n" + record["problem"]["text"] + "<|im_end|>\n<|im_start|>assistant\n" + "<extra_0>".join(solution["steps"]) + "<extra_0>"
         for record in records for solution in record["solutions"]]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def command(name, port):
    return {
        "gradus serve": [options.gradus, "serve", "--model", f"prm={model}", "--listen", f"127.0.0.1:{port}"],
        "vLLM": [f"{options.venv}/bin/vllm", "serve", str(model), "--served-model-name", "prm", "--dtype", "bfloat16", "--max-model-len", "2048",
                 "--port", str(port), "--runner", "pooling", "--pooler-config", json.dumps({"pooling_type": "STEP", "step_tag_id": tag, "returned_token_ids": [0, 1]})],
        "transformers and FastAPI": [python, str(pathlib.Path(__file__).with_name("prm_fastapi.py")), str(model), str(port)],
    }[name]


def measure(name):
    port = free_port()
    environment = {**os.environ, "GRADUS_LOG": "error", "VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
    log = open(folder / (name.replace(" ", "-") + ".log"), "w")
    process = subprocess.Popen(command(name, port), env=environment, stdout=log, stderr=log)
    health = "/healthz" if name == "gradus serve" else "/health"
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{health}", timeout=5).read()
            break
        except OSError:
            assert process.poll() is None, (folder / log.name).read_text()[-2000:]
            time.sleep(1)
    local = threading.local()

    def ask(text):
        import http.client
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        local.connection.request("POST", "/pooling", json.dumps({"model": "prm", "task": "token_classify", "input": text}), {"Content-Type": "application/json"})
        answer = local.connection.getresponse()
        body = json.loads(answer.read())
        assert answer.status == 200, body
        return [row[1] for row in body["data"][0]["data"]]

    best = None
    for _ in range(3):
        with concurrent.futures.ThreadPoolExecutor(options.clients) as clients:
            started = time.monotonic()
            found = list(clients.map(ask, texts))
            seconds = time.monotonic() - started
        best = min(best or seconds, seconds)
    process.terminate()
    process.wait()
    return best, found


seconds, scores = {}, {}
for name in ("gradus serve", "vLLM", "transformers and FastAPI"):
    seconds[name], scores[name] = measure(name)
print(f"{len(texts)} solutions of {len(records)} problems, one per request, {options.clients} clients, the best of three rounds")
for name, taken in seconds.items():
    far = max(abs(one - two) for mine, other in zip(scores["gradus serve"], scores[name]) for one, two in zip(mine, other))
    print(f"{name:26} {taken:7.2f} s {len(texts) / taken:7.1f} solutions/s   {taken / seconds['gradus serve']:5.2f} times ours; scores at most {far:.3f} from ours")
