"""
Choosing C along a path
=======================

C weighs mistakes against the size of the weights, and has to be chosen by data. ``fit_path`` fits many values of C:
each fit starts where the one before it ended, so the path costs less than separate fits.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr

data = hr.make_letor(n_queries=260, rows_per_query=15, n_features=80, useless=60, noise=1.0, seed=1)
train, rest = data.split(test_size=0.85, seed=0)
validation, test = rest.split(test_size=0.5, seed=0)
Cs = np.geomspace(1e-7, 1.0, 15)

# %%
# The same fifteen fits, one by one and as a path. Both reach the same optimum to the tolerance asked for.

hr.RankSVM(C=1.0).fit(train)  # loads the compiled code, so that neither way pays for it

start = time.perf_counter()
alone = [hr.RankSVM(C=C).fit(train) for C in Cs]
one_by_one = time.perf_counter() - start

start = time.perf_counter()
path = hr.RankSVM().fit_path(train, Cs=Cs)
together = time.perf_counter() - start

difference = max(abs(a.objective_ - b.objective_) / a.objective_ for a, b in zip(alone, path))
print(f"one by one {1e3 * one_by_one:.0f} ms, as a path {1e3 * together:.0f} ms")
print(f"objectives differ by at most {difference:.1e} of their size")
print("iterations one by one", sum(r.n_iter_ for r in alone), "and along the path", sum(r.n_iter_ for r in path))

# %%
# C is chosen on validation queries. The test curve is drawn only to show that the choice is good. Too small a C leaves
# the weights near zero; too large a C fits the noise of the training queries.


def ndcg(ranker, part):
    return hr.evaluate(part.y, ranker.predict(part), part.qid, "ndcg@10")["ndcg@10"]


parts = {"training": train, "validation": validation, "test": test}
curves = {name: [ndcg(ranker, part) for ranker in path] for name, part in parts.items()}
chosen = int(np.argmax(curves["validation"]))

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, values in curves.items():
    axis.plot(Cs, values, marker=".", label=name)
axis.axvline(Cs[chosen], color="black", linestyle=":", label="chosen on validation")
axis.set(xscale="log", xlabel="C", ylabel="NDCG@10")
axis.legend()
print(f"C = {Cs[chosen]:.2g}, NDCG@10 on test {curves['test'][chosen]:.3f}")

# %%
# The weights along the path. All start near zero; those of useful features grow first and most.

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
weights = np.array([ranker.coef_ for ranker in path])
useful = np.isin(np.arange(data.n_features), data.truth.columns)
axis.plot(Cs, weights[:, ~useful], color="#c0c4c9", linewidth=0.8)
axis.plot(Cs, weights[:, useful], color="#3b6ea5")
axis.axvline(Cs[chosen], color="black", linestyle=":")
axis.set(xscale="log", xlabel="C", ylabel="weights (useless features in grey)")
plt.show()
