"""Trains what `gradus train export` wrote here, on any number of processes; README.md has the commands.

    accelerate launch train.py --output run

The loop is that of `gradus train`: the same examples in the same order, the same first weights, loss, AdamW, schedule,
clipping, evaluations and choice of the best checkpoint. A step's examples are dealt out to the processes, and the loss is
a mean over the whole step, however many labels each process has. Killed, it resumes from the last checkpoint. Masks of
dropout are PyTorch's: with `lora.dropout = 0` losses equal those of `gradus train` up to rounding.
"""

import argparse
import json
import math
import os
import shutil
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from peft import PeftConfig, PeftModel, get_peft_model_state_dict
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import AutoModel, AutoModelForCausalLM

HERE = Path(__file__).resolve().parent
CONFIG = json.loads((HERE / "config.json").read_text())
MODEL, LOSS, OPTIMIZER, STEPS = (CONFIG[key] for key in ("model", "loss", "optimizer", "steps"))
WEIGHTS = "adapter_model.safetensors" if MODEL["result"] == "adapter" else "model.safetensors"


# Data


class Examples:
    """Examples of one file, mapped into memory; Gradus's documentation has the columns (guide/torch.md)."""

    def __init__(self, path):
        self.file = safe_open(path, "pt")
        self.starts = {name: self.file.get_tensor(name).tolist() for name in ("examples", "sequences", "reads")}
        self.lengths = [end - start for start, end in zip(self.starts["sequences"], self.starts["sequences"][1:])]

    def __len__(self):
        return len(self.starts["examples"]) - 1

    def sequences(self, example):
        return range(*self.starts["examples"][example : example + 2])

    def width(self, example):
        return max(self.lengths[sequence] for sequence in self.sequences(example))

    def reads(self, sequence):
        return self.starts["reads"][sequence + 1] - self.starts["reads"][sequence]

    def batch(self, examples, device):
        """Sequences of some examples, padded on the right; which rows of them are read, and the targets."""
        sequences = [sequence for example in examples for sequence in self.sequences(example)]
        width = max(self.lengths[sequence] for sequence in sequences)
        tokens = torch.zeros(len(sequences), width, dtype=torch.long)
        mask = torch.zeros(len(sequences), width, dtype=torch.long)
        rows, targets = [], []
        for number, sequence in enumerate(sequences):
            mask[number, : self.lengths[sequence]] = 1
            tokens[number, : self.lengths[sequence]] = self._slice("tokens", "sequences", sequence)
            rows.append(self._slice("positions", "reads", sequence).long() + number * width)
            targets.append(self._slice("targets", "reads", sequence))
        reads = [self.reads(sequence) for sequence in sequences]
        of_examples = [sum(self.reads(sequence) for sequence in self.sequences(example)) for example in examples]
        on_device = {"tokens": tokens, "mask": mask, "rows": torch.cat(rows), "targets": torch.cat(targets)}
        on_device = {name: tensor.to(device) for name, tensor in on_device.items()}
        return SimpleNamespace(**on_device, reads=reads, of_examples=of_examples)

    def totals(self, examples):
        """What the loss of these examples together is divided by: reads, pairs, reads of chosen answers."""
        reads = sum(self.reads(sequence) for example in examples for sequence in self.sequences(example))
        chosen = sum(self.reads(self.sequences(example)[0]) for example in examples)
        return SimpleNamespace(reads=reads, pairs=len(examples), chosen=chosen)

    def shares(self, examples, processes):
        """For each process, its passes: lists of examples. All have as many; an empty one is filled with zero weight."""
        longest_first = sorted(examples, key=self.width, reverse=True)
        shares = [self._passes(longest_first[process::processes]) for process in range(processes)]
        most = max(len(passes) for passes in shares)
        return [passes + [[]] * (most - len(passes)) for passes in shares]

    def _passes(self, examples):
        """Examples, the longest first, in passes of at most so many tokens with their padding."""
        passes, sequences, width = [], 0, 0
        for example in examples:
            own = len(self.sequences(example))
            if not passes or (sequences + own) * width > CONFIG["batch"]["tokens"]:
                passes, sequences, width = [*passes, []], 0, self.width(example)
            passes[-1].append(example)
            sequences += own
        return passes

    def _slice(self, column, starts, index):
        return self.file.get_slice(column)[slice(*self.starts[starts][index : index + 2])]


