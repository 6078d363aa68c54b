"""
Hybrid search: learnt weights
=============================

A hybrid query adds up BM25, the similarity of vectors and popularity. Each score is divided by its largest value in the
query, as OpenSearch's normalization processor does with a lower bound of 0. A linear ranker learns the weights of the
sum. The page :doc:`/hybrid` writes them into OpenSearch's pipeline and into Vespa's rank profile.
"""

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr

rng = np.random.default_rng(0)
queries, size = 160, 25
qid = np.repeat(np.arange(queries), size)
words, meaning, fame = rng.random((3, queries * size))
bm25 = np.where(words > 0.3, np.repeat(rng.uniform(4, 20, queries), size) * words, 0.0)
vector = 0.5 + 0.4 * meaning + 0.1 * np.repeat(rng.random(queries), size)
worth = 0.5 * words + 0.4 * meaning + 0.1 * fame + 0.1 * rng.random(len(qid))
scores = np.column_stack((bm25, vector, 5 * fame))

# %%
# The rows to learn from and to test on have the scores that the engine adds up.

largest = scores.reshape(queries, size, 3).max(axis=1)
names = ["BM25", "vector", "popularity"]
grades = np.digitize(worth, [0.5, 0.65, 0.8]).astype(float)
data = hr.RankingData.from_arrays(scores / largest[qid], grades, qid, feature_names=names)
train, test = data.split(test_size=0.4, seed=0)

# %%
# The weights are chosen over folds of the training queries.

ranker = hr.tune("rank-svm", train, folds=3, params={"scale": None})
weights = ranker.coef_ / ranker.coef_.sum()
print(dict(zip(names, weights.round(3).tolist())))

# %%
# On queries that it has not seen: each score alone, their mean, and the learnt weights.

tried = {name: test.X[:, j] for j, name in enumerate(names)}
tried |= {"equal weights": test.X.mean(axis=1), "learnt weights": ranker.predict(test)}
values = {name: hr.evaluate(test.y, found, test.qid, "ndcg@10")["ndcg@10"] for name, found in tried.items()}
figure, axes = plt.subplots(figsize=(6.4, 3), layout="constrained")
axes.barh(list(values)[::-1], list(values.values())[::-1])
axes.set_xlabel("NDCG@10 on test queries")
axes.set_xlim(0.4, 1)
