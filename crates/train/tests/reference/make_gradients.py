"""Losses and gradients of the engine's tiny models in PyTorch (gradients/), for the backward pass of the training crate.

Made with torch 2.8.0, transformers 4.57.1, peft 0.17.1, gguf 0.19.0, safetensors 0.8.0, on a CPU, in f32, with eager attention, in eval mode (no dropout).
Run: `python make_gradients.py [case …]` in this folder; without names it makes all of them. The models are those of crates/engine/tests/reference.

Every sequence is run alone, without padding; the gradients of a case are those of its one loss, the sum over all rows of all sequences
divided by their number. A row is a position that is read: logits at position p predict the token at p + 1.

gradients/<case>.safetensors, all f32:
  lora.<module>.A [r, in], lora.<module>.B [out, r]   the adapter, in PEFT's orientation: y = W x + scale · B (A x); <module> as in layers.0.self_attn.q_proj
  grad.<module>.A, grad.<module>.B                    their gradients
  grad.<parameter>                                    full fine-tuning and heads: under the checkpoint's name, as in model.norm.weight, score.2.bias;
                                                      a tied embedding has one gradient, the sum of both uses
  grad.embeddings.<i> [tokens, hidden]                the gradient along the output of the embedding, sequence i; its use as the output matrix is not in it

gradients.json: cases[], one a line:
  name, file, what; model (relative to crates/engine/tests/reference), architecture;
  lora: r, alpha, scale, rslora, targets, or null (full fine-tuning); trained: names of the gradients that are not of the adapter
  loss: kind, rows, value; answer_tokens: the two ids, the positive one first (two_token_* only)
  sequences[]: ids, positions, targets (one a position), read (what the loss saw at each position: the log-probability of the target for next_token, the
    logits of the two tokens or of all classes, or the value before the sigmoid)
  tree: trunk (ids), branches[]: at (how many ids of the trunk come before it), ids; sequence i is trunk[..at] + ids of branch i (tree cases only)
  f64_difference: the greatest |difference| of a gradient to the same computed in f64, over the greatest |entry| of its tensor: how exact these are (transformers'
    norms and attention softmax stay in f32)
Kinds of loss, each row: next_token: −log p(target); two_token_cross_entropy: the same over two logits, target 0 (positive) or 1;
two_token_soft_cross_entropy: −t·log p − (1 − t)·log(1 − p), p the positive token's probability of the two; two_token_squared_error: (p − t)²;
class_cross_entropy: −log p(target); class_squared_error: (p(class 1) − t)²; value_cross_entropy: −t·log σ(v) − (1 − t)·log σ(−v);
value_squared_error: (σ(v) − t)².
"""

import json
import math
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ENGINE = os.path.join(HERE, "../../../engine/tests/reference")
sys.path.insert(0, ENGINE)

import gguf
import torch
import torch.nn.functional as F
from peft import LoraConfig, inject_adapter_in_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForTokenClassification, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

import tiny_tokenizer
from make_gguf import NAMES, rotary_heads, unpermute
from make_models import load_custom, short

SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TEXT = "Tom has 3 apples and 14 pears; how many in total?\n"
TOKENIZER = tiny_tokenizer.bpe()
PLUS, MINUS = TOKENIZER.convert_tokens_to_ids(["+", "-"])
encode = TOKENIZER.encode


# Models, all in f32.


def load_gguf(path):
    """The model of a GGUF file with its weights dequantised, as make_gguf.py has them after its own round trip."""
    reader = gguf.GGUFReader(path)
    architecture = reader.fields["general.architecture"].contents()
    field = lambda name: reader.fields[f"{architecture}.{name}"].contents()
    config_class, model_class = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}[architecture]
    config = config_class(
        vocab_size=field("vocab_size"), hidden_size=field("embedding_length"), intermediate_size=field("feed_forward_length"),
        num_hidden_layers=field("block_count"), num_attention_heads=field("attention.head_count"), num_key_value_heads=field("attention.head_count_kv"),
        rope_theta=field("rope.freq_base"), max_position_embeddings=field("context_length"),
        # Read as an f32 field, 1e-5 comes back as 9.99999974e-6; the rounding of the config's own decimal is the same number.
        rms_norm_eps=float(f"{field('attention.layer_norm_rms_epsilon'):.6g}"),
        tie_word_embeddings=all(tensor.name != "output.weight" for tensor in reader.tensors),
    )
    config._attn_implementation = "eager"
    parts = {theirs: ours for ours, theirs in NAMES.items()}
    top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    state = {}
    for tensor in reader.tensors:
        stem, kind = tensor.name.rsplit(".", 1)
        if stem.startswith("blk."):
            _, layer, part = stem.split(".")
            name = f"model.layers.{layer}.{parts[part]}.{kind}"
        else:
            name = f"{top[stem]}.{kind}"
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        heads = rotary_heads(name, config) if data.ndim == 2 else None
        state[name] = torch.from_numpy((unpermute(data, heads) if heads else data).copy())
    model = model_class(config)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and missing == (["lm_head.weight"] if config.tie_word_embeddings else []), (missing, unexpected)
    model.tie_weights()
    return model


