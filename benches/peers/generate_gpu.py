"""Speed of the engine's peer on a GPU with many sequences: 192 samples of one prompt, 160 tokens each, in transformers (bf16, SDPA, sampling at temperature 1).

The model has SmolLM2-135M's shape and random weights, which a forward pass does not notice. Prints one line for each run, the first of which warms up. Ours, on the
same machine (less the time of the same command with --max-tokens 2, which loads the model):
  gradus generate --raw 'Once upon a time there was' --device cuda -n 192 --max-tokens 160 -t 1 --json
Written for torch 2.11, transformers 5.17.
"""

import json
import time

import torch
import transformers

SEQUENCES, PROMPT, TOKENS = 192, 6, 160

shape = transformers.LlamaConfig(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    max_position_embeddings=8192,
    rope_theta=100000.0,
    tie_word_embeddings=True,
    bos_token_id=1,
    eos_token_id=None,
    pad_token_id=0,
)
model = transformers.LlamaForCausalLM(shape).to("cuda", torch.bfloat16).eval()
prompts = torch.randint(5, 49000, (1, PROMPT), device="cuda").repeat(SEQUENCES, 1)
for cache in ("dynamic", "static"):
    for run in range(3):
        torch.cuda.synchronize()
        start = time.time()
        extra = {"cache_implementation": "static", "disable_compile": True} if cache == "static" else {}
        with torch.no_grad():
            model.generate(prompts, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=TOKENS, min_new_tokens=TOKENS, **extra)
        torch.cuda.synchronize()
        seconds = time.time() - start
        print(json.dumps({"cache": cache, "run": run, "seconds": round(seconds, 2), "tokens_per_second": round(SEQUENCES * TOKENS / seconds)}))
