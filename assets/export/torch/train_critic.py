"""Trains the critic that `gradus train export` wrote here, with TRL's GRPO trainer; README.md has the commands.

    accelerate launch train.py --output run

Prompts, their order, the reward rule, first weights and settings are those of `gradus train grpo`. Perplexity-aware and
class-level weights multiply advantages over the critiques of all processes. Options after `--` go to GRPOConfig.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path

import torch
from datasets import Dataset
from gradus.critic import parse
from gradus.trl import CriticReward
from peft import PeftConfig, PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, GRPOTrainer

HERE = Path(__file__).resolve().parent
CONFIG = json.loads((HERE / "config.json").read_text())
MODEL, LOSS, OPTIMIZER, STEPS = (CONFIG[key] for key in ("model", "loss", "optimizer", "steps"))
WEIGHTS = "adapter_model.safetensors" if MODEL["result"] == "adapter" else "model.safetensors"


class CriticTrainer(GRPOTrainer):
    """GRPO whose advantages may be weighted by the judged solution's perplexity, and by its class."""

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        said = {"correct": 1.0, "wrong": 0.0, None: -1.0}
        rows = []
        for row, completion in zip(inputs, completions):
            text = completion if isinstance(completion, str) else completion[-1]["content"]
            verdict = parse(text, len(row["steps"])).verdict
            rows.append([float(row["truth"] is None), said[verdict], row["perplexity"] or 1.0])
        self.judged = torch.tensor(rows, dtype=torch.float64, device=self.accelerator.device)
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return output
        correct, said, perplexity = self.accelerator.gather(self.judged).unbind(1)
        advantages = self.accelerator.gather(output["advantages"]).double()
        sizes = self.accelerator.gather(output["completion_mask"].sum(1)).double()
        if LOSS["loss_type"] != "dapo":
            sizes = torch.ones_like(sizes)
        weights = torch.ones_like(advantages)
        if LOSS["perplexity_aware"]:
            weights = weights * perplexity_weights(correct, said, perplexity)
        if LOSS["class_level"]:
            weights = weights * class_weights(correct, advantages, sizes)
        own = slice(*(len(inputs) * (self.accelerator.process_index + more) for more in (0, 1)))
        output["advantages"] = (advantages * weights)[own].to(output["advantages"].dtype)
        return output


def perplexity_weights(correct, said, perplexity):
    """Within a class and a verdict: perplexity over its mean for 'correct', mean over perplexity for 'wrong'."""
    weights = torch.ones_like(perplexity)
    for truth in 0.0, 1.0:
        for verdict in 0.0, 1.0:
            quarter = (correct == truth) & (said == verdict)
            if quarter.any():
                ratio = perplexity[quarter] / perplexity[quarter].mean()
                weights[quarter] = ratio if verdict else 1 / ratio
    return weights


def class_weights(correct, advantages, sizes):
    """Makes the mean over all critiques one over the classes' means; critiques without an advantage do not count."""
    counted = advantages != 0
    classes = [counted & (correct == truth) for truth in (0.0, 1.0)]
    classes = [some for some in classes if some.any()]
    weights = torch.ones_like(advantages)
    for some in classes:
        weights[some] = sizes.sum() / (len(classes) * sizes[some].sum())
    return weights


class MetricsFile(TrainerCallback):
    """`metrics.jsonl` as `gradus train` writes it."""

    def __init__(self, path):
        self.path = path

    def on_log(self, args, state, control, logs=None, **_):
        evaluated = any(name.startswith("eval_") for name in logs)
        numbers = {name.removeprefix("eval_"): value for name, value in logs.items() if isinstance(value, (int, float))}
        if state.is_world_process_zero and ("reward" in numbers or "loss" in numbers):
            line = {"step": state.global_step, "time": time.time(), "split": "eval" if evaluated else "train", **numbers}
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def load_model(base):
    """The policy as it is before the first step."""
    if MODEL["result"] == "model":
        return AutoModelForCausalLM.from_pretrained(HERE / "start", dtype=torch.float32)
    folder, gguf = MODEL["folder"], MODEL["gguf_file"]
    if base is not None:
        gguf = Path(base).name if base.endswith(".gguf") else None
        folder = str(Path(base).parent) if gguf else base
    elif not Path(folder).exists():
        folder, gguf = MODEL["hub"] or MODEL["base"], None
    options = {"gguf_file": gguf} if gguf else {}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)
    config = PeftConfig.from_pretrained(HERE / "start")
    config.inference_mode = False
    return PeftModel.from_pretrained(model, HERE / "start", is_trainable=True, config=config)


def prompts(name, order=None):
    rows = [json.loads(line) for line in (HERE / name).read_text().splitlines()]
    return Dataset.from_list([rows[index] for index in order] if order else rows)


