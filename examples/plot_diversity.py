"""
Many meanings: diversify search results
=======================================

A query with several subtopics is badly served by ten good pages about the most popular one. A diversifying reranker
chooses documents one after the other, each for what those before it leave open. Here the subtopics are known to the
generator; the rerankers see only noisy features, texts, hosts and guessed suggestions.
"""

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr
from hingerank.diversity.relations import unit_scores

data = hr.make_diverse(n_queries=80, candidates=80, seed=4)
train, test = data[:50], data[50:]

# %%
# ``RLTR`` without relations learns relevance alone. The classics rerank its scores, by distances or by guessed aspects;
# R-LTR and PAMM learn how much each distance counts.

relevance = hr.RLTR(C=10.0, aggregate="none").fit(train)
test = test.map(lambda query: query.with_parts(relevance=unit_scores(query.X @ relevance.coef_)))
rankers = {
    "relevance": relevance,
    "MMR": hr.MMR(lam=0.5),
    "xQuAD": hr.XQuAD(lam=0.5),
    "R-LTR": hr.RLTR(C=10.0).fit(train),
    "PAMM": hr.PAMM("alpha-ndcg@20").fit(train),
}
for name, ranker in rankers.items():
    values = [ranker.score(test, measure) for measure in ("alpha-ndcg@20", "err-ia@20")]
    print(f"{name:<10} alpha-NDCG@20 {values[0]:.4f}   ERR-IA@20 {values[1]:.4f}")

# %%
# The first twenty documents of one query. Dark: the first document about a subtopic. Light: a further one. An empty
# column is a document that is not relevant.

query = test[29]
figure, axes = plt.subplots(3, 1, figsize=(7, 5.4), sharex=True, layout="constrained")
for axis, name in zip(axes, ("relevance", "MMR", "PAMM")):
    ranked = query.judgments[rankers[name].rerank(query)].T > 0
    ranked = ranked[query.judgments.any(axis=0)]
    first = ranked & (ranked.cumsum(axis=1) == 1)
    axis.imshow(np.where(first, 2, ranked), cmap="Blues", vmin=0, vmax=2.4, aspect="auto")
    axis.set_title(f"{name}: {first.any(axis=1).sum()} of {len(ranked)} subtopics", loc="left", fontsize=10)
    axis.set_yticks(range(len(ranked)), [f"{k + 1}" for k in range(len(ranked))], fontsize=8)
    axis.set_xticks(range(0, 20, 2), range(1, 21, 2))
    axis.set_ylabel("subtopic")
axes[-1].set_xlabel("rank")

# %%
# Over all test queries: the share of subtopics that the first k documents cover.

figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for name, ranker in rankers.items():
    axis.plot(range(1, 21), [ranker.score(test, f"strec@{k}") for k in range(1, 21)], label=name)
axis.set(xlabel="rank k", ylabel="share of subtopics covered", xticks=range(2, 21, 2))
axis.legend()