def load(name):
    path = os.path.join(ENGINE, name)
    if name.endswith(".gguf"):
        model = load_gguf(path)
    elif name in ("models/qwen2-prm", "models/skywork"):
        model = load_custom(os.path.basename(name))
    else:
        auto = AutoModelForTokenClassification if "token-classification" in name else AutoModelForCausalLM
        model = auto.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


def architecture(name, model):
    if name.endswith(".gguf"):
        return type(model).__name__
    with open(os.path.join(ENGINE, name, "config.json")) as file:
        return json.load(file)["architectures"][0]


def add_lora(model, seed, targets, rslora):
    """PEFT's own LoRA layers in place, with values that make both matrices matter from the start."""
    config = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=list(targets), use_rslora=rslora)
    inject_adapter_in_model(config, model)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        parameter.requires_grad = "lora_" in name
        if "lora_" in name:
            # A wider input gets smaller entries: attention that saturates has gradients too small to compare.
            spread = 0.2 * math.sqrt(min(1, 64 / parameter.shape[1]))
            parameter.data.copy_(spread * torch.randn(parameter.shape, generator=generator))
    return {"r": 4, "alpha": 8, "scale": 8 / math.sqrt(4) if rslora else 8 / 4, "rslora": rslora, "targets": list(targets)}


# Losses: what is read of a row, and the sum over rows.


def two_tokens(logits):
    return logits[:, [PLUS, MINUS]]


def probability(logits, positive):
    return logits.softmax(-1)[:, positive]


def next_token_rows(logits, targets):
    return logits.log_softmax(-1)[range(len(targets)), targets]


def soft_cross_entropy(rows, targets):
    logs = rows.log_softmax(-1)
    return -(targets * logs[:, 0] + (1 - targets) * logs[:, 1]).sum()


KINDS = {
    "next_token": (next_token_rows, lambda rows, t: -rows.sum()),
    "two_token_cross_entropy": (lambda x, t: two_tokens(x), lambda rows, t: F.cross_entropy(rows, t, reduction="sum")),
    "two_token_soft_cross_entropy": (lambda x, t: two_tokens(x), soft_cross_entropy),
    "two_token_squared_error": (lambda x, t: two_tokens(x), lambda rows, t: F.mse_loss(probability(rows, 0), t, reduction="sum")),
    "class_cross_entropy": (lambda x, t: x, lambda rows, t: F.cross_entropy(rows, t, reduction="sum")),
    "class_squared_error": (lambda x, t: x, lambda rows, t: F.mse_loss(probability(rows, 1), t, reduction="sum")),
    "value_cross_entropy": (lambda x, t: x, lambda rows, t: F.binary_cross_entropy_with_logits(rows, t, reduction="sum")),
    "value_squared_error": (lambda x, t: x, lambda rows, t: F.mse_loss(rows.sigmoid(), t, reduction="sum")),
}


def run(model, kind, sequences):
    """Loss, gradients by parameter name, the embeddings' gradients and what was read; one backward pass a sequence, added up."""
    read_rows, total = KINDS[kind]
    count = sum(len(sequence["positions"]) for sequence in sequences)
    kept = []

    def keep(module, inputs, output):
        output.retain_grad() if output.requires_grad else output.requires_grad_()
        kept.append(output)

    hook = model.model.embed_tokens.register_forward_hook(keep)
    model.zero_grad(set_to_none=True)
    loss, read = 0.0, []
    for sequence in sequences:
        out = model(torch.tensor([sequence["ids"]]))
        rows = (out.logits if hasattr(out, "logits") else out)[0, sequence["positions"]]
        targets = torch.tensor(sequence["targets"])
        targets = targets.to(rows.dtype) if targets.is_floating_point() else targets
        rows = read_rows(rows, targets)
        value = total(rows, targets) / count
        value.backward()
        loss += value.item()
        read.append(rows.detach().tolist())
    hook.remove()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return loss, gradients, [x.grad[0].clone() for x in kept], read


