"""
When a linear model is not enough: kernels
==========================================

Half of what makes a row good here is in products of two features, which no linear ranker can represent. An RBF kernel
can. A few hundred landmarks or Fourier features are nearly as good, at a fraction of the cost.
"""

import matplotlib.pyplot as plt

import hingerank as hr

data = hr.make_letor(n_queries=150, rows_per_query=40, n_features=10, signal="nonlinear", noise=0.3, seed=1)
train, rest = data.split(test_size=0.5, seed=0)
validation, test = rest.split(test_size=0.5, seed=0)

# %%
# Search C and gamma together. For every gamma the rows are mapped once, and C follows a path.

found = hr.search_kernel(hr.NystroemRankSVM(100), train, validation, Cs=[2.0**k for k in range(-10, 3, 2)])
C, gamma = found.best.C, found.best.gamma
print(f"{len(found.table)} fits; the best has C = {C:g} and gamma = {gamma:.3g}")

# %%
# More components come nearer to the exact kernel.

linear = max(hr.RankSVM().fit_path(train, Cs=[10.0**k for k in range(-5, 1)]), key=lambda r: r.score(validation))
exact = hr.KernelRankSVM(gamma=gamma, C=C).fit(train)
sizes = [10, 20, 50, 100, 200, 500]
makers = {
    "landmarks": hr.NystroemRankSVM,
    "Fourier": hr.FourierRankSVM,
    "Fourier, independent": lambda m, **o: hr.FourierRankSVM(m, orthogonal=False, **o),
}
curves = {name: [make(m, gamma=gamma, C=C).fit(train).score(test) for m in sizes] for name, make in makers.items()}

figure, axis = plt.subplots(layout="constrained")
for name, values in curves.items():
    axis.plot(sizes, values, marker="o", label=name)
axis.axhline(exact.score(test), color="black", label="exact kernel")
axis.axhline(linear.score(test), color="black", linestyle=":", label="linear")
axis.set(xscale="log", xlabel="components", ylabel="NDCG@10 on test queries")
axis.legend(frameon=False)

# %%
# The models hold landmarks or directions, not the training rows.

small = hr.NystroemRankSVM(50, gamma=gamma, C=C).fit(train)
print(f"exact: {len(exact.support_)} of {train.n_rows} rows; landmarks: {small.landmarks_.shape[0]}")
