"""Tiny seeded models as Hugging Face folders (models/) and what transformers computes with them (expected/).

Made with torch 2.8.0, transformers 4.57.1, tokenizers 0.22.2, peft 0.17.1, sentence-transformers 5.1.1, safetensors 0.8.0, on a CPU, in f32, with
eager attention. Run: `python make_models.py [name …]` in this folder; without names it makes all of them.

Weights stored in bf16 or f16 are read into f32 before computing, so every expected value is an f32 computation over the stored weights.
Every folder has the same tokenizer but the encoders (tiny_tokenizer.py). Config files are what real checkpoints look like (`torch_dtype`, no
`layer_types`), except qwen3's, which is what transformers 4.57 writes (`dtype`, `layer_types`).

expected/<name>.json, for language models:
  prompts[]: text, ids, positions (where values were read), entries (which vocabulary ids), logits[position][entry], argmax[position],
    logsumexp[position] (over the whole vocabulary); hidden[layer]: norm[position] (Euclidean), values[position][first 4 entries];
    layer 0 is the embedding's output, layer i what block i puts out, and the LAST one has the final norm applied (transformers' convention);
    greedy (20 ids), greedy_margin (least lead of the best logit over the second), continuation (ids), continuation_logprobs (log p of each given the
    prompt and those before it).
Heads add class_probabilities[position][class] or values[position] (before the sigmoid) and sigmoid[position].
"""

import json
import math
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM, BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
    Qwen2ForCausalLM, Qwen2ForTokenClassification, Qwen2Model, Qwen3Config, Qwen3ForCausalLM,
)

import tiny_tokenizer

torch.set_num_threads(2)
HERE = os.path.dirname(os.path.abspath(__file__))
PROMPTS = [
    "the sum",
    "Tom has 3 apples and 14 pears; how many in total?\n",
    "<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\nThe sum is 4. ки\nSo the answer is 4. ки\nnow a longer one, with "
    "ünïcödé, 中文 and 12,345.67 in it:\n\n\tx = 3 - 1<|im_end|>\n",
]
CONTINUATION = " = 4 - 1.\n"
ENTRIES = [0, 1, 10, 12, 32, 43, 64, 100, 128, 175, 200, 256, 270, 287, 290, 295]
COMMON = dict(
    vocab_size=296, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=4096, rms_norm_eps=1e-5, bos_token_id=291, eos_token_id=290, pad_token_id=294,
)


def short(value):
    """Floats with 8 significant digits, which is all an f32 holds, in lists of any depth."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, list):
        return [short(v) for v in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def seed_weights(module, seed):
    """Weights that make every part matter: logits of order one, peaked attention, norms away from 1, biases away from 0."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(module.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name.lower() and name.endswith("weight"):
            data = 1 + 0.2 * noise
        elif name.endswith("bias"):
            data = 0.3 * noise
        elif "embed" in name or "lm_head" in name:
            data = 0.4 * noise
        else:
            gain = 2.0 if ".q_proj." in name or ".k_proj." in name or ".query." in name or ".key." in name else 1.0
            data = gain * noise / math.sqrt(parameter.shape[-1])
        parameter.data.copy_(data)


def edit_config(folder, modern=False, **changes):
    path = os.path.join(folder, "config.json")
    config = json.load(open(path))
    if not modern:
        config["torch_dtype"] = config.pop("dtype", "float32")
        config.pop("layer_types", None)
    config.update(changes)
    with open(path, "w") as out:
        json.dump(config, out, indent=2, sort_keys=True)
        out.write("\n")


