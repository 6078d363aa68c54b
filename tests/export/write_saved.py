"""Write one small model of every registered ranker, and what it answers, for the versions after this one to load.

python tests/export/write_saved.py tests/export/saved/VERSION
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

import hingerank as hr
from hingerank.registry import RANKERS, ranker_class

GRADED = {
    "nystroem-rank-svm": {"n_components": 6},
    "fourier-rank-svm": {"n_components": 8},
    "lightgbm": {"n_estimators": 5, "min_child_samples": 2},
    "xgboost": {"n_estimators": 5},
    "factorized": {"rank": 2, "max_iter": 50},
    "adarank": {"max_iter": 5},
    "rankboost": {"max_iter": 5},
}


def graded_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 4))
    y = np.clip(np.round(X[:, 0] - X[:, 1] + 1), 0, 2)
    return X, y, np.repeat(np.arange(4), 6)


def diverse_query():
    rng = np.random.default_rng(0)
    return hr.DiverseQuery(
        rng.random((6, 2)),
        relations=rng.random((6, 6, 2)),
        judgments=np.eye(6)[:, :3],
        relevance=rng.random(6),
        aspects=rng.random((6, 3)),
        words=rng.integers(0, 3, (6, 8)),
    )


def ratings():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3))
    users, items = np.repeat(np.arange(3), 6), np.concatenate([rng.permutation(8)[:6] for _ in range(3)])
    return X, users, items, rng.integers(1, 6, 18)


def answers(ranker):
    """What a fitted ranker of any family says about the rows it learnt from."""
    if hasattr(ranker, "rerank"):
        return [int(place) for place in ranker.rerank(diverse_query())]
    if hasattr(ranker, "fit_pairs") and not isinstance(ranker, hr.RankSVM) and hasattr(ranker, "users_"):
        X, users, _, _ = ratings()
        return [float(score) for score in ranker.predict(users[:6], X[:6])]
    X, _, qid = graded_rows()
    return [float(score) for score in ranker.predict(X, qid)]


def fitted(name):
    cls = ranker_class(name)
    module = cls.__module__
    if "diver" in module:
        return cls().fit([diverse_query()])
    if ".personal." in module:
        return cls().fit(*ratings())
    parameters = GRADED.get(name, {})
    if "scale" in cls._get_param_names():
        parameters = parameters | {"scale": "query-minmax" if name == "rank-svm" else "standard"}
    return cls(**parameters).fit(*graded_rows())


def main(folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    found = {}
    for name in RANKERS:
        ranker = fitted(name)
        ranker.save(folder / f"{name}.safetensors")
        found[name] = answers(ranker)
    (folder / "answers.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
