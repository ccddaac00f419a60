"""GGUF files of the tiny models (gguf/) and what transformers computes from their dequantised weights.

Made with gguf 0.19.0, torch 2.8.0, transformers 4.57.1, on the models of make_models.py. Run: `python make_gguf.py` in this folder.

gguf/llama-{f16,q8_0,q4_0,q4_1,q5_0,q5_1}.gguf  the tiny llama, all matrices (the tied embedding too) in that type, norms in f32
gguf/qwen2-q8_0.gguf                            the tiny qwen2: biases in f32, an output matrix of its own, no permutation
gguf/llama-k.gguf                               hidden 256, one layer: Q4_K, and Q6_K for attn_v and ffn_down, as in a Q4_K_M file
gguf/blocks.json                                two blocks of every block type, raw (hex) and dequantised, for the decoder alone

Architecture `llama` stores q and k rows in llama.cpp's interleaved rotary order: row r of a head (hd rows) in the file is row (r % 2) * hd/2 + r // 2 of
the Hugging Face matrix. Reading must undo that, or rotate pairs (2i, 2i+1) instead of (i, i + hd/2). qwen2 is stored unpermuted.
The K-quant blocks are random bits with scales chosen so that weights have a sensible spread: the gguf package only decodes those types.

expected/gguf-<name>.json has the fields of make_models.py's language models. Dequantisation is gguf.quants.dequantize, then f32.
"""

import json
import math
import os

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Q
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

import tiny_tokenizer
from make_models import COMMON, HERE, language_model_values, short, write_expected

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name):
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    if name in top:
        return top[name]
    _, _, layer, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{NAMES[part]}.{kind}"


def permute(weight, heads):
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def unpermute(weight, heads):
    return weight.reshape(heads, weight.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def rotary_heads(name, config):
    if config.model_type != "llama":
        return None
    return {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])


