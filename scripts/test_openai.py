"""The `openai` package, unchanged, against `gradus serve`: models, chat, streams, log-probabilities, embeddings, and the
requests that training loops send.

Usage: test_openai.py URL   (a server with the models prm, smollm2-135m and all-minilm-l6-v2)
"""

import json
import sys
import urllib.request

import openai

url = sys.argv[1].rstrip("/")
client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def post(path, body):
    """A request as verl, OpenRLHF and vLLM's own examples send it."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


names = [model.id for model in client.models.list()]
assert names == ["prm", "smollm2-135m", "all-minilm-l6-v2"], names

ask = dict(model="smollm2-135m", messages=[{"role": "user", "content": "What is 2 + 3?"}], max_tokens=16, temperature=0)
whole = client.chat.completions.create(**ask, logprobs=True, top_logprobs=3, seed=1)
choice = whole.choices[0]
assert choice.finish_reason in ("stop", "length") and whole.usage.completion_tokens > 0
assert all(len(token.top_logprobs) == 3 and token.top_logprobs[0].token == token.token for token in choice.logprobs.content)
pieces = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
assert text == choice.message.content, (text, choice.message.content)
assert pieces[-1].usage == whole.usage
schema = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"], "additionalProperties": False}
shaped = client.chat.completions.create(
    **{**ask, "max_tokens": 64}, response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}})
assert isinstance(json.loads(shaped.choices[0].message.content)["answer"], int)
try:
    client.chat.completions.create(**ask, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}])
    raise SystemExit("tools were not refused")
except openai.BadRequestError as error:
    assert "tools" in error.message
try:
    client.chat.completions.create(**{**ask, "model": "gpt-5"})
    raise SystemExit("an unknown model was not refused")
except openai.NotFoundError:
    pass
legacy = client.completions.create(model="smollm2-135m", prompt="2 + 3 =", max_tokens=2, logprobs=1, echo=True, temperature=0)
assert legacy.choices[0].text.startswith("2 + 3 =") and legacy.choices[0].logprobs.token_logprobs[0] is None
# The client asks for base64 by itself.
vectors = client.embeddings.create(model="all-minilm-l6-v2", input=["one", "two"]).data
assert [len(vector.embedding) for vector in vectors] == [384, 384]
assert abs(sum(value * value for value in vectors[0].embedding) - 1) < 1e-3

prompt = "What is 2 + 3?"
reward = post("/get_reward", {"query": [f"{prompt}\n2 + 3 = 5.\n\nSo 5."], "prompts": [prompt], "labels": ["5"]})
assert 0 <= reward["rewards"][0] <= 1 and reward["extra_logs"]["correct"] == [1.0], reward
classes = post("/classify", {"model": "prm", "input": prompt, "activation": False})["data"][-1]["probs"][-1]
assert isinstance(classes, float)
embedded = post("/v1/embeddings", {"model": "prm", "input": prompt})["data"][-1]["embedding"][-1]
assert 0 <= embedded <= 1
print(f"openai {openai.__version__}: models, chat, stream, logprobs, JSON schema, refusals, completions, embeddings, rewards")