# Model


class Reader(torch.nn.Module):
    """A decoder and what reads it, the output projection or a reward head, at chosen rows only."""

    def __init__(self, backbone, name, head):
        super().__init__()
        self.config = backbone.config
        self._no_split_modules = backbone._no_split_modules
        self.model = backbone
        self.head_name = name
        self.add_module(name, head)

    def forward(self, tokens, mask, rows):
        hidden = self.model(input_ids=tokens, attention_mask=mask, use_cache=False).last_hidden_state
        return getattr(self, self.head_name)(hidden.flatten(0, 1)[rows]).float()


def load_model(base, dtype, gradient_checkpointing):
    """The base with its adapter and head as they are before the first step."""
    start = load_file(HERE / "start" / WEIGHTS)
    options = {**find_base(base), "dtype": dtype}
    if MODEL["head"] in (None, "tokens"):
        model = AutoModelForCausalLM.from_pretrained(**options)
        model = Reader(model.model, "lm_head", model.lm_head)
    else:
        model = Reader(AutoModel.from_pretrained(**options), *reward_head(start))
    if gradient_checkpointing:
        model.model.gradient_checkpointing_enable({"use_reentrant": False})
    if MODEL["result"] == "model":
        missing = model.load_state_dict(start, strict=False)
        assert not [name for name in missing.unexpected_keys if name != "lm_head.weight"], missing.unexpected_keys
        return model
    config = PeftConfig.from_pretrained(HERE / "start")
    config.task_type, config.inference_mode = None, False
    model = PeftModel.from_pretrained(model, HERE / "start", is_trainable=True, config=config)
    found = get_peft_model_state_dict(model, save_embedding_layers=False)
    assert {name: tensor.shape for name, tensor in found.items()} == {
        name: tensor.shape for name, tensor in start.items()
    }, "start/ does not fit the base: is it the one that the recipe names?"
    return model


def find_base(base):
    """Where transformers finds the base: --base, the folder that the export was made from, or the hub."""
    if MODEL["result"] == "model":
        return {"pretrained_model_name_or_path": HERE / "start"}
    if base is not None:
        path = Path(base)
        gguf = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
        return {"pretrained_model_name_or_path": str(path.parent) if gguf else base, **gguf}
    if not Path(MODEL["folder"]).exists():
        return {"pretrained_model_name_or_path": MODEL["hub"] or MODEL["base"]}
    gguf = {"gguf_file": MODEL["gguf_file"]} if MODEL["gguf_file"] else {}
    return {"pretrained_model_name_or_path": MODEL["folder"], **gguf}


def reward_head(start):
    """A head of one or two layers, with the names and shapes that start/ has."""
    prefix = "base_model.model." if MODEL["result"] == "adapter" else ""
    outside = {name.removeprefix(prefix): tensor for name, tensor in start.items()}
    outside = {name: tensor for name, tensor in outside.items() if not name.startswith(("model.", "lm_head."))}
    layers = {
        name.removesuffix(".weight"): torch.nn.Linear(*reversed(tensor.shape), f"{name[:-7]}.bias" in outside)
        for name, tensor in sorted(outside.items())
        if name.endswith(".weight")
    }
    (first, layer), *more = layers.items()
    name, _, inner = first.partition(".")
    if not inner:
        return name, layer
    head = torch.nn.Sequential()
    head.add_module(inner, layer)
    for second, last in more:
        head.add_module("relu", torch.nn.ReLU())
        head.add_module(second.partition(".")[2], last)
    return name, head


# Losses. Each returns its share of the step's loss, to be differentiated, and shares of the step's metrics, which add up.


