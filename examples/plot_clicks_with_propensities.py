"""
Learning from clicks
====================

People click what they see, and they see the top of the list. Pairs "clicked above not clicked" then teach the old
ranking back. If the chance that a place is looked at (its propensity) is known, weighing every click by the inverse
of its propensity removes that bias on average (Joachims, Swaminathan and Schnabel 2017).
"""

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr

data = hr.make_letor(n_queries=300, rows_per_query=12, n_features=10, n_grades=2, noise=0.3, seed=3)
train, test = data.split(test_size=0.3, seed=0)
rng = np.random.default_rng(0)

# %%
# The search engine in use ranks by one feature. People look at place r with probability 1 / r, click a relevant
# result they look at nearly always, and an irrelevant one sometimes.

production = train.X[:, 0]
place = np.empty(train.n_rows, int)
for start, end in zip(train.blocks.offsets, train.blocks.offsets[1:]):
    place[start:end][np.argsort(-production[start:end])] = np.arange(1, end - start + 1)
propensity = 1.0 / place
chance = propensity * np.where(train.y > 0, 0.9, 0.1)

figure, axis = plt.subplots(figsize=(6, 2.8), layout="constrained")
clicks = rng.binomial(100, chance)
axis.plot(range(1, 13), [train.y[place == r].mean() for r in range(1, 13)], marker="o", label="share of relevant rows")
axis.plot(range(1, 13), [clicks[place == r].mean() / 100 for r in range(1, 13)], marker="o", label="share clicked")
axis.set(xlabel="place in the list in use", ylim=(0, None))
axis.legend()

# %%
# Each showing of a list gives its own clicks. The rows are repeated for every showing; a clicked row is preferred to
# the rows of its list that were not clicked. ``winner_weight`` multiplies all pairs that a row wins.


def learn(showings, weigh):
    rows = np.concatenate([np.arange(train.n_rows)] * showings)
    offsets = np.concatenate([train.blocks.offsets[:-1] + k * train.n_rows for k in range(showings)])
    clicked = rng.binomial(1, chance[rows]).astype(float)
    weight = 1.0 / propensity[rows] if weigh else None
    preferences = hr.GradedPreferences(clicked, np.append(offsets, len(rows)), winner_weight=weight)
    return hr.RankSVM(C=0.1 / showings).fit_preferences(train.X[rows], preferences)


def ndcg(scores):
    return hr.evaluate(test.y, scores, test.qid, "ndcg@5")["ndcg@5"]


counts = [1, 2, 4, 8, 16, 32]
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
for weigh, name in ((True, "clicks weighted by 1 / propensity"), (False, "clicks as they are")):
    axis.plot(counts, [ndcg(learn(n, weigh).predict(test)) for n in counts], marker="o", label=name)
axis.axhline(ndcg(hr.RankSVM(C=0.1).fit(train).predict(test)), color="black", linestyle=":", label="true grades")
axis.axhline(ndcg(test.X[:, 0]), color="#c0c4c9", label="the list in use")
axis.set(xscale="log", xticks=counts, xticklabels=counts, xlabel="showings of every list", ylabel="NDCG@5 on test")
axis.legend()
plt.show()
