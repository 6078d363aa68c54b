"""
Low-rank multipliers: how pairs interact
========================================

The dual of the Ranking SVM has a multiplier for every pair. Pairs share rows, so the multipliers of a query, written as
a matrix of winners by losers, are far from independent. This example measures how many dimensions they need, and fits
the two rankers that build low rank in.
"""

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr
from hingerank.papers.interactions import interactions

data = hr.make_letor(n_queries=60, rows_per_query=60, n_features=20, n_grades=3, noise=0.5, seed=1)
train, test = data.split(test_size=0.5, seed=0)
C = 0.01

rankers = {
    "RankSVM": hr.RankSVM(C=C, loss="hinge", solver="dual"),
    "Factorized, K = 3": hr.FactorizedRankSVM(rank=3, C=C, random_state=0),
    "Regularized": hr.RegularizedRankSVM(C=C, gamma=4.0, lam=20.0),
}
for name, ranker in rankers.items():
    ranker.fit(train)
    print(f"{name:20} NDCG@10 on test {ranker.score(test):.4f}")

# %%
# The share of energy in the k largest singular values, PE(k), one thin line for each query. The plain dual needs few
# dimensions already, and the two others fewer.

found = {name: interactions(ranker) for name, ranker in rankers.items()}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
for axis, (name, one) in zip(axes, found.items()):
    for query in one.queries:
        axis.plot(np.arange(1, len(query.energy()) + 1), query.energy(), color="#3b6ea5", alpha=0.3, lw=0.8)
    axis.axhline(0.9, color="k", lw=0.6, ls=":")
    axis.set(title=name, xlabel="singular values kept", xlim=(0.5, 10.5))
axes[0].set_ylabel("share of the energy")

# %%
# The same as a table: a row for each query. ``plot`` draws its histograms, as does ``hingerank analyse interactions``.

found["RankSVM"].frame().head()

# %%
# A single multiplier, and the matrix of one query.

factorized = rankers["Factorized, K = 3"]
block = next(factorized.multiplier_blocks())
print(f"query {block.query}: {block.A.shape[0]} winners × {block.A.shape[1]} losers, rank {block.rank()}")
r, c = np.unravel_index(block.A.argmax(), block.A.shape)
i, j = block.winners[r], block.losers[c]
print(f"row {i} is preferred to row {j} with multiplier {factorized.multiplier(i, j):.4f}; C = {C}")