def metadata(writer, config, file_type):
    tokenizer = tiny_tokenizer.bpe()
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    writer.add_name(f"tiny {config.model_type}")
    writer.add_file_type(file_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    if config.model_type == "llama":
        writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    # llama.cpp's converter fills a padded vocabulary with [PADn] tokens of type UNUSED.
    padding = [f"[PAD{i}]" for i in range(len(tokens), config.vocab_size)]
    types = [gguf.TokenType.CONTROL if t in tiny_tokenizer.SPECIALS else gguf.TokenType.NORMAL for t in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens + padding)
    writer.add_token_types(types + [gguf.TokenType.UNUSED] * len(padding))
    writer.add_token_merges([" ".join(merge) for merge in state["model"]["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tiny_tokenizer.CHAT_TEMPLATE)


def write(name, config, state, kind_of, file_type):
    """Writes the file and returns the state a reader must end up with."""
    path = os.path.join(HERE, "gguf", f"{name}.gguf")
    writer = gguf.GGUFWriter(path, config.model_type)
    metadata(writer, config, file_type)
    read_back = {}
    for key, weight in state.items():
        heads = rotary_heads(key, config)
        kind = Q.F32 if weight.ndim == 1 else kind_of(key)
        if isinstance(weight, torch.Tensor):
            data = weight.float().numpy()
            data = permute(data, heads) if heads else data
            raw = data.astype(np.float32) if kind == Q.F32 else data.astype(np.float16) if kind == Q.F16 else quantize(data, kind)
        else:
            raw = weight  # blocks made by random_blocks, already in the file's row order
        writer.add_tensor(gguf_name(key), raw, raw_dtype=kind)
        back = raw.astype(np.float32) if kind in (Q.F32, Q.F16) else dequantize(raw, kind)
        read_back[key] = torch.from_numpy((unpermute(back, heads) if heads else back).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read_back


def random_blocks(kind, count, generator, spread):
    """`count` blocks of random bits whose f16 scales make the dequantised weights have about the wanted spread."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = generator.integers(0, 256, (count, size), dtype=np.uint8)
    scale = spread * (1 + 0.3 * generator.random(count))
    half = lambda x: np.asarray(x, dtype=np.float16).view(np.uint8).reshape(count, 2)
    # Where the f16 fields lie, and how wide scale × quant ranges, in each block type (ggml-common.h).
    if kind == Q.Q4_K:  # d, dmin, 12 bytes of 6-bit scales, 128 bytes of quants: d·sc·q − dmin·m, q 0…15
        blocks[:, 0:2], blocks[:, 2:4] = half(scale / 180), half(scale / 180 * 7.5)
    elif kind == Q.Q5_K:  # the same with 5-bit quants
        blocks[:, 0:2], blocks[:, 2:4] = half(scale / 360), half(scale / 360 * 15.5)
    elif kind == Q.Q6_K:  # 128 + 64 bytes of quants, 16 int8 scales, d: d·sc·(q − 32)
        blocks[:, 208:210] = half(scale / 1400)
    elif kind == Q.Q2_K:  # 16 bytes of 4-bit scales and mins, 64 of quants, d, dmin: d·sc·q − dmin·m
        blocks[:, 80:82], blocks[:, 82:84] = half(scale / 10), half(scale / 10 * 1.5)
    elif kind == Q.Q3_K:  # 32 bytes of high bits, 64 of quants, 12 of 6-bit scales, d: d·(sc − 32)·(q − 4)
        blocks[:, 108:110] = half(scale / 50)
    elif kind == Q.Q8_0:
        blocks[:, 0:2] = half(scale / 80)
    elif kind in (Q.Q4_0, Q.Q5_0):
        blocks[:, 0:2] = half(scale / (5 if kind == Q.Q4_0 else 10))
    elif kind in (Q.Q4_1, Q.Q5_1):
        step = scale / (5 if kind == Q.Q4_1 else 10)
        blocks[:, 0:2], blocks[:, 2:4] = half(step), half(-step * (7.5 if kind == Q.Q4_1 else 15.5))
    return blocks


def tiny(name, source, config, klass, kind, file_type):
    state = load_file(os.path.join(HERE, "models", source, "model.safetensors"))
    read_back = write(name, config, state, lambda key: kind, file_type)
    compute(name, klass, config, read_back)


def compute(name, klass, config, state):
    config._attn_implementation = "eager"
    model = klass(config).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    write_expected(f"gguf-{name}", {"model": name, "architecture": klass.__name__, "prompts": language_model_values(model, tiny_tokenizer.bpe())})


def k_quants():
    h = 256
    config = LlamaConfig(
        vocab_size=296, hidden_size=h, intermediate_size=h, num_hidden_layers=1, num_attention_heads=8, num_key_value_heads=2,
        max_position_embeddings=4096, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=True,
    )
    generator = np.random.default_rng(51)
    layer = "model.layers.0."
    shapes = {
        "model.embed_tokens.weight": (296, 0.12), layer + "self_attn.q_proj.weight": (h, 1.5 / math.sqrt(h)),
        layer + "self_attn.k_proj.weight": (64, 1.5 / math.sqrt(h)), layer + "self_attn.v_proj.weight": (64, 1 / math.sqrt(h)),
        layer + "self_attn.o_proj.weight": (h, 1 / math.sqrt(h)), layer + "mlp.gate_proj.weight": (h, 1 / math.sqrt(h)),
        layer + "mlp.up_proj.weight": (h, 1 / math.sqrt(h)), layer + "mlp.down_proj.weight": (h, 1 / math.sqrt(h)),
    }
    kind_of = lambda key: Q.Q6_K if "v_proj" in key or "down_proj" in key else Q.Q4_K
    state = {key: random_blocks(kind_of(key), rows, generator, spread) for key, (rows, spread) in shapes.items()}
    for key in [layer + "input_layernorm.weight", layer + "post_attention_layernorm.weight", "model.norm.weight"]:
        state[key] = torch.from_numpy((1 + 0.2 * generator.standard_normal(h)).astype(np.float32))
    compute("llama-k", LlamaForCausalLM, config, write("llama-k", config, state, kind_of, gguf.LlamaFileType.MOSTLY_Q4_K_M))


def blocks():
    generator = np.random.default_rng(52)
    out = {}
    for kind in [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K]:
        raw = random_blocks(kind, 2, generator, 1.0)
        out[kind.name] = {"hex": raw.tobytes().hex(), "values": short(torch.from_numpy(dequantize(raw, kind).reshape(-1).copy()))}
    with open(os.path.join(HERE, "gguf", "blocks.json"), "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    os.makedirs(os.path.join(HERE, "gguf"), exist_ok=True)
    llama = lambda: LlamaConfig(**COMMON, tie_word_embeddings=True, rope_theta=10000.0)
    file_types = gguf.LlamaFileType
    for kind in [Q.F16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1]:
        tiny(f"llama-{kind.name.lower()}", "llama", llama(), LlamaForCausalLM, kind, file_types[f"MOSTLY_{kind.name}"])
    qwen2 = Qwen2Config(**{**COMMON, "vocab_size": 304, "rms_norm_eps": 1e-6}, tie_word_embeddings=False, rope_theta=1000000.0)
    tiny("qwen2-q8_0", "qwen2", qwen2, Qwen2ForCausalLM, Q.Q8_0, file_types.MOSTLY_Q8_0)
    k_quants()
    blocks()
    print("made", sorted(os.listdir(os.path.join(HERE, "gguf"))))
