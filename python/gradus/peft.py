"""Loads a reward model that `gradus train` wrote into transformers and PEFT, with its head and its profile.

>>> from gradus.peft import load_reward_model
>>> reward_model = load_reward_model("gradus-prm")
>>> reward_model.score("What is 2 + 3?", ["2 + 3 = 5.", "So the answer is 5."])
[0.946, 0.993]

PEFT alone knows neither. On a model without the head (`AutoModelForCausalLM`) it drops the head's weights without a
word; here every tensor of the adapter must have its place, or loading fails. Scores equal those of `gradus.Scorer` with
`precision="f32", dequantize=True` up to rounding. Left out: retrieved references, models that were trained whole.
"""

import json
import math
import mmap
import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from gradus._gradus import GradusError, split_steps
from gradus.program import run

try:
    import torch
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors import safe_open
    from tokenizers import Regex, pre_tokenizers
    from transformers import (
        AutoModel,
        AutoModelForCausalLM,
        AutoModelForTokenClassification,
        AutoTokenizer,
    )
    from transformers.utils import logging as transformers_logging
except ImportError as missing:
    raise ImportError(f"gradus.peft needs peft and transformers (pip install peft jinja2): {missing}") from missing

__all__ = ["Prompt", "RewardModel", "load_reward_model"]

Head: TypeAlias = Literal["tokens", "classes", "value"]
OnError: TypeAlias = Literal["fail", "skip"]


class Prompt(NamedTuple):
    """Tokens for the model, and the positions in them at which steps are judged."""

    token_ids: list[int]
    reads: list[int]


@dataclass(frozen=True)
class RewardModel:
    """A reward model in transformers: the model with its adapter and head, its tokenizer, and its profile."""

    model: Any
    """The `peft.PeftModel`."""
    tokenizer: Any
    profile: dict[str, Any]
    """How a solution is written out, and how the verdict is read: the profile's TOML."""
    head: Head

    def score(self, problem: str, solution: str | Sequence[str]) -> list[float]:
        """For each step, how probable it is that it and all before it are right."""
        steps = split_steps(solution) if isinstance(solution, str) else list(solution)
        scores = [_verdict(row, self.profile["score"]) for row in self.logits(problem, steps).tolist()]
        return _calibrated(scores, steps, self.profile.get("calibration"))

    def score_batch(
        self,
        problems: str | Sequence[str],
        solutions: Sequence[str | Sequence[str]],
        *,
        on_error: OnError = "fail",
    ) -> list[list[float] | None]:
        """Scores many solutions, one after the other. With on_error="skip", one that cannot be scored is None."""
        each = [problems] * len(solutions) if isinstance(problems, str) else list(problems)
        if len(each) != len(solutions):
            raise GradusError(f"{len(each)} problems and {len(solutions)} solutions: give one problem for each")
        scored: list[list[float] | None] = []
        for problem, solution in zip(each, solutions):
            try:
                scored.append(self.score(problem, solution))
            except GradusError:
                if on_error == "fail":
                    raise
                scored.append(None)
        return scored

    def logits(self, problem: str, steps: Sequence[str]) -> torch.Tensor:
        """One row for each step: the logits of the classes, of the two tokens (right, wrong), or the value."""
        with torch.inference_mode():
            return torch.cat([self._read(prompt) for prompt in self.prompts(problem, steps)])

    def prompts(self, problem: str, steps: Sequence[str]) -> list[Prompt]:
        """The solution as the model reads it: one prompt with all steps, or one for each step."""
        if not steps:
            raise GradusError("the solution has no steps: split its text first (gradus.split_steps)")
        for number, step in enumerate(steps):
            if not step.strip():
                raise GradusError(f"step {number} is empty")
        prompts = _PROMPTS[self.profile["input"]["kind"]](self.profile["input"], self.tokenizer, problem, list(steps))
        longest = max(len(prompt.token_ids) for prompt in prompts)
        context = getattr(self.model.config, "max_position_embeddings", longest)
        if longest > context:
            raise GradusError(f"the solution takes {longest} tokens and the model's context holds {context}")
        return prompts

    def _read(self, prompt: Prompt) -> torch.Tensor:
        device = next(self.model.parameters()).device
        output = self.model(input_ids=torch.tensor([prompt.token_ids], device=device))
        rows = output.logits[0, prompt.reads].float()
        if self.head == "tokens":
            score = self.profile["score"]
            return rows[:, [_token(self.tokenizer, score[side]) for side in ("positive", "negative")]]
        return rows


