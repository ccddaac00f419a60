"""pca.json: means, components, explained shares and projections by scikit-learn's PCA (svd_solver="full", f64).

Run `python pca.py` in this folder; made with numpy 2.4.6 and scikit-learn 1.9.1. Inputs come from a fixed seed, rounded so that they are exact in f32, and are in
the file; rows are one flat list. Floats have 17 significant digits.

`all`     the components with variance (at most the rank); `projected`: the first three rows on them
`shares`  for n_components = share, how many are kept
Left out: components without variance, whose direction is arbitrary.
"""

import json
import os

import numpy as np
from sklearn.decomposition import PCA

HERE = os.path.dirname(os.path.abspath(__file__))
SHARES = [0.1, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999]


def case(name, rows):
    rows = np.round(np.asarray(rows) * 256) / 256
    assert np.array_equal(rows, rows.astype(np.float32)), "inputs are exact in f32"
    count, dimension = rows.shape
    whole = PCA(svd_solver="full").fit(rows)
    rank = int(np.sum(whole.explained_variance_ratio_ > 1e-12))
    # Fixed: the library's own choice of how many, not a slice of ours.
    fitted = PCA(n_components=rank, svd_solver="full").fit(rows)
    return {
        "name": name,
        "dimension": dimension,
        "rows": rows.ravel().tolist(),
        "mean": fitted.mean_.tolist(),
        "kept": rank,
        "components": fitted.components_.ravel().tolist(),
        "explained": fitted.explained_variance_ratio_.tolist(),
        "projected": fitted.transform(rows[:3]).ravel().tolist(),
        "shares": [[share, int(PCA(n_components=share, svd_solver="full").fit(rows).n_components_)] for share in SHARES],
    }


def correlated(rng, count, dimension, factors, noise):
    return rng.normal(size=(count, factors)) @ rng.normal(size=(factors, dimension)) + noise * rng.normal(size=(count, dimension))


def main():
    rng = np.random.default_rng(20261115)
    plain = correlated(rng, 60, 12, 4, 0.3)
    far = correlated(rng, 40, 6, 3, 0.2) + 100 * np.arange(6)
    constant = correlated(rng, 30, 5, 2, 0.5)
    constant[:, 2] = 7.25
    few = correlated(rng, 6, 15, 4, 0.5)
    cases = [
        case("correlated", plain),
        case("far from 0", far),
        case("a constant column", constant),
        case("fewer rows than dimensions", few),
        case("two rows", [[1.0, 2.0, 3.5], [2.0, -1.0, 0.25]]),
        case("one dimension", [[1.0], [2.0], [4.5]]),
    ]
    with open(os.path.join(HERE, "pca.json"), "w") as out:
        out.write("[\n" + ",\n".join(" " + json.dumps(one) for one in cases) + "\n]\n")


if __name__ == "__main__":
    main()
