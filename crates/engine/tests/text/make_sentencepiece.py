"""sentencepiece.json: a small SentencePiece BPE model, set up as Llama's was, and how sentencepiece itself encodes with it.

Made with sentencepiece 0.2; run: python make_sentencepiece.py > sentencepiece.json

  tokens, scores, types   the vocabulary as a GGUF file has it (types: 1 normal, 2 unknown, 3 control, 6 byte)
  texts[]                 text and ids, nothing added
"""

import io
import json

import sentencepiece

CORPUS = [
    "the sum of the two numbers is twelve, so the answer is twelve.",
    "step one: add three apples and four pears, then take half of them away.",
    "if x is the number of steps, then the total is x plus seven.",
    "we know that the product of two and six is twelve; the rest is nothing.",
    "therefore the answer to the question is that there are seven left over.",
    "the teacher asks whether the step is correct or wrong, and why it is so.",
]
TEXTS = [
    "", " ", "   ", "the", " the", "  the  sum  ", "the sum of the steps is twelve.", "The Answer", "therefore", "teacher's",
    "123 + 45 = 168", "\n", "a\n\nb\tc", "naïve café", "东京 🙂", "thethethe", "xyzzy qqq", "is  it\u00a0so?", "step" * 40, "▁the▁",
]


def main():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 3), model_writer=model, model_type="bpe", vocab_size=400, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True, split_digits=True,
        hard_vocab_limit=False, minloglevel=2,
    )
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(sp.get_piece_size())
    kind = lambda i: 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1
    result = {
        "tokens": [sp.id_to_piece(i) for i in ids],
        "scores": [sp.get_score(i) for i in ids],
        "types": [kind(i) for i in ids],
        "texts": [{"text": text, "ids": sp.encode(text)} for text in TEXTS],
    }
    print(json.dumps(result, ensure_ascii=False))


main()