def load_reward_model(
    folder: str | os.PathLike[str] = "gradus-prm",
    *,
    base: str | os.PathLike[str] | None = None,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    is_trainable: bool = False,
    **options: Any,
) -> RewardModel:
    """Loads the reward model in an adapter's folder, or by its name in `gradus models list`.

    `base` is another base model than the one it names: a folder, a GGUF file, or an id on the hub, which transformers
    may download. `options` go to `from_pretrained` of the base, such as `attn_implementation`.
    """
    folder = _find(folder, "reward model")
    note = _note(folder)
    head: Head = note["head"]
    tensors = _shapes(folder)
    where = _place(base if base is not None else _find_base(note, folder))
    options = {**where, "dtype": dtype, **options}
    with _quiet():
        model = _base_model(head, tensors, options, folder)
    try:
        model = PeftModel.from_pretrained(model, str(folder), is_trainable=is_trainable)
    except RuntimeError as error:
        mismatch = str(error).partition("\n\t")[2].partition("\n")[0] or str(error)
        raise GradusError(f"{folder} does not fit its base, is it the one that it was trained on? {mismatch}") from None
    _check_tensors(model, tensors, folder)
    model = model.to(device)
    tokenizer = _tokenizer(where)
    profile = _profile(note["profile"], folder)
    if profile["score"]["kind"] != head:
        raise GradusError(f"{folder}: the profile {profile['name']} does not read its head, {head}")
    return RewardModel(model if is_trainable else model.eval(), tokenizer, profile, head)


# The folder: what it says about itself, and where its base is.


def _find(name: str | os.PathLike[str], what: str) -> Path:
    path = Path(name)
    if path.exists():
        return path
    try:
        return Path(run("models", "show", os.fspath(name), progress=False)["path"])
    except GradusError as error:
        raise GradusError(f"there is no {what} {name}: {error}") from None


def _note(folder: Path) -> dict[str, Any]:
    """What `gradus.json` says; a folder that is not a reward model of ours is refused."""
    if not (folder / "adapter_config.json").is_file():
        raise GradusError(f"{folder} is not an adapter: expected a folder with adapter_config.json")
    path = folder / "gradus.json"
    if not path.is_file():
        raise GradusError(
            f"{folder} is not a reward model of `gradus train`, since it has no gradus.json: "
            "load it with peft.PeftModel.from_pretrained"
        )
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        version = int(note["gradus"])
    except (ValueError, TypeError, KeyError):
        raise GradusError(f"{path} is not a note about a model: expected the JSON that `gradus train` writes") from None
    if version > 1:
        raise GradusError(f"{path} was written by a later version of Gradus: update the package")
    if note.get("head") not in ("tokens", "classes", "value") or not note.get("profile"):
        raise GradusError(
            f"{folder} is not a reward model: its objective is {note.get('objective')}, and it has no head or no profile"
        )
    return dict(note)


def _find_base(note: Mapping[str, Any], folder: Path) -> Path:
    """The first base that is here, of all names that the folder has for it."""
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    names = [name for name in (note.get("base"), note.get("hub"), config.get("base_model_name_or_path")) if name]
    for name in names:
        for path in (Path(name), folder / name):
            if path.exists():
                return path
        try:
            return _find(name, "base")
        except GradusError:
            continue
    wanted = names[0] if names else "(it names none)"
    raise GradusError(f"{folder}: its base {wanted} is missing: `gradus models pull {wanted}`, or name it with base=")


def _place(base: str | os.PathLike[str]) -> dict[str, str]:
    """Where transformers finds a base."""
    path = Path(base)
    if path.suffix == ".gguf":
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    return {"pretrained_model_name_or_path": os.fspath(base)}


# The model: base, head and adapter.


def _shapes(folder: Path) -> dict[str, list[int]]:
    with safe_open(folder / "adapter_model.safetensors", "pt") as file:
        return {name: list(file.get_slice(name).get_shape()) for name in file.keys()}


