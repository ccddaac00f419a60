"""The engine's peer on a GPU: transformers in bf16 with SDPA, on random weights of a shape, and what the GPU itself can do.

Prints JSON lines like `engine_speed`: `forward:COUNTxLENGTH` (prompt tokens per second, the last position's logits only, best batch size) and
`decode:COUNTxLENGTH` (sampled tokens per second of COUNT sequences, dynamic cache, best of three). `limits` measures a copy and a product.
Written for torch 2.11, transformers 5.17.
  python gpu.py limits
  python gpu.py smollm2-135m forward:64x512 decode:192x160
"""

import importlib.metadata
import importlib.util
import json
import sys
import time

import torch
import transformers

from train import random_model

VERSION = f"transformers {transformers.__version__}, torch {torch.__version__}"
if importlib.util.find_spec("peft"):
    VERSION += f", peft {importlib.metadata.version('peft')}"


def report(task, value, unit, **more):
    print(json.dumps({"model": sys.argv[1], "peer": "transformers", "task": task, "value": round(value, 1), "unit": unit, "version": VERSION, **more}), flush=True)


def fastest(run, repeat=3):
    run()
    seconds = []
    for _ in range(repeat):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def limits():
    x = torch.randn(1 << 30, device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    copied = 2 * x.numel() * 2 / fastest(lambda: y.copy_(x)) / 1e9
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = 2 * 8192**3 * 10 / fastest(lambda: [a @ b for _ in range(10)]) / 1e9
    name = torch.cuda.get_device_name()
    print(json.dumps({"peer": "limit", "task": "products", "value": round(product), "unit": "GFLOP/s", "device": name}))
    print(json.dumps({"peer": "limit", "task": "reading memory", "value": round(copied), "unit": "GB/s", "device": name}), flush=True)


def forward(model, task, count, length):
    rates = {}
    for batch in (1, 4, 16, 64):
        if batch > count or batch * length > 65_536:
            continue
        ids = torch.randint(5, 289, (batch, length), device="cuda")
        try:
            with torch.inference_mode():
                seconds = fastest(lambda: [model(ids, logits_to_keep=1, use_cache=False) for _ in range(count // batch)])
        except torch.OutOfMemoryError:
            if not rates:
                raise
            break
        rates[batch] = count * length / seconds
    best = max(rates, key=rates.get)
    report(task, rates[best], "tokens/s", batch=best, peak_gib=round(torch.cuda.max_memory_allocated() / 2**30, 1))


def decode(model, task, count, length):
    prompts = torch.randint(5, 289, (1, 6), device="cuda").repeat(count, 1)
    sampling = dict(do_sample=True, temperature=1.0, top_k=0, max_new_tokens=length, min_new_tokens=length)
    with torch.inference_mode():
        seconds = fastest(lambda: model.generate(prompts, **sampling))
    report(task, count * length / seconds, "tokens/s")


def main():
    if sys.argv[1] == "limits":
        return limits()
    model = random_model(sys.argv[1], "cuda", torch.bfloat16).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    for task in sys.argv[2:]:
        kind, size = task.split(":")
        count, length = map(int, size.split("x"))
        torch.cuda.reset_peak_memory_stats()
        try:
            {"forward": forward, "decode": decode}[kind](model, task, count, length)
        except torch.OutOfMemoryError:
            report(task, 0, "tokens/s", note="out of memory")
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
