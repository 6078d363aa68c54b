"""
Learning from clicks
====================

People click what they see, and they see the top of the list. Suppose that the probability of being looked at (the
propensity of a position) is known. Set every clicked row against **all** other rows of its query, and weigh it by the
inverse of its propensity: the bias is then gone on average (Joachims, Swaminathan and Schnabel 2017).

Setting clicked rows against *unclicked* ones looks similar and stays biased, with any amount of data. A row that is
rarely looked at is rarely clicked, and so it loses often, however good it is.
"""

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr

data = hr.make_letor(n_queries=200, rows_per_query=12, n_features=10, n_grades=2, noise=0.3, seed=3)
rng = np.random.default_rng(0)

# %%
# The search engine in use ranks by one feature. People look at position r with probability 1 / r. If they look at a
# result, they click it nearly always if it is relevant, and sometimes if it is not.

place = np.empty(data.n_rows, int)
lists = [np.arange(start, end) for start, end in zip(data.blocks.offsets, data.blocks.offsets[1:])]
for rows in lists:
    place[rows[np.argsort(-data.X[rows, 0])]] = np.arange(1, len(rows) + 1)
propensity = 1.0 / place
attraction = np.where(data.y > 0, 0.9, 0.1)  # of a result that is looked at

figure, axis = plt.subplots(figsize=(6, 2.8), layout="constrained")
shown = rng.binomial(100, propensity * attraction) / 100
axis.plot(range(1, 13), [data.y[place == r].mean() for r in range(1, 13)], marker="o", label="share of relevant rows")
axis.plot(range(1, 13), [shown[place == r].mean() for r in range(1, 13)], marker="o", label="share clicked")
axis.set(xlabel="position in the list in use", ylim=(0, None))
axis.legend()

# %%
# Take every pair of rows (i, j) of a query, in both orders. What is learnt depends on the weights of the pairs. If
# every list is shown n times, there are two ways to correct the weight of (i, j):
#
# - (clicks on i) / propensity of i, whatever happened to j: on average n times the attraction of i;
# - (clicks on i while j was not clicked) / propensity of i: on average that times 1 - (propensity · attraction of j),
#   which still depends on the position of j.

winner, loser = np.array([(i, j) for rows in lists for i in rows for j in rows if i != j]).T


def learn(weight, C):
    """The direction of the weights that pairs with these weights teach."""
    chosen = weight > 0
    preferences = hr.ExplicitPairs(winner[chosen], loser[chosen], data.n_rows, sample_weight=weight[chosen])
    coef = hr.RankSVM(C=C).fit_preferences(data.X, preferences).coef_
    return coef / np.linalg.norm(coef)


def weights_of(showings):
    """Of all pairs, by three ways to read the clicks."""
    clicks = rng.binomial(1, np.tile(propensity * attraction, (showings, 1))).astype(np.float32)
    clicked, both = clicks.sum(axis=0), (clicks.T @ clicks)[winner, loser]
    return {
        "clicked against all, 1 / propensity": clicked[winner] / propensity[winner],
        "clicked against unclicked, 1 / propensity": (clicked[winner] - both) / propensity[winner],
        "clicked against unclicked, as they are": clicked[winner] - both,
    }


# %%
# The direction to find is the one that the attractions themselves teach. The first way comes nearer with every showing.
# The others converge elsewhere: they give too much weight to the feature by which the list in use ranks, and more
# clicks do not change that.

truth = learn(attraction[winner], C=1e-3)
counts = [4, 16, 64, 256, 1024]
found = {}
for showings in counts:
    for name, weight in weights_of(showings).items():
        found.setdefault(name, []).append(learn(weight, C=1e-3 / showings))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for name, directions in found.items():
    left.plot(counts, [np.linalg.norm(direction - truth) for direction in directions], marker="o", label=name)
    right.plot(counts, [direction[0] for direction in directions], marker="o")
right.axhline(truth[0], color="black", linestyle=":", label="what attractions teach")
left.set(xscale="log", xlabel="showings of every list", ylabel="distance from the true direction", ylim=(0, None))
right.set(xscale="log", xlabel="showings of every list", ylabel="weight of the feature in use")
left.legend(fontsize="small")
right.legend(fontsize="small")
for name, directions in found.items():
    print(f"{name}: {np.linalg.norm(directions[-1] - truth):.3f} from the true direction")
plt.show()

# %%
# The pairs above were listed to compare the three ways. `fit_clicks` does the first one from a log and lists none: a
# clicked row is set against all others by one sort of their scores, and showings are counted first.

rows = hr.RankingData.from_arrays(data.X, np.zeros(data.n_rows), data.qid, docid=np.arange(data.n_rows))
clicks = rng.binomial(1024, propensity * attraction)
log = hr.ClickLog(
    queries=np.tile(data.qid, 2),
    documents=np.tile(rows.docid, 2),
    places=np.tile(place, 2),
    clicks=np.repeat([1, 0], data.n_rows),
    weights=np.concatenate([clicks, 1024 - clicks]),
)
ranker = hr.RankSVM(C=1e-3 / 1024).fit_clicks(log.join(rows), propensities=1 / np.arange(1, 13))
coef = ranker.coef_ / np.linalg.norm(ranker.coef_)
print(f"fit_clicks: {np.linalg.norm(coef - truth):.3f} from the true direction")