def _base_model(head: Head, tensors: Mapping[str, list[int]], options: dict[str, Any], folder: Path) -> Any:
    """The base with a head of the adapter's shape, as transformers has it where it does."""
    if head == "tokens":
        return AutoModelForCausalLM.from_pretrained(**options)
    layers = {
        name.removeprefix(_INSIDE).removesuffix(".weight"): shape
        for name, shape in tensors.items()
        if name.endswith(".weight") and not name.startswith(_INSIDE + "model.")
    }
    if list(layers) == ["score"] and f"{_INSIDE}score.bias" in tensors:
        return AutoModelForTokenClassification.from_pretrained(num_labels=layers["score"][0], **options)
    if not layers:
        raise GradusError(f"{folder}: its {head} head is missing from adapter_model.safetensors")
    return _WithHead(AutoModel.from_pretrained(**options), layers, tensors)


_INSIDE = "base_model.model."


class _WithHead(torch.nn.Module):
    """A backbone with a head that transformers has no class for: two layers with ReLU between, or a value head."""

    def __init__(self, backbone: Any, layers: Mapping[str, list[int]], tensors: Mapping[str, list[int]]) -> None:
        super().__init__()
        self.config = backbone.config
        self.model = backbone
        self.layers = sorted(layers)
        for name in self.layers:
            outputs, inputs = layers[name]
            bias = f"{_INSIDE}{name}.bias" in tensors
            linear = torch.nn.Linear(inputs, outputs, bias=bias, dtype=backbone.dtype)
            parent, _, last = name.rpartition(".")
            if parent and not hasattr(self, parent):
                self.add_module(parent, torch.nn.Module())
            (self.get_submodule(parent) if parent else self).add_module(last, linear)

    def forward(self, input_ids: torch.Tensor, **keywords: Any) -> Any:
        output = self.model(input_ids=input_ids, **keywords)
        rows = output.last_hidden_state
        for number, name in enumerate(self.layers):
            rows = self.get_submodule(name)(torch.relu(rows) if number else rows)
        output.logits = rows
        return output