def write_expected(name, value):
    os.makedirs(os.path.join(HERE, "expected"), exist_ok=True)
    with open(os.path.join(HERE, "expected", f"{name}.json"), "w") as out:
        json.dump(value, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")


def read_positions(length):
    return sorted({0, 1, length // 3, length // 2, length - 2, length - 1})


@torch.no_grad()
def language_model_values(model, tokenizer, prompts=PROMPTS, generate=20):
    results = []
    for text in prompts:
        ids = tokenizer.encode(text)
        positions = read_positions(len(ids))
        out = model(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
        logits = out.logits[0]
        hidden = [
            {"norm": short(layer[0, positions].norm(dim=-1)), "values": short(layer[0, positions, :4])} for layer in out.hidden_states
        ]
        grown, margin = list(ids), math.inf
        for _ in range(generate):
            top = model(torch.tensor([grown]), use_cache=False).logits[0, -1].topk(2)
            margin = min(margin, (top.values[0] - top.values[1]).item())
            grown.append(top.indices[0].item())
        assert margin > 1e-3, f"greedy choice too close to call ({margin})"
        continuation = tokenizer.encode(CONTINUATION)
        whole = model(torch.tensor([ids + continuation]), use_cache=False).logits[0].log_softmax(-1)
        logprobs = [whole[len(ids) + i - 1, token].item() for i, token in enumerate(continuation)]
        results.append({
            "text": text, "ids": ids, "positions": positions, "entries": ENTRIES,
            "logits": short(logits[positions][:, ENTRIES]), "argmax": logits[positions].argmax(-1).tolist(),
            "logsumexp": short(logits[positions].logsumexp(-1)), "hidden": hidden,
            "greedy": grown[len(ids):], "greedy_margin": short(margin),
            "continuation": continuation, "continuation_logprobs": short(logprobs),
        })
    return results


def language_model(name, klass, config, seed, dtype=torch.float32, shard=None, modern=False, **config_changes):
    folder = os.path.join(HERE, "models", name)
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = tiny_tokenizer.bpe()
    model = klass(config).eval()
    seed_weights(model, seed)
    model.tie_weights()
    model.generation_config.pad_token_id = None
    model.to(dtype).save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
    edit_config(folder, modern, **config_changes)
    tokenizer.save_pretrained(folder)
    drop_extra_tokenizer_files(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    write_expected(name, {"model": name, "architecture": klass.__name__, "prompts": language_model_values(model, tokenizer)})
    return model


def drop_extra_tokenizer_files(folder):
    """The template goes where real checkpoints have it, into tokenizer_config.json, not into a file of its own."""
    template = os.path.join(folder, "chat_template.jinja")
    if os.path.exists(template):
        path = os.path.join(folder, "tokenizer_config.json")
        config = json.load(open(path))
        config["chat_template"] = open(template).read()
        json.dump(config, open(path, "w"), indent=2, ensure_ascii=False)
        os.remove(template)


def llama():
    language_model("llama", LlamaForCausalLM, LlamaConfig(**COMMON, tie_word_embeddings=True, rope_theta=10000.0), 11)


LONG = 32_768
LONG_POSITIONS = [0, 1, 63, 64, 1_000, 4_095, 10_923, 16_384, 24_576, 32_703, 32_704, 32_766, 32_767]


def long_ids():
    """Tokens without a period that attention could fold."""
    state, ids = 1, []
    for _ in range(LONG):
        state = (state * 1_103_515_245 + 12_345) % 2**31
        ids.append((state >> 16) % 288)
    return ids


@torch.no_grad()
def llama_long():
    # Heads of 64, which have a kernel of their own on GPUs.
    config = LlamaConfig(**{**COMMON, "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": LONG}, head_dim=64,
                         tie_word_embeddings=True, rope_theta=1_000_000.0)
    folder = os.path.join(HERE, "models", "llama-long")
    shutil.rmtree(folder, ignore_errors=True)
    model = LlamaForCausalLM(config).eval()
    seed_weights(model, 21)
    model.tie_weights()
    model.generation_config.pad_token_id = None
    model.to(torch.bfloat16).save_pretrained(folder)
    edit_config(folder)
    tokenizer = tiny_tokenizer.bpe()
    tokenizer.save_pretrained(folder)
    drop_extra_tokenizer_files(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
    hidden = model.model(torch.tensor([long_ids()]), use_cache=False).last_hidden_state[0, LONG_POSITIONS]
    logits = model.lm_head(hidden)
    write_expected("llama-long", {
        "model": "llama-long", "positions": LONG_POSITIONS, "entries": ENTRIES, "hidden": short(hidden[:, :8]), "logits": short(logits[:, ENTRIES]),
    })


def llama3_rope():
    # rope_theta 100 and an original length of 32 put one frequency in each region: kept, blended, and two divided by 8.
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32, "rope_type": "llama3"}
    config = LlamaConfig(**COMMON, tie_word_embeddings=True, rope_theta=100.0, rope_scaling=scaling)
    language_model("llama3-rope", LlamaForCausalLM, config, 12, torch.bfloat16)


def llama_linear_rope():
    scaling = {"type": "linear", "factor": 2.0}
    config = LlamaConfig(**COMMON, tie_word_embeddings=True, rope_theta=100.0, rope_scaling=dict(scaling))
    language_model("llama-linear-rope", LlamaForCausalLM, config, 13, torch.bfloat16, rope_scaling=scaling)


def llama_sharded():
    config = LlamaConfig(**COMMON, tie_word_embeddings=False, rope_theta=10000.0)
    language_model("llama-sharded", LlamaForCausalLM, config, 14, torch.bfloat16, shard="40KB")
    assert os.path.exists(os.path.join(HERE, "models/llama-sharded/model.safetensors.index.json"))


def llama_f16():
    config = LlamaConfig(**COMMON, tie_word_embeddings=True, rope_theta=10000.0)
    language_model("llama-f16", LlamaForCausalLM, config, 15, torch.float16)


def mistral():
    # A window of 8: position i sees i-7 … i. The second and third prompts are longer.
    config = MistralConfig(**COMMON, tie_word_embeddings=False, rope_theta=10000.0, sliding_window=8)
    language_model("mistral", MistralForCausalLM, config, 16, torch.bfloat16)


def qwen2():
    # The vocabulary is padded past the tokenizer's 296 ids, and a sliding window is named but switched off: both as in Qwen2.5.
    config = Qwen2Config(**{**COMMON, "vocab_size": 304, "rms_norm_eps": 1e-6}, tie_word_embeddings=False, rope_theta=1000000.0)
    language_model("qwen2", Qwen2ForCausalLM, config, 17, sliding_window=8, use_sliding_window=False, max_window_layers=2)


def qwen2_yarn():
    # The factor agrees with max_position_embeddings / original: transformers takes the ratio and ignores `factor` where they differ.
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    config = Qwen2Config(**{**COMMON, "max_position_embeddings": 256}, tie_word_embeddings=True, rope_theta=1000.0, rope_scaling=dict(scaling))
    language_model("qwen2-yarn", Qwen2ForCausalLM, config, 18, torch.bfloat16, rope_scaling=scaling)


def qwen3():
    config = Qwen3Config(**COMMON, head_dim=16, tie_word_embeddings=True, rope_theta=1000000.0)
    language_model("qwen3", Qwen3ForCausalLM, config, 19, torch.bfloat16, modern=True)


class ProcessRewardModel(torch.nn.Module):
    """Qwen2.5-Math-PRM's shape: no lm_head, `score` = Linear → ReLU → Linear to 2."""

    def __init__(self, config):
        super().__init__()
        self.model = Qwen2Model(config)
        h = config.hidden_size
        self.score = torch.nn.Sequential(torch.nn.Linear(h, h), torch.nn.ReLU(), torch.nn.Linear(h, 2))

    def forward(self, ids):
        return self.score(self.model(ids, use_cache=False).last_hidden_state)


class ValueHead(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.summary = torch.nn.Linear(hidden, 1)


class ValueModel(torch.nn.Module):
    """Skywork-o1-PRM's shape: a whole causal model, and `v_head.summary` over its last hidden state (after the final norm)."""

    def __init__(self, config):
        super().__init__()
        causal = Qwen2ForCausalLM(config)
        self.model, self.lm_head = causal.model, causal.lm_head
        self.v_head = ValueHead(config.hidden_size)

    def forward(self, ids):
        return self.v_head.summary(self.model(ids, use_cache=False).last_hidden_state)[..., 0]


def head_config(**more):
    config = Qwen2Config(**{**COMMON, "rms_norm_eps": 1e-6}, rope_theta=1000000.0, **more)
    config._attn_implementation = "eager"
    return config


def save_custom(name, model, config, architecture, dtype, **changes):
    folder = os.path.join(HERE, "models", name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    state = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items()}
    save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    config.save_pretrained(folder)
    edit_config(folder, architectures=[architecture], torch_dtype=str(dtype).split(".")[1], **changes)
    tiny_tokenizer.bpe().save_pretrained(folder)
    drop_extra_tokenizer_files(folder)


def load_custom(name):
    """The stored head model in f32; make_profiles.py uses it too."""
    folder = os.path.join(HERE, "models", name)
    klass = {"qwen2-prm": ProcessRewardModel, "skywork": ValueModel}[name]
    model = klass(head_config(tie_word_embeddings=False)).eval()
    state = {key: value.float() for key, value in load_file(os.path.join(folder, "model.safetensors")).items()}
    model.load_state_dict(state)
    return model


@torch.no_grad()
def head_values(run):
    tokenizer = tiny_tokenizer.bpe()
    results = []
    for text in PROMPTS:
        ids = tokenizer.encode(text)
        positions = read_positions(len(ids))
        results.append({"text": text, "ids": ids, "positions": positions, **run(torch.tensor([ids]), positions)})
    return results


def qwen2_prm():
    config = head_config(tie_word_embeddings=False)
    model = ProcessRewardModel(config).eval()
    seed_weights(model, 21)
    save_custom("qwen2-prm", model, config, "Qwen2ForProcessRewardModel", torch.bfloat16, num_labels=2)
    model = load_custom("qwen2-prm")

    def run(ids, positions):
        logits = model(ids)[0, positions]
        return {"class_logits": short(logits), "class_probabilities": short(logits.softmax(-1))}

    write_expected("qwen2-prm", {"model": "qwen2-prm", "architecture": "Qwen2ForProcessRewardModel", "prompts": head_values(run)})


def skywork():
    config = head_config(tie_word_embeddings=False)
    model = ValueModel(config).eval()
    seed_weights(model, 22)
    save_custom("skywork", model, config, "Qwen2ForPrmModel", torch.bfloat16)
    model = load_custom("skywork")

    def run(ids, positions):
        values = model(ids)[0, positions]
        return {"values": short(values), "sigmoid": short(values.sigmoid())}

    write_expected("skywork", {"model": "skywork", "architecture": "Qwen2ForPrmModel", "prompts": head_values(run)})


def qwen2_token_classification():
    # What TRL's PRM trainer saves: `score` is one Linear with a bias, two labels.
    config = head_config(tie_word_embeddings=False, num_labels=2)
    model = Qwen2ForTokenClassification(config).eval()
    seed_weights(model, 23)
    folder = os.path.join(HERE, "models", "qwen2-token-classification")
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    edit_config(folder)
    tiny_tokenizer.bpe().save_pretrained(folder)
    drop_extra_tokenizer_files(folder)
    model = Qwen2ForTokenClassification.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()

    def run(ids, positions):
        logits = model(ids, use_cache=False).logits[0, positions]
        return {"class_logits": short(logits), "class_probabilities": short(logits.softmax(-1))}

    name = "qwen2-token-classification"
    write_expected(name, {"model": name, "architecture": "Qwen2ForTokenClassification", "prompts": head_values(run)})


def adapters():
    from peft import LoraConfig, get_peft_model

    for name, rslora, seed in [("llama-lora", False, 31), ("llama-rslora", True, 32)]:
        base = AutoModelForCausalLM.from_pretrained(os.path.join(HERE, "models/llama"), dtype=torch.float32, attn_implementation="eager")
        config = LoraConfig(
            r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], use_rslora=rslora, task_type="CAUSAL_LM"
        )
        model = get_peft_model(base, config).eval()
        generator = torch.Generator().manual_seed(seed)
        for key, parameter in sorted(model.named_parameters()):
            if "lora_" in key:
                parameter.data.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
        model.peft_config["default"].base_model_name_or_path = "../llama"
        folder = os.path.join(HERE, "models", name)
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        os.remove(os.path.join(folder, "README.md"))
        scale = 8 / math.sqrt(4) if rslora else 8 / 4
        values = language_model_values(model, tiny_tokenizer.bpe())
        write_expected(name, {"model": name, "base": "llama", "scale": scale, "prompts": values})


SENTENCES = ["the sum of the two numbers", "Step one: add 12 and 7.", "is it the product?", "x", "the answer is the half of the total, so we "
             "take the rest and then the sum of these numbers, and the answer is the sum of the rest and the half of the total of it all"]


def encoders():
    from sentence_transformers import SentenceTransformer, models as modules

    for name, pooling, seed in [("bert-mean", "mean", 41), ("bert-cls", "cls", 42)]:
        folder = os.path.join(HERE, "models", name)
        shutil.rmtree(folder, ignore_errors=True)
        config = BertConfig(
            vocab_size=160, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64,
        )
        model = BertModel(config).eval()
        seed_weights(model, seed)
        source = os.path.join(HERE, "../../../../target/ref-bert")
        shutil.rmtree(source, ignore_errors=True)
        model.save_pretrained(source)
        tiny_tokenizer.wordpiece(source)
        transformer = modules.Transformer(source, max_seq_length=32, model_args={"attn_implementation": "eager"})
        encoder = SentenceTransformer(modules=[transformer, modules.Pooling(32, pooling_mode=pooling), modules.Normalize()], device="cpu")
        encoder.save(folder, create_model_card=False)
        edit_config(folder)
        encoder = SentenceTransformer(folder, device="cpu", model_kwargs={"attn_implementation": "eager"})
        results = []
        for text in SENTENCES:
            features = encoder.tokenize([text])
            with torch.no_grad():
                tokens = encoder[0].auto_model(**features, output_hidden_states=True)
            results.append({
                "text": text, "ids": features["input_ids"][0].tolist(), "embedding": short(encoder.encode(text, convert_to_tensor=True)),
                "hidden_norms": [short(layer[0].norm(dim=-1)) for layer in tokens.hidden_states],
            })
        batch = encoder.encode(SENTENCES, convert_to_tensor=True)
        assert max((batch[i] - torch.tensor(r["embedding"])).abs().max() for i, r in enumerate(results)) < 1e-5
        write_expected(name, {"model": name, "pooling": pooling, "normalize": True, "max_seq_length": 32, "sentences": results})


TOPICS = {
    "llama-long": llama_long,
    "llama": llama, "llama3-rope": llama3_rope, "llama-linear-rope": llama_linear_rope, "llama-sharded": llama_sharded, "llama-f16": llama_f16,
    "mistral": mistral, "qwen2": qwen2, "qwen2-yarn": qwen2_yarn, "qwen3": qwen3, "qwen2-prm": qwen2_prm, "skywork": skywork,
    "qwen2-token-classification": qwen2_token_classification, "adapters": adapters, "encoders": encoders,
}

if __name__ == "__main__":
    for topic in sys.argv[1:] or TOPICS:
        TOPICS[topic]()
        print("made", topic)
