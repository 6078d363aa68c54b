"""
Lists from an approximate index
===============================

A personal model scores an item for a user by the inner product of two vectors, so any vector index can make lists.
``export(..., to="vectors")`` writes the vectors. Here they go into an HNSW index of `usearch
<https://pypi.org/project/usearch/>`_, and its lists are compared with the exact ones of ``top_k``.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr

try:
    from usearch.index import Index
except ImportError:  # the exact lists are made all the same
    Index = None

# %%
# A model of four hundred listeners and three thousand songs, and its vectors.

data = hr.make_personal(400, 3000, 24, 6, kind="ratings", per_user=30, noise=0.3, seed=0)
ranker = hr.PersonalRankSVM(rank=8, C=0.05, max_iter=10, tol=0.05)
ranker.fit(data.item_features, data.users, data.items, data.ratings)
with tempfile.TemporaryDirectory() as folder:
    ranker.export(folder, to="vectors", items=data.item_features)
    users, items = np.load(Path(folder) / "users.npy"), np.load(Path(folder) / "items.npy")
exact, _ = ranker.top_k(ranker.users_, data.item_features, top=10)
print(users.shape, items.shape)

# %%
# The index holds items by inner product. The more neighbours it looks at (``expansion_search``), the more of the exact
# lists it finds.

if Index is not None:
    index = Index(ndim=items.shape[1], metric="ip", dtype="f32", connectivity=16)
    index.add(np.arange(len(items)), items.astype(np.float32), threads=1)  # one thread: the same index every time
    widths, recalls = (16, 64, 256), []
    for looked_at in widths:
        index.expansion_search = looked_at
        found = index.search(users.astype(np.float32), 10).keys
        recalls.append(np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(exact, found)]))
        print(f"{looked_at:3} looked at: {recalls[-1]:.3f} of the exact lists of ten")
    axes = plt.figure(figsize=(5, 3), layout="constrained").add_subplot(
        xscale="log", xlabel="items looked at", ylabel="recall of the exact ten"
    )
    axes.plot(widths, recalls, "o-")

# %%
# The same vectors say which items are alike.

rows, cosines = ranker.similar_items([7], data.item_features, top=3)
print(rows[0], np.round(cosines[0], 3))
