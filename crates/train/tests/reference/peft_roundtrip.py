"""Adapters exchanged with the real PEFT, both ways.

Made with torch 2.8.0, transformers 4.57.1, peft 0.17.1, on a CPU, in f32, with eager attention. The models are those of crates/engine/tests/reference.

`python peft_roundtrip.py logits --model FOLDER --adapter FOLDER --ids 1,2,3 [--positions 0,2]`
  loads an adapter that we wrote and prints one line of JSON: positions, logits[position][entry], greatest_change (of one of them, by the adapter). The entries
  are the vocabulary's, the classes', or the one value of a value head (before the sigmoid). A tensor of the file that fits nowhere, or one that is missing,
  is an error: PEFT itself only warns.
`python peft_roundtrip.py train [name …]`
  makes peft-saved/<name>/: adapters that PEFT itself saved, for us to read.
    start/                   as PEFT starts it: B is zero (a head starts as the checkpoint has it)
    adapter_config.json, adapter_model.safetensors   after two steps of AdamW
    expected.json            model (relative to crates/engine/tests/reference), sequence (ids, positions, targets), loss kind as in make_gradients.py,
                             optimizer (clip: gradients are scaled to that norm where it is greater), steps[]: loss and norm (before clipping) of each,
                             loss_after, positions, entries (vocabulary ids, or null: all), logits[position][entry] after the steps
"""

import argparse
import json
import os
import shutil

from make_gradients import ENGINE, HARD, HERE, KINDS, SEVEN, SOFT, encode, load, next_tokens, short, steps_sequence

import torch
from make_models import ENTRIES, read_positions
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import safe_open

OPTIMISER = {"kind": "adamw", "lr": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "clip": 1.0}
ANSWER = [next_tokens(encode("3 + 4 = 7. ки\nthe answer is 7.\n"))]
# name → loss, sequence, projections, the head's module
TRAINED = {
    "llama": ("next_token", ANSWER, ["q_proj", "v_proj"], None),
    "qwen2": ("next_token", ANSWER, SEVEN, None),
    "qwen2-token-classification": ("class_cross_entropy", steps_sequence(HARD), ["q_proj", "v_proj"], "score"),
    "qwen2-prm": ("class_cross_entropy", steps_sequence(HARD), ["q_proj", "v_proj"], "score"),
    "skywork": ("value_squared_error", steps_sequence(SOFT), ["q_proj", "v_proj"], "v_head"),
}


def outputs(model, ids):
    """[position][entry]; a value head's values have one entry."""
    out = model(torch.tensor([ids]))
    out = (out.logits if hasattr(out, "logits") else out)[0]
    return out if out.ndim == 2 else out[:, None]


@torch.no_grad()
def logits(model_folder, adapter, ids, positions):
    base = load(os.path.relpath(model_folder, ENGINE))
    plain = outputs(base, ids).clone()
    model = PeftModel.from_pretrained(base, adapter).eval()
    # PEFT's names leave out the adapter's own: …q_proj.lora_A.default.weight, …modules_to_save.default.weight
    wanted = {
        name.replace(".default", "").replace(".modules_to_save", "") for name, _ in model.named_parameters() if "lora_" in name or "modules_to_save" in name
    }
    with safe_open(os.path.join(adapter, "adapter_model.safetensors"), "pt") as file:
        found = set(file.keys())
    if wanted != found:
        raise SystemExit(f"not in the file: {sorted(wanted - found)}; not in the model: {sorted(found - wanted)}")
    positions = list(range(len(ids))) if positions is None else positions
    result = outputs(model, ids)[positions]
    print(json.dumps({
        "positions": positions, "logits": short(result), "greatest_change": short((result - plain[positions]).abs().max().item()),
    }, separators=(",", ":")))


def save(model, folder, base):
    model.peft_config["default"].base_model_name_or_path = os.path.relpath(base, folder)
    model.save_pretrained(folder)
    if os.path.exists(os.path.join(folder, "README.md")):
        os.remove(os.path.join(folder, "README.md"))


def train(name):
    kind, sequences, targets, head = TRAINED[name]
    folder, base = os.path.join(HERE, "peft-saved", name), os.path.join(ENGINE, "models", name)
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(71)
    task = {"next_token": "CAUSAL_LM", "class_cross_entropy": "TOKEN_CLS"}.get(kind) if name not in ("qwen2-prm", "skywork") else None
    config = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=targets, modules_to_save=[head] if head else None, task_type=task)
    model = get_peft_model(load(f"models/{name}"), config).eval()
    save(model, os.path.join(folder, "start"), base)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters, lr=OPTIMISER["lr"], betas=(OPTIMISER["beta1"], OPTIMISER["beta2"]), eps=OPTIMISER["eps"], weight_decay=OPTIMISER["weight_decay"]
    )
    [sequence] = sequences
    read_rows, total = KINDS[kind]

    def loss():
        rows = outputs(model, sequence["ids"])[sequence["positions"]]
        wanted = torch.tensor(sequence["targets"])
        rows = read_rows(rows[:, 0] if kind.startswith("value") else rows, wanted)
        return total(rows, wanted) / len(sequence["positions"])

    steps = []
    for _ in range(2):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, OPTIMISER["clip"])
        optimizer.step()
        steps.append({"loss": short(value.item()), "norm": short(norm.item())})
    save(model, folder, base)
    with torch.no_grad():
        after, result = loss().item(), outputs(model, sequence["ids"])
    positions, entries = read_positions(len(sequence["ids"])), ENTRIES if kind == "next_token" else None
    result = result[positions][:, entries] if entries else result[positions]
    expected = {
        "model": f"models/{name}", "loss": kind, "sequence": sequence, "optimizer": OPTIMISER, "steps": steps, "loss_after": short(after),
        "positions": positions, "entries": entries, "logits": short(result),
    }
    with open(os.path.join(folder, "expected.json"), "w") as out:
        json.dump(expected, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")
    print(f"{name}: loss {[s['loss'] for s in steps] + [after]}, norm {[s['norm'] for s in steps]}")


def main():
    numbers = lambda text: [int(part) for part in text.split(",")]
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = arguments.add_subparsers(dest="command", required=True)
    read = commands.add_parser("logits")
    read.add_argument("--model", required=True)
    read.add_argument("--adapter", required=True)
    read.add_argument("--ids", type=numbers, required=True)
    read.add_argument("--positions", type=numbers)
    write = commands.add_parser("train")
    write.add_argument("names", nargs="*")
    arguments = arguments.parse_args()
    if arguments.command == "logits":
        logits(arguments.model, arguments.adapter, arguments.ids, arguments.positions)
    else:
        for name in arguments.names or TRAINED:
            train(name)


if __name__ == "__main__":
    main()
