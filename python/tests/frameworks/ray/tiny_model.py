"""A random Llama of a few thousand parameters, with a tokenizer of bytes: it scores and samples in milliseconds."""

import json
from pathlib import Path

import numpy
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "vocab_size": 258,
    "torch_dtype": "float32",
}
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_model(folder: Path) -> Path:
    """Writes the folder of a model: its configuration, tokenizer and seeded weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    _tokenizer().save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": CHAT}
    (folder / "tokenizer_config.json").write_text(json.dumps(special), encoding="utf-8")
    save_file(_weights(), folder / "model.safetensors", {"format": "pt"})
    return folder


def _tokenizer() -> Tokenizer:
    """One token for each byte, and the two marks of a turn."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: at for at, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in ("<|im_start|>", "<|im_end|>")])
    return tokenizer


def _weights() -> dict[str, numpy.ndarray]:
    random = numpy.random.default_rng(0)
    hidden, inner, keys = 32, 64, 16

    def matrix(rows: int, columns: int) -> numpy.ndarray:
        return random.normal(0, columns**-0.5, (rows, columns)).astype(numpy.float32)

    ones = numpy.ones(hidden, numpy.float32)
    weights = {"model.embed_tokens.weight": matrix(258, hidden), "model.norm.weight": ones}
    for layer in range(2):
        shapes = {
            "self_attn.q_proj": (hidden, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, hidden),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }
        for name, shape in shapes.items():
            weights[f"model.layers.{layer}.{name}.weight"] = matrix(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"model.layers.{layer}.{name}.weight"] = ones.copy()
    return weights