def settings(output):
    """GRPOConfig with the recipe's settings."""
    group, processes = LOSS["group"], int(os.environ.get("WORLD_SIZE", "1"))
    critiques = CONFIG["batch"]["examples"] * group
    if critiques % processes:
        raise SystemExit(f"{critiques} critiques a step cannot be dealt out to {processes} processes")
    own = critiques // processes
    per_pass = group if own % group == 0 else own
    schedule = {"constant": "constant_with_warmup"}.get(OPTIMIZER["schedule"], OPTIMIZER["schedule"])
    evaluates = STEPS["eval_every"] is not None
    best = STEPS["best"] if evaluates else None
    return {
        "output_dir": str(output / "checkpoints"),
        "seed": CONFIG["seed"],
        "max_steps": STEPS["total"] * LOSS["inner_epochs"],
        "per_device_train_batch_size": per_pass,
        "per_device_eval_batch_size": group,
        "gradient_accumulation_steps": own // per_pass,
        "num_generations": group,
        "num_iterations": LOSS["inner_epochs"],
        "shuffle_dataset": False,
        "temperature": LOSS["temperature"],
        "max_completion_length": LOSS["max_new_tokens"],
        "beta": LOSS["kl"],
        "epsilon": LOSS["clip_low"],
        "epsilon_high": LOSS["clip_high"],
        "scale_rewards": "group" if LOSS["advantage_std"] else "none",
        "loss_type": LOSS["loss_type"],
        "learning_rate": OPTIMIZER["learning_rate"],
        "lr_scheduler_type": schedule,
        "warmup_steps": OPTIMIZER["warmup_steps"] * LOSS["inner_epochs"],
        "adam_beta1": OPTIMIZER["beta1"],
        "adam_beta2": OPTIMIZER["beta2"],
        "adam_epsilon": OPTIMIZER["epsilon"],
        "weight_decay": OPTIMIZER["weight_decay"],
        "max_grad_norm": OPTIMIZER["clip"],
        "logging_steps": 1,
        "save_steps": STEPS["checkpoint_every"] * LOSS["inner_epochs"],
        "save_total_limit": STEPS["keep"],
        "eval_strategy": "steps" if evaluates else "no",
        "eval_steps": STEPS["eval_every"] * LOSS["inner_epochs"] if evaluates else None,
        "load_best_model_at_end": best is not None,
        "metric_for_best_model": f"eval_{best['metric']}" if best else None,
        "greater_is_better": best["is"] == "highest" if best else None,
        "bf16": torch.cuda.is_available(),
        "use_cpu": not torch.cuda.is_available(),
        "report_to": "none",
    }


def save_result(trainer, folder):
    """Writes the result in the format of `gradus train`: start/ with the trained weights."""
    accelerator = trainer.accelerator
    state = accelerator.get_state_dict(trainer.model_wrapped)
    if accelerator.is_main_process:
        start = load_file(HERE / "start" / WEIGHTS)
        if MODEL["result"] == "adapter":
            model = accelerator.unwrap_model(trainer.model)
            state = get_peft_model_state_dict(model, state_dict=state, save_embedding_layers=False)
        dtype = torch.bfloat16 if MODEL["stored"] == "bf16" else torch.float32
        tensors = {name: state[name].to(dtype).contiguous().cpu() for name in start}
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "start", folder)
        save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    accelerator.wait_for_everyone()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("run"), help="folder of metrics, checkpoints and the result")
    parser.add_argument("--base", help="base model, where it is not found: a folder, a .gguf file or an id on the hub")
    parser.add_argument("options", nargs="*", help="after --: options of GRPOConfig, such as --use_vllm true")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)

    order = load_file(HERE / "order.safetensors")["order"].tolist()
    # TRL drops a batch that is not full: the last one is filled with the first examples.
    order += order[: -len(order) % CONFIG["batch"]["examples"]]
    parser = HfArgumentParser(GRPOConfig)
    parser.set_defaults(**settings(args.output))
    [config] = parser.parse_args_into_dataclasses(args.options)
    trainer = CriticTrainer(
        model=load_model(args.base),
        processing_class=AutoTokenizer.from_pretrained(HERE / "tokenizer"),
        reward_funcs=CriticReward(),
        args=config,
        train_dataset=prompts("train.jsonl", order),
        eval_dataset=prompts("eval.jsonl") if STEPS["eval_every"] else None,
        callbacks=[MetricsFile(args.output / "metrics.jsonl")],
    )
    trainer.accelerator.print(f"processes: {trainer.accelerator.num_processes}")
    trainer.train(resume_from_checkpoint=get_last_checkpoint(config.output_dir) if Path(config.output_dir).exists() else None)
    save_result(trainer, args.output / MODEL["result"])
    trainer.accelerator.print(f"result: {args.output / MODEL['result']}")


if __name__ == "__main__":
    main()
