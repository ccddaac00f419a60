"""A process reward model behind transformers and FastAPI, as people write it: vLLM's `/pooling` for one text or a list.

    python3 prm_fastapi.py MODEL PORT

Requests that wait are put through the model together, padded, up to BATCH at a time.
"""

import asyncio
import json
import pathlib
import sys

import torch
import uvicorn
from fastapi import FastAPI, Request
from safetensors.torch import load_file
from transformers import AutoTokenizer, Qwen2Config, Qwen2Model

BATCH = 16
folder, port = pathlib.Path(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(2)
tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="right")
weights = load_file(folder / "model.safetensors")
model = Qwen2Model(Qwen2Config(**json.loads((folder / "config.json").read_text()))).to(torch.bfloat16)
model.load_state_dict({name.removeprefix("model."): value for name, value in weights.items() if name.startswith("model.")})
model.eval()
head = torch.nn.Sequential(torch.nn.Linear(576, 576), torch.nn.ReLU(), torch.nn.Linear(576, 2)).to(torch.bfloat16)
head.load_state_dict({name.removeprefix("score."): value for name, value in weights.items() if name.startswith("score.")})
tag = tokenizer.convert_tokens_to_ids("<extra_0>")
waiting = asyncio.Queue()
app = FastAPI()


@torch.inference_mode()
def scores(texts):
    batch = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    hidden = model(**batch).last_hidden_state
    return [head(hidden[row][ids == tag]).float().softmax(-1).tolist() for row, ids in enumerate(batch["input_ids"])]


async def serve_batches():
    while True:
        batch = [await waiting.get()]
        while len(batch) < BATCH and not waiting.empty():
            batch.append(waiting.get_nowait())
        found = await asyncio.to_thread(scores, [text for text, _ in batch])
        for (_, answer), rows in zip(batch, found):
            if not answer.done():
                answer.set_result(rows)


@app.on_event("startup")
async def start():
    app.state.worker = asyncio.create_task(serve_batches())


@app.get("/health")
async def health():
    return {}


@app.post("/pooling")
async def pooling(request: Request):
    texts = (await request.json())["input"]
    answers = [asyncio.get_running_loop().create_future() for _ in (texts if isinstance(texts, list) else [texts])]
    for text, answer in zip(texts if isinstance(texts, list) else [texts], answers):
        await waiting.put((text, answer))
    return {"object": "list", "data": [{"index": index, "object": "pooling", "data": await answer} for index, answer in enumerate(answers)]}


uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")
