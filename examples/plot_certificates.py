"""
What a certificate says
=======================

Every convex fit reports a duality gap: how far above the optimum its objective may still be. The gap is relative to the
objective, or to what there is to gain over weights of 0 if that is less. Here two solvers minimise the same hinge
objective, and their certificates are compared with the true distance from the optimum.
"""

import matplotlib.pyplot as plt

import hingerank as hr

data = hr.make_letor(n_queries=60, rows_per_query=25, n_features=20, seed=2)

# %%
# First the answer to compare with: a fit with a far smaller tolerance than anyone needs.

exact = hr.RankSVM(C=0.01, loss="hinge", tol=1e-8, max_iter=2000).fit(data)
print(exact.certificate_)
at_zero = 0.01 * exact.n_pairs_  # every pair ties, and costs 1

# %%
# Two solvers for the hinge. Smoothing rounds the kink off, less and less. Cutting planes collect linear lower bounds of
# the loss. (A third, "dual", refines the result of smoothing and gives a multiplier for every pair.)

solvers = ["smoothing", "cutting-plane"]
fits = {name: hr.RankSVM(C=0.01, loss="hinge", solver=name, tol=1e-4).fit(data) for name in solvers}
for name, ranker in fits.items():
    print(f"{name:14} {ranker.certificate_.kind} {ranker.certificate_.value:.1e} after {ranker.n_iter_} iterations")

# %%
# The certificate (solid) is never below the true distance (dashed). So a fit that reports a gap is at most that far
# from the optimum, whatever the solver.

figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for axis, (name, ranker) in zip(axes, fits.items()):
    trace = [entry for entry in ranker.trace_ if entry.get("gap", 0) > 0]
    steps = [entry["iteration"] for entry in trace]
    axis.plot(steps, [entry["gap"] for entry in trace], label="certificate")
    above = [(entry["value"] - exact.objective_) / min(entry["value"], at_zero - exact.objective_) for entry in trace]
    axis.plot(steps, [max(value, 1e-9) for value in above], linestyle="--", label="true distance")
    axis.axhline(1e-4, color="black", linewidth=0.6, linestyle=":")
    axis.set(title=name, xlabel="iteration", yscale="log", ylim=(1e-8, 3))
axes[0].set_ylabel("fraction of objective and gain")
axes[0].legend()

# %%
# For smooth losses the gap needs no extra work: it is half of the squared gradient. Newton's method gains about a digit
# in each step.

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for loss in ("squared_hinge", "logistic", "modified_huber"):
    ranker = hr.RankSVM(C=0.01, loss=loss, tol=1e-8).fit(data)
    axis.plot([entry["gap"] for entry in ranker.trace_], marker=".", label=loss.replace("_", " "))
axis.set(xlabel="iteration", ylabel="relative duality gap", yscale="log")
axis.legend()

# %%
# Features in other units, with a C that compensates for them, are the same problem. So certificate, iterations and
# ranking are the same.

for scale in (1.0, 2.0**-13):
    ranker = hr.RankSVM(C=0.01 / scale**2).fit(scale * data.X, data.y, data.qid)
    ndcg = hr.evaluate(data.y, ranker.predict(scale * data.X), data.qid, "ndcg@10")["ndcg@10"]
    print(
        f"features times {scale:.1e}: gap {ranker.certificate_.value:.2e}, {ranker.n_iter_} iterations, NDCG {ndcg:.4f}"
    )

# %%
# With a small C the optimum is barely below the objective at weights of 0. Relative to the objective alone, weights of
# 0 would count as converged. Relative to what there is to gain, they do not.

ranker = hr.RankSVM(C=1e-12).fit(data)
ndcg = hr.evaluate(data.y, ranker.predict(data.X), data.qid, "ndcg@10")["ndcg@10"]
print(f"gain {1 - ranker.objective_ / (1e-12 * ranker.n_pairs_):.1e} of the objective at 0, NDCG {ndcg:.4f}")
plt.show()
