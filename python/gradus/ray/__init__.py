"""Ray Data: stages for `map_batches` whose actors hold a model, and whole datasets in shards.

>>> import ray
>>> from gradus.ray import ScoreBatches, score_shards
>>> rows = ray.data.from_items([{"problem": "What is 2 + 3?", "solution": "2 + 3 = 5.\\n\\nThe answer is 5."}])
>>> pool = ray.data.ActorPoolStrategy(size=2)
>>> scored = rows.map_batches(ScoreBatches, batch_size=64, batch_format="pyarrow", compute=pool)
>>> scored.take(1)[0]["step_scores"]
[0.9460879986043461, 0.9949818041223204]
>>> score_shards("sampled", "scored/scored.jsonl.zst", actors=8, num_gpus=1)  # sampled-00000-of-00040.jsonl.zst, …

`batches.py` has the stages, `shards.py` what reads shards and writes shards.
"""

from gradus.ray.batches import EmbedBatches, GradeBatches, MonteCarloBatches, SampleBatches, ScoreBatches
from gradus.ray.shards import ShardsReport, embed_shards, monte_carlo_shards, sample_shards, score_shards

__all__ = [
    "EmbedBatches",
    "GradeBatches",
    "MonteCarloBatches",
    "SampleBatches",
    "ScoreBatches",
    "ShardsReport",
    "embed_shards",
    "monte_carlo_shards",
    "sample_shards",
    "score_shards",
]
