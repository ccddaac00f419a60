"""tfidf.json: similarities by scikit-learn's TfidfVectorizer with its defaults, in f64.

Run `GRADUS_DATA=… python tfidf.py` in this folder; made with Python 3.11.7 and scikit-learn 1.9.1.

`small`  a made-up corpus with Unicode, numbers, underscores and empty texts: for each query its similarity to every text
`gsm8k`  the first 500 questions of gsm8k/test.jsonl: for every tenth, the five nearest others as [index, similarity].
         No text of the dataset is kept. Neighbouring similarities of the six nearest differ by at least 3.6e-5: the order is certain.
"""

import json
import os

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

HERE = os.path.dirname(os.path.abspath(__file__))

TEXTS = [
    "Janet has 3 apples and 12 pears.",
    "janet eats THREE apples; how many pears are left?",
    "",
    "x_1 + x_2 = 10, and x_1 = 4: what is x_2?",
    "Die Straße ist 3.50 km lang, die Größe egal.",
    "DIE STRASSE IST 3,50 KM LANG",
    "İstanbul'da 12 elma var.",
    "हिन्दी में बारह सेब",
    "日本語 の 文章、 りんご が 12 個",
    "ΟΔΟΣ και οδός",
    "a b c 1 2 _ . !",
    "e\u0301cole école ½2 Ⅻⅻ ²³ Ⓐⓑ",
    "well-known co-op: it's the o'clock\tand\nnew lines",
    "apples apples apples pears",
    "zero\u200dwidth under__score __init__ 1_000_000",
]
QUERIES = TEXTS + ["apples", "unknown words only", "STRASSE straße 50", "x_1 12 apples 日本語 stanbul", "οδος ΟΔΌΣ", "1_000_000 __init__ width"]


def small():
    vectorizer = TfidfVectorizer()
    texts = vectorizer.fit_transform(TEXTS)
    similar = vectorizer.transform(QUERIES) @ texts.T
    return {"texts": TEXTS, "queries": QUERIES, "similarities": similar.toarray().tolist()}


def gsm8k():
    folder = os.environ.get("GRADUS_DATA", os.path.join(HERE, "../../../../../shared/data"))
    with open(os.path.join(folder, "gsm8k", "test.jsonl"), encoding="utf-8") as lines:
        questions = [json.loads(line)["question"] for _, line in zip(range(500), lines)]
    vectors = TfidfVectorizer().fit_transform(questions)
    cases = []
    for at in range(0, 500, 10):
        similar = (vectors @ vectors[at].T).toarray().ravel()
        similar[at] = -1
        order = np.argsort(-similar, kind="stable")[:6]
        assert np.min(-np.diff(similar[order])) > 3.6e-5, "a tie has no certain order"
        cases.append({"query": at, "nearest": [[int(text), float(similar[text])] for text in order[:5]]})
    return cases


def main():
    head = small()
    parts = [
        ' "small": {\n' + ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in head.items()) + "\n }",
        ' "gsm8k": [\n' + ",\n".join("  " + json.dumps(one) for one in gsm8k()) + "\n ]",
    ]
    with open(os.path.join(HERE, "tfidf.json"), "w") as out:
        out.write("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
