"""
A shop, from clicks to a ranker
===============================

A shop has a log of what customers saw and clicked. It has no judgments. This example goes from the log to a ranker, to
its curves, and to SQL that ranks the same. `hingerank demo` does these steps and writes a page about them.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr

# %%
# The log
# -------
# The shop is generated. Today it ranks by title and margin, and customers mostly look at the top of the page.

shop = hr.make_shop(seed=0)
print(shop.log)
print(shop.rows.names)

# %%
# How often is a position seen?
# -----------------------------
# Some sessions saw an older ranking, so many products appeared at several positions. That separates the effect of a
# position from that of a product. The customers of this shop see position k with probability 1 / k.

places = hr.propensities(shop.log, "all-pairs")
positions = np.arange(1, len(places.values) + 1)
figure, axis = plt.subplots(figsize=(6, 2.6), layout="constrained")
axis.plot(positions, places.values, "o", label="estimated from clicks")
axis.plot(positions, 1 / positions, label="true")
axis.set(xlabel="position", ylabel="propensity")
axis.legend()

# %%
# Learn from clicks
# -----------------
# Clicks are joined with the features of the products. `tune` chooses the settings from clicks alone.

data = shop.log.join(shop.rows)
queries = data.data.blocks.ids.tolist()
train, held_out = data.subset(queries[:80]), data.subset(queries[80:])

biased = hr.RankSVM(C=1e-3, scale="standard").fit_clicks(train, propensities=places, correction="naive")
linear = hr.RankSVM(C=1e-3, scale="standard").fit_clicks(train, propensities=places, correction="clipped")
curved = hr.tune("additive-rank-svm", train, propensities=places, correction="clipped", folds=3)
print(curved.tuning_)
print(curved.certificate_)

# %%
# Clicks as they are give margin a large weight, because today's ranking puts products of high margin where they are
# seen. After the correction the weight is small.

for name, ranker in {"clicks as they are": biased, "corrected clicks": linear}.items():
    weights = dict(zip(shop.rows.names, ranker.coef_.round(3).tolist()))
    print(f"{name}: margin {weights['margin']}, rating {weights['rating']}")

# %%
# The curves
# ----------
# A score is the sum of these curves. Customers want a price near 60, which a linear model cannot say.

figure = plt.figure(figsize=(10, 4.6), layout="constrained")
curved.plot(top=8, figure=figure)

# %%
# What is it worth?
# -----------------
# The value of a ranking that nobody saw is estimated from the clicks of searches that were held out. The shop is
# generated, so the judgments are known and confirm it.

value = hr.evaluate_clicks(
    held_out, {"linear": linear, "curves": curved}, propensities=places, estimator="snips", measure="dcg@10"
)
print(value)
for name, ranker in {"clicks as they are": biased, "linear": linear, "curves": curved}.items():
    print(name, round(hr.evaluate(held_out.data, ranker.predict(held_out.data), measures=["ndcg@10"])["ndcg@10"], 3))

# %%
# One search, explained
# ---------------------

query = curved.explain(held_out.data).query(held_out.qid[0])
columns, rows = query.pair(query.documents[0], query.documents[1], top=3)
for row in rows:
    print(row)

# %%
# Ship it
# -------
# The export is run in SQLite and its scores are compared with the ranker's.

exported = curved.export(Path(tempfile.mkdtemp()) / "shop.sql", to="sql", check=held_out.data)
print(exported.files[0].read_text()[:300])
print(exported.check["consumer"], exported.check["rows"], "rows, largest difference below 1e-12:")
print(exported.check["largest_difference"] < 1e-12)
plt.show()
