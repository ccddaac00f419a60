"""Speed of the training crate's peer: a step of LoRA training in transformers + PEFT (forward, backward, AdamW on the adapter alone), or with --tuning all
of all weights in transformers, SDPA attention, no padding.

Prints one JSON line: {"peer", "task", "value", "unit", …}; value is the median tokens per second over the steps after the warm-up, best the fastest
step's. peak_gib is what PyTorch had allocated at most on a GPU, and the process's greatest resident size on a CPU.

--model is a folder, or a shape whose weights are random: smollm2-135m (Llama, tied embeddings), qwen2.5-1.5b (Qwen2, tied) or
qwen2.5-7b (Qwen2, untied). Random weights are made on the
device itself. --save writes the model (before training) with the tiny qwen2 tokenizer of the engine's tests, so that our program can load the same one;
with --steps 0 that is all.

Over a bf16 model PEFT keeps the adapter, and so its optimiser state, in f32, which is what we do; --adapter bfloat16 has everything in bf16.
The figures that docs/performance.md speaks of:
  python train.py --model smollm2-135m --device cpu --dtype float32 --sequences 8 --length 256 --steps 3
  python train.py --model qwen2.5-7b --device cuda --dtype bfloat16 --sequences 4 --length 1024 --steps 10 [--checkpointing]
Written for torch 2.8 or later, transformers 4.57 to 5, peft 0.17 or later.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
TOKENIZER = os.path.join(ROOT, "crates/engine/tests/reference/models/qwen2")
# The special ids are those of the tiny tokenizer.
IDS = dict(bos_token_id=291, eos_token_id=290, pad_token_id=294)
SHAPES = {
    "smollm2-135m": ("LlamaConfig", 100000.0, dict(
        hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, intermediate_size=1536, vocab_size=49152,
        # The real one has 8,192, which no weight depends on.
        max_position_embeddings=40960, rms_norm_eps=1e-5, tie_word_embeddings=True,
    )),
    "qwen2.5-1.5b": ("Qwen2Config", 1000000.0, dict(
        hidden_size=1536, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2, intermediate_size=8960, vocab_size=151936,
        max_position_embeddings=32768, rms_norm_eps=1e-6, tie_word_embeddings=True,
    )),
    "qwen2.5-7b": ("Qwen2Config", 1000000.0, dict(
        hidden_size=3584, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4, intermediate_size=18944, vocab_size=152064,
        max_position_embeddings=32768, rms_norm_eps=1e-6, tie_word_embeddings=False,
    )),
}


def random_model(shape, device, dtype):
    import torch
    import transformers

    config_class, theta, sizes = SHAPES[shape]
    config = getattr(transformers, config_class)(**sizes, **IDS, rope_theta=theta)
    torch.manual_seed(0)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1) if "norm" in name else parameter.normal_(0, 0.02)
    return model


def save(model, folder, shape):
    model.save_pretrained(folder)
    # What checkpoints in the wild say, whichever release of transformers wrote this one.
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    if shape in SHAPES:
        config.update(rope_theta=SHAPES[shape][1])
        config.pop("rope_parameters", None)
        config.pop("layer_types", None)
    config["torch_dtype"] = config.pop("dtype", None) or config.get("torch_dtype")
    with open(path, "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copyfile(os.path.join(TOKENIZER, name), os.path.join(folder, name))


def add_lora(model, arguments):
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=arguments.rank, lora_alpha=2 * arguments.rank, lora_dropout=0.0, target_modules=arguments.targets.split(","), task_type="CAUSAL_LM"
    )
    model = get_peft_model(model, config, autocast_adapter_dtype=arguments.adapter == "float32")
    if arguments.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    return model.train()


def measure(model, arguments):
    """Seconds of every step, the warm-up's first, and the last loss."""
    import torch

    cuda = arguments.device == "cuda"
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    vocabulary = model.get_input_embeddings().weight.shape[0]
    generator = torch.Generator().manual_seed(1)
    wait = torch.cuda.synchronize if cuda else lambda: None
    seconds = []
    for _ in range(arguments.warmup + arguments.steps):
        ids = torch.randint(vocabulary, (arguments.sequences, arguments.length), generator=generator).to(arguments.device)
        wait()
        started = time.perf_counter()
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        wait()
        seconds.append(time.perf_counter() - started)
    return seconds, loss.item(), sum(p.numel() for p in trained)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", required=True, help=f"a folder, or {' or '.join(SHAPES)}")
    arguments.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    arguments.add_argument("--adapter", choices=["float32", "bfloat16"], default="float32", help="the adapter over a bf16 model")
    arguments.add_argument("--tuning", choices=["lora", "all"], default="lora", help="what is trained")
    arguments.add_argument("--rank", type=int, default=32)
    arguments.add_argument("--targets", default="q_proj,v_proj")
    arguments.add_argument("--sequences", type=int, default=4)
    arguments.add_argument("--length", type=int, default=1024)
    arguments.add_argument("--steps", type=int, default=5, help="measured steps")
    arguments.add_argument("--warmup", type=int, help="steps before them (1 on a CPU, 3 on a GPU)")
    arguments.add_argument("--checkpointing", action="store_true", help="recompute layers in the backward pass")
    arguments.add_argument("--threads", type=int, default=2, help="threads on a CPU")
    arguments.add_argument("--save", metavar="FOLDER")
    arguments = arguments.parse_args()
    if arguments.warmup is None:
        arguments.warmup = 3 if arguments.device == "cuda" else 1

    import torch
    import transformers
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(arguments.threads)
    dtype = getattr(torch, arguments.dtype)
    if arguments.model in SHAPES:
        model = random_model(arguments.model, arguments.device, dtype)
    elif os.path.isdir(arguments.model):
        model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=dtype, attn_implementation="sdpa").to(arguments.device)
    else:
        raise SystemExit(f"{arguments.model}: neither a folder nor one of {', '.join(SHAPES)}")
    if arguments.save:
        save(model, arguments.save, arguments.model)
    if arguments.steps == 0:
        return
    model = add_lora(model, arguments) if arguments.tuning == "lora" else model.train()
    if arguments.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds, loss, trained = measure(model, arguments)
    if arguments.device == "cuda":
        peak = torch.cuda.max_memory_allocated()
    else:
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tokens, seconds = arguments.sequences * arguments.length, seconds[arguments.warmup :]
    name = os.path.basename(os.path.normpath(arguments.model))
    print(json.dumps({
        "peer": f"transformers{' + peft' if arguments.tuning == 'lora' else ''} {arguments.dtype}", "tuning": arguments.tuning, "task": f"train {name}", "value": round(tokens / statistics.median(seconds), 2),
        "best": round(tokens / min(seconds), 2), "unit": "tokens/s", "version": transformers.__version__, "peak_gib": round(peak / 2**30, 2), "device": arguments.device,
        "adapter": arguments.adapter, "rank": arguments.rank, "targets": arguments.targets, "sequences": arguments.sequences, "length": arguments.length,
        "checkpointing": arguments.checkpointing, "steps": arguments.steps, "trained_parameters": trained, "loss": round(loss, 4),
    }), flush=True)


if __name__ == "__main__":
    main()
