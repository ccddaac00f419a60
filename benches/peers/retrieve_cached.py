"""Two-stage retrieval with sentence-transformers and all that can be cached and batched: the pool's vectors are read from the pool, the texts of all targets, each once,
go through the model in one call (which sorts them by length), and searches are matrix products. Batches are of 8: small ones are padded
least, and on two cores they take no more CPU time than larger ones.

    python retrieve_cached.py TARGETS.jsonl --pool POOL -o OUT.jsonl [--batch N]
"""

from retrieve_common import answer, nearest_questions, peer

# Targets whose similarities to all questions are held at once.
BLOCK = 1024


def retrieve(pool, model, targets, batch, times):
    with times.of("embed targets"):
        texts = list(dict.fromkeys(text for target in targets for text in [target["problem"], *target["steps"]]))
        vectors = pool.project(model.encode(texts, batch_size=batch))
    with times.of("search"):
        rows = {text: row for row, text in enumerate(texts)}
        lines = []
        for first in range(0, len(targets), BLOCK):
            block = targets[first : first + BLOCK]
            all_similarities = vectors[[rows[target["problem"]] for target in block]] @ pool.questions.T
            for target, similarities in zip(block, all_similarities):
                questions, edge = nearest_questions(similarities)
                places = pool.places(questions)
                own = [rows[text] for text in target["steps"]]
                lines.append(answer(pool, target, similarities, questions, edge, places, vectors[own] @ pool.steps[pool.rows[places]].T))
    return lines, len(texts)


if __name__ == "__main__":
    peer(__doc__, retrieve, batch=8)