def stored_name(name):
    """model.layers.0.self_attn.q_proj.lora_A.default.weight is layers.0.self_attn.q_proj.A here; others keep their name."""
    if ".lora_" not in name:
        return name.replace(".base_layer", "")
    module, rest = name.split(".lora_")
    return f"{module.removeprefix('model.')}.{rest[0]}"


def relative(a, b):
    return ((a.double() - b.double()).abs().max() / b.double().abs().max()).item()


def write(name, what, model_name, kind, sequences, lora=True, targets=SEVEN, rslora=False, head=(), seed=61, tree=None):
    model = load(model_name)
    class_name = architecture(model_name, model)
    lora = add_lora(model, seed, targets, rslora) if lora else None
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.startswith(tuple(head)):
            parameter.requires_grad = True
    tensors = {f"lora.{stored_name(n)}": p.detach().clone() for n, p in model.named_parameters() if ".lora_" in n}
    loss, gradients, embeddings, read = run(model, kind, sequences)
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    tensors |= {f"grad.{stored_name(n)}": g for n, g in gradients.items()}
    tensors |= {f"grad.embeddings.{i}": g for i, g in enumerate(embeddings)}
    assert all(t.abs().max() > 0 and t.isfinite().all() for t in tensors.values()), [n for n, t in tensors.items() if t.abs().max() == 0]
    exact = run(model.double(), kind, sequences)[1:3]
    difference = max([relative(g, exact[0][n]) for n, g in gradients.items()] + [relative(*pair) for pair in zip(embeddings, exact[1])])
    path = os.path.join(HERE, "gradients", f"{name}.safetensors")
    save_file({key: value.contiguous() for key, value in sorted(tensors.items())}, path)
    size = os.path.getsize(path)
    assert size < 300_000, (name, size)
    print(f"{name}: loss {loss:.6f}, {len(gradients)} gradients, {size // 1000} kB, f64 difference {difference:.1e}")
    case = {
        "name": name, "file": f"gradients/{name}.safetensors", "what": what, "model": model_name, "architecture": class_name, "lora": lora,
        "trained": sorted(f"grad.{n}" for n in map(stored_name, gradients) if f"lora.{n}" not in tensors),
        "loss": {"kind": kind, "rows": sum(len(s["positions"]) for s in sequences), "value": short(loss)},
        "sequences": [{**s, "read": short(r)} for s, r in zip(sequences, read)], "f64_difference": float(f"{difference:.2g}"),
    }
    if kind.startswith("two_token"):
        case["answer_tokens"] = [PLUS, MINUS]
    if tree:
        case["tree"] = tree
    return case


# Sequences.


def next_tokens(ids, start=0):
    """Every position but the last predicts its follower; with a start, only tokens from there on are predicted (a prompt before them is not)."""
    positions = list(range(max(start, 1) - 1, len(ids) - 1))
    return {"ids": ids, "positions": positions, "targets": [ids[p + 1] for p in positions]}


def text_sequence():
    return next_tokens(encode(TEXT)[:36])


def packed_sequences():
    return [next_tokens(encode(text)) for text in ["the sum is 12. ки\nso the answer is 7. ки\n", "Tom has 3 apples.\n", "x = 3 - 1, so the total is the rest + 4\n"]]


def tree_prompts(targets):
    """Steps of a solution asked about one by one: the trunk is the problem and its steps, a branch leaves it before a step ends. Two leave at the same place."""
    question, steps = "Tom: 3 + 4?\n", ["the sum is 7. ", "so 7 - 1 = 5. ", "the answer is 5. "]
    trunk = encode(question + "".join(steps))
    ends = [len(encode(question + "".join(steps[:i]))) for i in range(4)]
    assert ends[-1] == len(trunk)
    texts = [(0, "the sum is 7. +?"), (1, "so 7 - 1 = 5. or not?"), (1, "is it 6?\n"), (3, "?")]
    branches = [{"at": ends[i], "ids": encode(text)} for i, text in texts]
    prompts = [trunk[: branch["at"]] + branch["ids"] for branch in branches]
    sequences = [{"ids": ids, "positions": [len(ids) - 1], "targets": [target]} for ids, target in zip(prompts, targets)]
    return sequences, {"trunk": trunk, "branches": branches}


