"""
Fit, rank, measure
==================

The shortest way from rows to a ranking: make data, fit a linear Ranking SVM, look at what it learnt, and measure it on
queries it has not seen.
"""

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr

# %%
# Rows belong to queries, and every row has a grade. For generated data, the true utility behind the grades is known. It
# shows how good any ranker could be.

data = hr.make_letor(n_queries=150, rows_per_query=(20, 60), n_features=12, useless=4, seed=0)
train, test = data.split(test_size=0.3, seed=0)
print(train)

# %%
# Every fit has a certificate. Here it is the duality gap: how far the fit is from the optimum, at most.

ranker = hr.RankSVM(C=0.01).fit(train)
print(ranker.certificate_)

# %%
# The score of a row is a weighted sum of its features. Four columns of these data are noise: their weights are small.

figure, axis = plt.subplots(figsize=(6, 2.6), layout="constrained")
useful = np.isin(np.arange(data.n_features), data.truth.columns)
axis.bar(np.arange(data.n_features), ranker.coef_, color=np.where(useful, "#3b6ea5", "#c0c4c9"))
axis.axhline(0, color="black", linewidth=0.8)
axis.set(xlabel="feature (useless ones in grey)", ylabel="weight", xticks=range(data.n_features))

# %%
# ``rank`` returns row numbers, best first, query by query. The first ranks matter most, so NDCG is measured at several
# cutoffs. The curves above and below are the best that the noise in the grades allows, and chance.

best = ranker.rank(test, top=3)
print(test.qid[best][:6], test.y[best][:6])

places = [1, 2, 3, 5, 10, 20]
measures = [f"ndcg@{k}" for k in places]
scores = {
    "the truth behind the grades": data.truth.utility(test.X),
    "RankSVM": ranker.predict(test),
    "chance": np.random.default_rng(0).random(test.n_rows),
}
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, values in scores.items():
    found = hr.evaluate(test.y, values, test.qid, measures)
    axis.plot(places, [found[m] for m in measures], marker="o", label=name)
axis.set(xlabel="k", ylabel="NDCG@k on test queries", ylim=(0, 1))
axis.legend()
plt.show()
