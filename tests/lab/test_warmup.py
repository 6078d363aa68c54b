"""After `hingerank warmup` nothing is left to compile: every kernel was called, other data need no other version."""

import json
import os
import subprocess
import sys

import pytest

WARM = """
import json, pkgutil, importlib
from hingerank.kernels.compiled import CompiledKernel
import hingerank
from hingerank.lab.warmup import warm
problems = [f"{step.label}: {step.problem}" for step in warm(apart=False) if step.problem]
kernels = set()
for found in pkgutil.walk_packages(hingerank.__path__, "hingerank."):
    if found.name.endswith(("__main__", "torch_design")):
        continue
    for value in vars(importlib.import_module(found.name)).values():
        if isinstance(value, CompiledKernel) and value.py_func.__module__ == found.name:
            kernels.add(value)
assert len(kernels) > 60
print(json.dumps(problems + [kernel.__qualname__ for kernel in kernels if not kernel.compiled.signatures]))
"""

USE = """
import gc, json, sys, tempfile, warnings
from importlib.util import find_spec
from pathlib import Path
from numba.core import event
from numba.core.runtime import rtsys

class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(f"{doing}: {event.data['dispatcher'].__qualname__}{event.data['args']}")

    def on_end(self, event):
        pass

compiled, doing = [], ""
event.register("numba:compile", Listener())

import numpy as np
import scipy.sparse as sp
import hingerank as hr
from hingerank.data.scaling import SCALERS, make_scaler
from hingerank.diversity.queries import DiverseQuery
from hingerank.registry import RANKERS
from hingerank.rankers.linear import RankSVM

def use_graded(ranker, X, y, qid):
    ranker.fit(X, y, qid).score(X, y, qid)
    ranker.rank(X[:30], qid[:30])

def use():
    global doing
    rng = np.random.default_rng(5)
    n_queries, rows, width = 25, 41, 7
    qid, y = np.repeat(np.arange(n_queries), rows), rng.integers(0, 4, n_queries * rows)
    dense = rng.random((len(y), width)) * (rng.random((len(y), width)) < 0.6)
    kinds = {"float64": dense, "float32": dense.astype(np.float32)}
    kinds |= {f"sparse {kind}": sp.csr_matrix(X) for kind, X in kinds.items()}
    items, users = rng.integers(0, 50, 600), rng.integers(0, 12, 600)
    for name, place in RANKERS.items():
        ranker = getattr(hr, place.rpartition(":")[2])
        if find_spec(getattr(ranker, "requires", "numpy")) is None:
            continue
        for kind, X in kinds.items():
            doing = f"{name}, {kind}"
            if ".diversity." in place:
                queries = [DiverseQuery(
                    rng.random((20, 3)), relations=rng.random((20, 20, 2)), judgments=np.eye(20)[:, :4],
                    relevance=rng.random(20), aspects=rng.random((20, 4)), words=rng.integers(0, 3, (20, 9)),
                ) for _ in range(3)]
                ranker().fit(queries).score(queries)
            elif ".personal." in place:
                for ratings in (rng.integers(1, 6, 600), rng.integers(1, 6, 600) / 2):
                    model = ranker().fit(X[:50], users, items, ratings)
                    model.top_k([0, 1], X[:50], 5)
                    model.score(X[:50], users, items, ratings)
                if name not in ("ease", "list-ranker"):  # which do not learn from comparisons
                    ranker().fit_pairs(X[:50], users, items, (items + 1) % 50)
            else:
                use_graded(ranker(), X, y, qid)
                few = "boost" in name or name in ("mcrank", "ordinal-svm")  # which take a small number of grades
                use_graded(ranker(), X, y if few else rng.random(len(y)), qid)
    doing = "losses"
    for loss in ("hinge", "squared_hinge", "logistic", "modified_huber", "listmle"):
        for X in kinds.values():
            use_graded(RankSVM(loss=loss), X, y, qid)
    doing = "queries apart"
    mixed = rng.permutation(len(y))
    use_graded(RankSVM(), dense[mixed], y[mixed], qid[mixed])
    RankSVM(grade_weight=np.ones((4, 4))).fit(dense, y, qid, sample_weight=rng.random(len(y)))
    hr.FactorizedRankSVM(form="primal").fit(dense, y, qid)
    doing = "scalers"
    for name in SCALERS:
        for kind, X in kinds.items():
            if name not in ("minmax", "quantile") or not sp.issparse(X):
                make_scaler(name).fit(X, qid=qid).transform(X, qid)
    doing = "text"
    with tempfile.TemporaryDirectory() as folder:
        for number, X in enumerate(kinds.values()):
            path = Path(folder) / f"{number}.txt"
            hr.write(hr.RankingData(X, y, qid), path)
            for dtype in ("float32", "float64"):
                hr.read(path, dtype=dtype)
    doing = "measures"
    measures = ["ndcg@10", "ndcg", "map", "p@5", "err@10", "mrr", "mean_ndcg", "pair_accuracy"]
    hr.evaluate(y, rng.random(len(y)), qid, measures)
    hr.evaluate(y, np.round(3 * rng.random(len(y))), qid, measures)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    use()
gc.collect()
stats = rtsys.get_allocation_stats()
print(json.dumps({"compiled": compiled, "leaked": stats.mi_alloc - stats.mi_free}))
"""


def run(code):
    environment = os.environ | {"NUMBA_NRT_STATS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_warmup_calls_every_kernel_and_other_data_need_no_other_version():
    assert run(WARM) == []
    assert run(USE) == {"compiled": [], "leaked": 0}