def label_loss(logits, batch, totals):
    """Reward models: cross-entropy of hard or soft labels, or squared error of soft ones; also each read's score."""
    targets, squared = batch.targets, LOSS["loss"] == "squared_error"
    wrong = (targets < 0.5).long()
    if LOSS["columns"] is None:
        scores = logits[:, 0].sigmoid()
        losses = functional.binary_cross_entropy_with_logits(logits[:, 0], targets, reduction="none")
    else:
        columns = torch.tensor(LOSS["columns"], device=logits.device)
        scores = logits[:, columns].softmax(-1)[:, 0]
        if LOSS["vocabulary"]:
            losses = functional.cross_entropy(logits, columns[wrong], reduction="none")
        elif LOSS["loss"] == "soft_cross_entropy":
            shares = torch.stack([targets, 1 - targets], -1)
            losses = functional.cross_entropy(logits[:, columns], shares, reduction="none")
        else:
            losses = functional.cross_entropy(logits[:, columns], wrong, reduction="none")
    losses = (scores - targets).square() if squared else losses
    # Wrong steps may weigh more in the gradient; the loss that is reported does not change with that.
    weights = targets + LOSS["wrong_weight"] * (1 - targets)
    agreeing = ((scores >= 0.5) == (targets >= 0.5)).sum()
    metrics = {"loss": losses.sum() / totals.reads, "step_accuracy": agreeing / totals.reads}
    return (weights * losses).sum() / totals.reads, metrics, scores


def token_loss(logits, batch, totals):
    """SFT: -log p of each target token."""
    loss = functional.cross_entropy(logits, batch.targets.long(), reduction="sum") / totals.reads
    return loss, {"loss": loss}, None


def pair_loss(logits, batch, totals):
    """ORPO: -log p of the chosen answers' tokens, and the odds ratio of the answers' mean probabilities."""
    logprobs = -functional.cross_entropy(logits, batch.targets.long(), reduction="none").double()
    answers = logprobs.split(batch.reads)
    sums = torch.stack([answer.sum() for answer in answers])
    means = sums / torch.tensor(batch.reads, device=sums.device)
    # Odds of p = 1 are infinite; the derivative at the bound is kept.
    means = means - (means + torch.finfo(torch.float32).eps / 2).clamp(min=0).detach()
    odds = means - torch.log(-torch.expm1(means))
    margins = odds[::2] - odds[1::2]
    nll = -sums[::2].sum() / totals.chosen
    ratio = -functional.logsigmoid(margins).sum() / totals.pairs
    loss = nll + LOSS["lambda"] * ratio
    metrics = {
        "loss": loss,
        "nll": nll,
        "odds_ratio_loss": ratio,
        "chosen_log_odds": odds[::2].sum() / totals.pairs,
        "rejected_log_odds": odds[1::2].sum() / totals.pairs,
        "preference_accuracy": (margins > 0).sum() / totals.pairs,
    }
    return loss, metrics, None


LOSS_OF = {"labels": label_loss, "tokens": token_loss, "pairs": pair_loss}[LOSS["kind"]]


def learning_rate(step):
    """The rate of the step that follows `step` others: a linear warmup from 0, then linear, cosine or constant."""
    warmup, total = OPTIMIZER["warmup_steps"], STEPS["total"]
    if step < warmup:
        return OPTIMIZER["learning_rate"] * step / warmup
    falling = max(total - warmup, 1)
    factor = {
        "constant": 1.0,
        "linear": max(total - step, 0) / falling,
        "cosine": max((1 + math.cos(math.pi * (step - warmup) / falling)) / 2, 0.0),
    }
    return OPTIMIZER["learning_rate"] * factor[OPTIMIZER["schedule"]]


# Training


def add(sums, metrics, weight=1.0):
    for name, value in metrics.items():
        value = value.detach().double() if torch.is_tensor(value) else torch.tensor(float(value)).double()
        sums[name] = sums.get(name, 0.0) + weight * value.cpu()


def over_processes(accelerator, sums):
    """Adds up each metric over all processes."""
    if not sums:
        return {}
    names = sorted(sums)
    values = torch.stack([sums[name] for name in names]).to(accelerator.device)
    return dict(zip(names, accelerator.reduce(values, "sum").tolist()))


