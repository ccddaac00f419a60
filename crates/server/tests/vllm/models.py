"""Two models with random weights that vLLM's CPU build serves (heads of 32 at least), as folders `lm` and `prm` beside this file.

    python3 models.py        (torch, transformers and safetensors; vLLM's environment has them)

Their tokenizers are those of the engine's reference models. The weights are f32: with them every program computes exactly.
"""

import json
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

here = pathlib.Path(__file__).parent
references = here / "../../../engine/tests/reference/models"
torch.manual_seed(3)
for name, like in (("lm", "qwen2"), ("prm", "qwen2-prm")):
    folder = here / name
    shutil.rmtree(folder, ignore_errors=True)
    known = json.loads((references / like / "config.json").read_text())
    config = Qwen2Config(
        vocab_size=known["vocab_size"], hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=2048, tie_word_embeddings=False,
        bos_token_id=known.get("bos_token_id"), eos_token_id=known.get("eos_token_id"))
    model = Qwen2ForCausalLM(config)
    for weights in model.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=0.1)
    model.float().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (references / like / file).exists():
            shutil.copy(references / like / file, folder / file)
    if name == "prm":
        weights = load_file(folder / "model.safetensors")
        weights.pop("lm_head.weight")
        for part, shape, scale in (("0", (64, 64), 0.2), ("2", (2, 64), 0.5)):
            weights[f"score.{part}.weight"] = torch.randn(shape) * scale
            weights[f"score.{part}.bias"] = torch.randn(shape[0]) * 0.1
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        written = json.loads((folder / "config.json").read_text())
        written["architectures"] = ["Qwen2ForProcessRewardModel"]
        (folder / "config.json").write_text(json.dumps(written, indent=1) + "\n")