def steps_sequence(targets):
    ids = encode("3 + 4 = 7. ки\n7 - 1 = 5. ки\nthe answer is 5. ки\n")
    positions = [i for i, token in enumerate(ids) if TOKENIZER.convert_ids_to_tokens(token) == TOKENIZER.tokenize(" ки")[0]]
    assert len(positions) == 3
    return [{"ids": ids, "positions": positions, "targets": targets}]


# Cases: name → the arguments of write.

HARD, SOFT = [0, 1, 0], [0.875, 0.25, 0.5]
CASES = {}
for model in ["llama", "llama-sharded", "llama-f16", "llama-linear-rope", "llama3-rope", "mistral", "qwen2", "qwen2-yarn", "qwen3"]:
    CASES[f"lora-{model}"] = lambda model=model: (
        "LoRA on all seven projections, next token at every position", f"models/{model}", "next_token", [text_sequence()])
CASES["lora-llama-qv-rslora"] = lambda: (
    "LoRA on q and v alone, scale alpha / sqrt(r)", "models/llama", "next_token", [text_sequence()], dict(targets=["q_proj", "v_proj"], rslora=True))
CASES["lora-llama-answer"] = lambda: (
    "next token of the answer part alone: the first 20 tokens are a prompt", "models/llama", "next_token", [next_tokens(encode(TEXT)[:36], 20)])
for model in ["llama-q8_0", "llama-q4_1", "llama-k", "qwen2-q8_0"]:
    CASES[f"qlora-{model}"] = lambda model=model: (
        "LoRA over the dequantised weights of a GGUF file, next token at every position", f"gguf/{model}.gguf", "next_token",
        [next_tokens(encode(TEXT)[:20]) if model == "llama-k" else text_sequence()])
for model in ["llama", "llama-sharded", "qwen2", "qwen3"]:
    CASES[f"full-{model}"] = lambda model=model: (
        "full fine-tuning, next token at every position", f"models/{model}", "next_token", [text_sequence()], dict(lora=False))
for model, head, losses in [
    ("qwen2-prm", ["score."], [("class_cross_entropy", HARD), ("class_squared_error", SOFT)]),
    ("qwen2-token-classification", ["score."], [("class_cross_entropy", HARD), ("class_squared_error", SOFT)]),
    ("skywork", ["v_head."], [("value_cross_entropy", [0.0, 1.0, 0.0]), ("value_squared_error", SOFT)]),
]:
    for kind, targets in losses:
        CASES[f"head-{model}-{kind.split('_', 1)[1].replace('_', '-')}"] = lambda model=model, head=head, kind=kind, targets=targets: (
            "a head at three step positions; LoRA and the head are trained", f"models/{model}", kind, steps_sequence(targets), dict(head=head))
for model, kind, targets in [
    ("llama", "two_token_cross_entropy", [0, 1, 1, 0]), ("llama", "two_token_soft_cross_entropy", [0.875, 0.25, 0.5, 1.0]),
    ("llama", "two_token_squared_error", [0.875, 0.25, 0.5, 1.0]), ("mistral", "two_token_cross_entropy", [0, 1, 1, 0]),
    ("qwen3", "two_token_cross_entropy", [0, 1, 1, 0]),
]:
    CASES[f"tree-{model}-{kind.removeprefix('two_token_').replace('_', '-')}"] = lambda model=model, kind=kind, targets=targets: (
        "two answer tokens at the last position of prompts that share a trunk, each prompt run alone", f"models/{model}", kind,
        tree_prompts(targets)[0], dict(tree=tree_prompts(targets)[1]))
for model in ["llama", "mistral", "qwen2"]:
    CASES[f"packed-{model}"] = lambda model=model: (
        "three sequences, each run alone; next token at every position, the mean over all rows", f"models/{model}", "next_token", packed_sequences())


def main():
    os.makedirs(os.path.join(HERE, "gradients"), exist_ok=True)
    index = os.path.join(HERE, "gradients.json")
    cases = {case["name"]: case for case in json.load(open(index))["cases"]} if os.path.exists(index) else {}
    for name in sys.argv[1:] or CASES:
        what, model, kind, sequences, *more = CASES[name]()
        cases[name] = write(name, what, model, kind, sequences, **(more[0] if more else {}))
    lines = ",\n".join(json.dumps(cases[name], ensure_ascii=False, separators=(",", ":")) for name in CASES if name in cases)
    with open(index, "w") as out:
        out.write(f'{{"cases":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