def train_step(accelerator, model, optimizer, data, examples, step):
    """One optimizer step on these examples; its metrics."""
    rate = learning_rate(step)
    for group in optimizer.param_groups:
        group["lr"] = rate
    totals = data.totals(examples)
    passes = data.shares(examples, accelerator.num_processes)[accelerator.process_index]
    sums = {}
    for number, own in enumerate(passes):
        # Gradients are summed here, and over processes after the last pass.
        accelerator.sync_gradients = number + 1 == len(passes)
        with nullcontext() if accelerator.sync_gradients else accelerator.no_sync(model):
            batch = data.batch(own or examples[:1], accelerator.device)
            loss, metrics, _ = LOSS_OF(model(batch.tokens, batch.mask, batch.rows), batch, totals)
            add(sums, metrics, weight=1.0 if own else 0.0)
            # Processes' gradients are averaged, and a share of a mean over all of them should be summed.
            accelerator.backward(loss * (accelerator.num_processes if own else 0.0))
    norm = accelerator.clip_grad_norm_(model.parameters(), OPTIMIZER["clip"])
    optimizer.step()
    optimizer.zero_grad()
    metrics = over_processes(accelerator, sums)
    if not math.isfinite(metrics["loss"]):
        raise SystemExit(f"step {step + 1}: the loss is not a number: is the learning rate too high?")
    return {**metrics, "learning_rate": rate, "gradient_norm": float(norm)}


@torch.no_grad()
def evaluate(accelerator, model, data):
    """The metrics of all examples of the evaluation set."""
    model.eval()
    examples = list(range(len(data)))
    totals = data.totals(examples)
    sums = {}
    for own in data.shares(examples, accelerator.num_processes)[accelerator.process_index]:
        batch = data.batch(own or examples[:1], accelerator.device)
        _, metrics, scores = LOSS_OF(model(batch.tokens, batch.mask, batch.rows), batch, totals)
        weight = 1.0 if own else 0.0
        add(sums, metrics, weight)
        if LOSS.get("by_step"):
            for found, labels in zip(scores.split(batch.of_examples), batch.targets.split(batch.of_examples)):
                truth, predicted = first(labels), first(found)
                kind = "right" if truth is None else "wrong"
                add(sums, {kind: 1.0, f"{kind}_found": truth == predicted}, weight)
    model.train()
    metrics = over_processes(accelerator, sums)
    counts = {name: metrics.pop(name, 0) for name in ("right", "right_found", "wrong", "wrong_found")}
    for name, kind in ("acc_err", "wrong"), ("acc_cor", "right"):
        if counts[kind]:
            metrics[name] = counts[f"{kind}_found"] / counts[kind]
    if "acc_err" in metrics and "acc_cor" in metrics:
        both = metrics["acc_err"] + metrics["acc_cor"]
        metrics["f1"] = 2 * metrics["acc_err"] * metrics["acc_cor"] / both if both else 0.0
    if LOSS["kind"] == "tokens":
        metrics["perplexity"] = math.exp(metrics["loss"])
    return metrics


def first(scores):
    """The first step below 0.5, if there is one."""
    return next((step for step, score in enumerate(scores.tolist()) if not score >= 0.5), None)


def save_result(accelerator, model, folder):
    """Writes the result in the format of `gradus train`: start/ with the trained weights."""
    state = accelerator.get_state_dict(model)
    if accelerator.is_main_process:
        start = load_file(HERE / "start" / WEIGHTS)
        if MODEL["result"] == "adapter":
            unwrapped = accelerator.unwrap_model(model)
            state = get_peft_model_state_dict(unwrapped, state_dict=state, save_embedding_layers=False)
        dtype = torch.bfloat16 if MODEL["stored"] == "bf16" else torch.float32
        # A projection that the loss does not read stays as it was.
        tensors = {name: state.get(name, start[name]).to(dtype).contiguous().cpu() for name in start}
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(HERE / "start", unfinished)
        save_file(tensors, unfinished / WEIGHTS, metadata={"format": "pt"})
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    accelerator.wait_for_everyone()


def save_checkpoint(accelerator, output, step, best):
    """Saves everything that is needed to resume, and removes the oldest checkpoint beyond those to keep."""
    unfinished = output / "checkpoints" / "unfinished"
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        shutil.rmtree(unfinished, ignore_errors=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(unfinished))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        (unfinished / "state.json").write_text(json.dumps({"step": step, "best": best}))
        folder = output / "checkpoints" / f"step-{step:06}"
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
        for old in checkpoints(output)[: -STEPS["keep"]]:
            shutil.rmtree(old)
    accelerator.wait_for_everyone()


def checkpoints(output):
    return sorted((output / "checkpoints").glob("step-*"))