def _check_tensors(model: Any, tensors: Mapping[str, list[int]], folder: Path) -> None:
    """PEFT only warns of a tensor that has no place, and not even that for a head."""
    found = {name: list(tensor.shape) for name, tensor in get_peft_model_state_dict(model, save_embedding_layers=False).items()}
    wrong = sorted(name for name in {**tensors, **found} if tensors.get(name) != found.get(name))
    if wrong:
        name, more = wrong[0], len(wrong) - 1
        raise GradusError(
            f"{folder} does not fit its base, is it the one that it was trained on? Tensor {name} ({more} more) is "
            f"{tensors.get(name, 'missing')} in the adapter and {found.get(name, 'missing')} in the model"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Transformers reports a head that is not in the base as newly initialized; the adapter has it."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)


# The tokenizer.

_SMOLLM = {"smollm", "starcoder", "refact", "command-r", "codeshell"}


def _tokenizer(where: Mapping[str, str]) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(**where)
    if "gguf_file" in where:
        path = Path(where["pretrained_model_name_or_path"]) / where["gguf_file"]
        # Transformers leaves out the cut at every digit, so that "\n\n4" would give other tokens.
        if _gguf_text(path, "tokenizer.ggml.pre") in _SMOLLM:
            digits = pre_tokenizers.Split(Regex(r"\p{N}"), "isolated")
            words = pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    return tokenizer


def _gguf_text(path: Path, key: str) -> str | None:
    """A text among a GGUF file's metadata; gguf's own reader takes seconds, since it parses all tokens."""
    name = key.encode()
    wanted = struct.pack("<Q", len(name)) + name + struct.pack("<I", 8)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(wanted) + len(wanted)
        if start < len(wanted):
            return None
        (length,) = struct.unpack_from("<Q", data, start)
        return data[start + 8 : start + 8 + length].decode()


def _token(tokenizer: Any, text: str) -> int:
    """The one token that stands for exactly this text."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    if text in tokenizer.all_special_tokens or text in tokenizer.get_added_vocab():
        return vocabulary[text]
    if "Ġ" in vocabulary:
        [(spelled, _)] = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
        spellings = [spelled]
    else:
        spellings = [text.replace(" ", "▁"), *(f"<0x{byte:02X}>" for byte in text.encode() if len(text) == 1)]
    for spelling in spellings:
        if spelling in vocabulary:
            return vocabulary[spelling]
    raise GradusError(f"the profile needs {text!r} as one token, and this model's tokenizer has none")


# The profile: how a solution is written out.

_JINJA = ImmutableSandboxedEnvironment(trim_blocks=True, keep_trailing_newline=True)


def _render(template: str, **values: Any) -> str:
    return _JINJA.from_string(template).render(references=[], step_references=[], **values)


def _encode(tokenizer: Any, text: str, special: bool = False) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=special))


def _chat(tokenizer: Any, messages: list[dict[str, str]], *, ask: bool) -> str:
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask))


def _tagged(form: Mapping[str, Any], tokenizer: Any, problem: str, steps: list[str]) -> list[Prompt]:
    """All steps in one text, a separator token after each."""
    chat = bool(form.get("chat"))
    values = {
        "problem": problem,
        "bos": tokenizer.bos_token or "",
        "sentences": split_steps(problem, "sentences"),
    }
    end = ""
    if chat:
        mark = "\uf8ffsteps\uf8ff"
        turn = {"role": form.get("role", "assistant"), "content": form.get("opening", "") + mark + form.get("closing", "")}
        messages = [{"role": "user", "content": _render(form.get("user", ""), **values)}, turn]
        if form.get("system"):
            messages.insert(0, {"role": "system", "content": _render(form["system"], **values)})
        pending, found, end = _chat(tokenizer, messages, ask=False).partition(mark)
        if not found:
            raise GradusError("the model's chat template drops the turn with the steps")
    else:
        pending = _render(form.get("before", ""), **values)
    tag = _token(tokenizer, form["tag"])
    tokens: list[int] = []
    reads: list[int] = []
    if form.get("separate"):
        tokens, pending = _encode(tokenizer, pending, not chat), ""
    for number, step in enumerate(steps):
        pending += _render(form["step"], step=step, number=number + 1, problem=problem)
        for piece in pending.split(form["tag"]) if form.get("cut_at_tag") else [pending]:
            if piece:
                tokens += _encode(tokenizer, piece, not chat and not tokens)
            tokens.append(tag)
        reads.append(len(tokens) - 1)
        pending = form.get("after", "")
    return [Prompt(tokens + _encode(tokenizer, end), reads)]


def _turns(form: Mapping[str, Any], tokenizer: Any, problem: str, steps: list[str]) -> list[Prompt]:
    """A conversation with one user turn per step, judged where the answer is predicted."""
    messages: list[dict[str, str]] = []
    tokens: list[int] = []
    reads: list[int] = []
    written = ""
    for number, step in enumerate(steps):
        template = form["next"] if number else form["first"]
        content = _render(template, step=step, number=number + 1, problem=problem)
        messages.append({"role": "user", "content": content})
        asked = _chat(tokenizer, messages, ask=True)
        if not asked.startswith(written):
            raise GradusError("the model's chat template changes earlier turns when a turn is added")
        tokens += _encode(tokenizer, asked[len(written) :])
        reads.append(len(tokens) - 1)
        messages.append({"role": "assistant", "content": form["answer"]})
        written = asked
    return [Prompt(tokens, reads)]


def _prompted(form: Mapping[str, Any], tokenizer: Any, problem: str, steps: list[str]) -> list[Prompt]:
    """One prompt per step, judged at its end."""
    prompts = []
    for number, step in enumerate(steps):
        values = {"problem": problem, "earlier": steps[:number], "step": step, "number": number + 1}
        messages = [{"role": "user", "content": _render(form["user"], **values)}]
        if system := _render(form.get("system", ""), **values):
            messages.insert(0, {"role": "system", "content": system})
        tokens = _encode(tokenizer, _chat(tokenizer, messages, ask=True))
        prompts.append(Prompt(tokens, [len(tokens) - 1]))
    return prompts


_PROMPTS = {"tagged": _tagged, "turns": _turns, "prompted": _prompted}


# The profile: how the verdict is read.


def _verdict(row: Sequence[float], score: Mapping[str, Any]) -> float:
    if score["kind"] == "classes":
        return 1 / sum(math.exp(min(logit - row[score["positive"]], 700.0)) for logit in row)
    difference = row[0] - row[1] if score["kind"] == "tokens" else row[0]
    return 1 / (1 + math.exp(min(-difference, 700.0)))


def _calibrated(scores: list[float], steps: Sequence[str], calibration: Mapping[str, float] | None) -> list[float]:
    """odds of an error = (odds that the model gives)^(1 / temperature) × prior × length of the step / mean length so far"""
    if calibration is None:
        return scores
    total, count, calibrated = calibration["characters"], 1, []
    for score, step in zip(scores, steps):
        length = max(len(step), 1)
        total, count = total + length, count + 1
        odds = ((1 - score) / score) ** (1 / calibration["temperature"]) if score else math.inf
        calibrated.append(1 / (1 + odds * calibration["prior"] * length * count / total))
    return calibrated


# The profile: which it is.


def _profile(name: str, folder: Path) -> dict[str, Any]:
    if name in _BUILT_IN:
        return {"name": name, **_BUILT_IN[name]}
    if name != "profile.toml" or not (folder / name).is_file():
        known = ", ".join(_BUILT_IN)
        raise GradusError(f"{folder}: its profile {name} is not known here: expected profile.toml beside it, or {known}")
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    text = (folder / name).read_text(encoding="utf-8")
    if "references" in text:
        raise GradusError(f"{folder}: its profile reads retrieved references, which only gradus.Scorer(pool=...) gives")
    return dict(tomllib.loads(text))


_TEACHER = (
    "I want you to act as a math teacher. I will provide a mathematical question and several solution steps, and it will "
    "be your job to judge whether these steps are correct or not."
)
_SOLVER = (
    "You are an expert at solving challenging math problems spanning across various categories and difficulties such as "
    "Algebra, Number Theory, Geometry, Counting and Probability, Precalculus etc. For a given math problem, your task is "
    "to generate a step-by-step reasoning-based solution providing an answer to the question. Identify the correct "
    "concepts, formulas and heuristics that needs to be applied and then derive the contents of the reasoning steps from "
    "the given contexts and accurate calculations from the previous reasoning steps."
)
_ASK = """\
Question:
{{ problem }}
Process:
{% for step in earlier -%}
Step {{ loop.index }} : {{ step }}
{% endfor -%}
Step {{ number }} : {{ step }}
Is that Step Correct? You should ONLY tell me + or -."""
_STEP = {"kind": "tagged", "step": "{{ step }}"}
_PLUS = {"kind": "tokens", "positive": "+", "negative": "-"}
_CLASS_1 = {"kind": "classes", "positive": 1}

# The program's own profiles, except the one with retrieved references. A test compares them with assets/profiles/.
_BUILT_IN: dict[str, dict[str, Any]] = {
    "gradus": {
        "input": {**_STEP, "before": "{{ problem }}\n\n", "tag": "<file_sep>", "after": "\n"},
        "score": _CLASS_1,
        "calibration": {"temperature": 2.0, "prior": 0.86, "characters": 200},
    },
    "plain": {"input": {"kind": "prompted", "system": _TEACHER, "user": _ASK}, "score": _PLUS},
    "brief": {"input": {**_STEP, "before": "{{ problem }}\n\n", "tag": "\n"}, "score": _PLUS},
    "math-shepherd": {
        "input": {**_STEP, "before": "{{ problem }} ", "tag": " ки", "after": "\n"},
        "score": {"kind": "tokens", "positive": " +", "negative": " -"},
    },
    "spare-prm": {
        "input": {
            **_STEP,
            "chat": True,
            "system": _SOLVER,
            "user": "{{ sentences | join(' </S>\n') }}",
            "role": "user",
            "opening": "Let's think step by step.\n",
            "tag": " ки",
            "after": "\n",
            "closing": "\n",
        },
        "score": _PLUS,
    },
    "rlhflow": {
        "input": {"kind": "turns", "first": "{{ problem }} {{ step }}", "next": "{{ step }}", "answer": "+"},
        "score": _PLUS,
    },
    "qwen2.5-math-prm": {
        "input": {
            **_STEP,
            "chat": True,
            "system": "Please reason step by step, and put your final answer within \\boxed{}.",
            "user": "{{ problem }}",
            "tag": "<extra_0>",
            "after": "",
        },
        "score": _CLASS_1,
    },
    "trl": {"input": {**_STEP, "before": "{{ bos }}{{ problem }}", "separate": True, "tag": "\n"}, "score": _CLASS_1},
    "skywork-prm": {
        "input": {
            **_STEP,
            "before": "{{ bos }}{{ problem }}\n",
            "separate": True,
            "cut_at_tag": True,
            "tag": "\n",
            "after": "",
        },
        "score": {"kind": "value"},
    },
}
