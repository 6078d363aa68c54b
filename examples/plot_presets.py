"""
One ranking, many NDCGs
=======================

Tools that print "NDCG@10" disagree about the gain of a grade, the discount of a rank, lists shorter than ten, queries
without a relevant row, and ties. In hingerank, every measure can follow the conventions of a named tool.
"""

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr
from hingerank.metrics import PRESETS

# %%
# Short lists, some of them without any relevant row, and scores with ties: the cases that tools treat differently.

data = hr.make_letor(n_queries=200, rows_per_query=(4, 30), n_features=8, query_effect=1.5, seed=4)
train, test = data.split(test_size=0.5, seed=0)
scores = np.round(hr.RankSVM(C=0.01).fit(train).predict(test), 1)

names = [f"ndcg@10:{preset}" for preset in PRESETS]
values = hr.evaluate(test.y, scores, test.qid, names)

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
order = sorted(values, key=values.get)
axis.barh([name.partition(":")[2] for name in order], [values[name] for name in order], color="#3b6ea5")
for y, name in enumerate(order):
    axis.text(values[name] + 0.01, y, f"{values[name]:.3f}", va="center")
axis.set(xlabel="NDCG@10 of the same ranking of the same rows", xlim=(0, 1.1))
plt.show()

# %%
# Which convention makes the difference? Here one option changes at a time. See :doc:`/measures` for all of them.

for option in ("", ":gain=linear", ":discount=letor", ":short=zero", ":empty=1", ":ties=stable"):
    name = "ndcg@10" + option
    print(f"{name:24} {hr.evaluate(test.y, scores, test.qid, name)[name]:.4f}")