def resume(accelerator, output):
    """Restores the last checkpoint, and cuts metrics off after it; the steps done, and the best value so far."""
    found = checkpoints(output)
    state = json.loads((found[-1] / "state.json").read_text()) if found else {"step": 0, "best": None}
    if found:
        accelerator.load_state(str(found[-1]), strict=False)
        accelerator.print(f"resuming after step {state['step']}")
    if accelerator.is_main_process:
        path = output / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= state["step"]]
        path.write_text("".join(kept))
    return state["step"], state["best"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("run"), help="folder of metrics, checkpoints and the result")
    parser.add_argument("--base", help="base model, where it is not found: a folder, a .gguf file or an id on the hub")
    parser.add_argument("--dtype", default="float32", help="data type of the base's weights: float32 or bfloat16")
    parser.add_argument("--gradient-checkpointing", action="store_true", help="recompute activations to save memory")
    parser.add_argument("--stop-after", type=int, help="stop after this step, as if killed (for tests)")
    args = parser.parse_args()

    accelerator = Accelerator()
    set_seed(CONFIG["seed"], device_specific=True)
    accelerator.print(f"processes: {accelerator.num_processes} ({accelerator.distributed_type.value}, {accelerator.device.type})")
    output = args.output
    if accelerator.is_main_process:
        (output / "checkpoints").mkdir(parents=True, exist_ok=True)
    accelerator.wait_for_everyone()

    data = Examples(HERE / "train.safetensors")
    steps, order = (data.file.get_tensor(name).tolist() for name in ("steps", "order"))
    held_out = Examples(HERE / "eval.safetensors") if STEPS["eval_every"] else None
    model = load_model(args.base, getattr(torch, args.dtype), args.gradient_checkpointing)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in trained if one.ndim > 1], "weight_decay": OPTIMIZER["weight_decay"]},
        {"params": [one for one in trained if one.ndim <= 1], "weight_decay": 0.0},
    ]
    betas = (OPTIMIZER["beta1"], OPTIMIZER["beta2"])
    groups = [group for group in groups if group["params"]]
    optimizer = torch.optim.AdamW(groups, lr=OPTIMIZER["learning_rate"], betas=betas, eps=OPTIMIZER["epsilon"])
    names = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.register_save_state_pre_hook(lambda models, weights, folder: only_trained(weights, names))
    done, best = resume(accelerator, output)
    model.train()

    def log(step, split, metrics):
        if accelerator.is_main_process:
            line = {"step": step, "time": time.time(), "split": split, **metrics}
            with (output / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"step {step}/{STEPS['total']}  {split}  loss {metrics['loss']:.4f}", flush=True)

    for step in range(done, STEPS["total"]):
        began = time.time()
        examples = order[steps[step] : steps[step + 1]]
        metrics = train_step(accelerator, model, optimizer, data, examples, step)
        tokens = sum(data.lengths[sequence] for example in examples for sequence in data.sequences(example))
        log(step + 1, "train", {**metrics, "tokens_per_second": tokens / (time.time() - began)})
        is_last = step + 1 == STEPS["total"]
        saves = is_last or (step + 1) % STEPS["checkpoint_every"] == 0
        if held_out and (is_last or (step + 1) % STEPS["eval_every"] == 0):
            metrics = evaluate(accelerator, model, held_out)
            log(step + 1, "eval", metrics)
            if STEPS["best"] and saves and is_better(metrics[STEPS["best"]["metric"]], best):
                best = metrics[STEPS["best"]["metric"]]
                save_result(accelerator, model, output / "best")
        if saves:
            save_checkpoint(accelerator, output, step + 1, best)
        if args.stop_after == step + 1:
            os._exit(1)
    if best is None:
        save_result(accelerator, model, output / MODEL["result"])
    elif accelerator.is_main_process:
        shutil.rmtree(output / MODEL["result"], ignore_errors=True)
        shutil.copytree(output / "best", output / MODEL["result"])
    accelerator.print(f"result: {output / MODEL['result']}")
    accelerator.end_training()


def is_better(value, best):
    if not math.isfinite(value):
        return False
    return best is None or (value < best if STEPS["best"]["is"] == "lowest" else value > best)


def only_trained(weights, names):
    """Leaves the frozen base out of a checkpoint."""
    for state in weights:
        for name in [name for name in state if name.removeprefix("module.") not in names]:
            del state[name]


if __name__ == "__main__":
    main()
