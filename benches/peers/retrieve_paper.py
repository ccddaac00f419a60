"""Two-stage retrieval as RetrievalPRM describes it, with sentence-transformers: the pool's question vectors are there, the step database of each target is embedded
when it is needed, and nothing is kept from one target to the next. Batches are of the library's own size, 32.

    python retrieve_paper.py TARGETS.jsonl --pool POOL -o OUT.jsonl [--take N]
"""

from retrieve_common import answer, nearest_questions, peer


def retrieve(pool, model, targets, batch, times):
    lines, embedded = [], 0
    for target in targets:
        with times.of("embed targets"):
            vectors = pool.project(model.encode([target["problem"], *target["steps"]], batch_size=batch))
        with times.of("search"):
            similarities = pool.questions @ vectors[0]
            questions, edge = nearest_questions(similarities)
            places = pool.places(questions)
            texts = [pool.step_text(row) for row in pool.rows[places].tolist()]
        with times.of("embed databases"):
            database = pool.project(model.encode(texts, batch_size=batch))
        with times.of("search"):
            lines.append(answer(pool, target, similarities, questions, edge, places, vectors[1:] @ database.T))
        embedded += len(vectors) + len(texts)
    return lines, embedded


if __name__ == "__main__":
    peer(__doc__, retrieve, batch=32)
