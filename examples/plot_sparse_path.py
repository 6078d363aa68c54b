"""
Few features: a sparse path
===========================

Here 188 of two hundred features are useless, and there are few queries to learn from. ``FenchelRank`` keeps the weights
inside a ball of the l1 norm. A small radius keeps few features. Along a path of radii they enter one by one.
"""

import matplotlib.pyplot as plt

import hingerank as hr
from hingerank.lab.report.figures import plot_path
from hingerank.rankers.sparse import choose_on_validation

data = hr.make_letor(n_queries=100, rows_per_query=15, n_features=200, useless=188, seed=1)
train, rest = data.split(test_size=0.6, seed=0)
validation, test = rest.split(test_size=0.5, seed=0)

# %%
# One fit for every radius, each started from the one before.

radii = [0.1 * 1.25**k for k in range(24)]
path = hr.FenchelRank(scale="minmax").fit_path(train, radii=radii)
print(f"{len(path)} fits in {sum(r.certificate_.seconds for r in path):.2f} s")

# %%
# Validation queries choose the radius.

best, values = choose_on_validation(path, validation)
dense, _ = choose_on_validation(hr.RankSVM(scale="minmax").fit_path(train, Cs=[0.001, 0.01, 0.1, 1]), validation)
print(f"radius {best.radius:.2f} keeps {len(best.selected_features_)} of 200 features")
print(f"NDCG@10 on test: {best.score(test):.4f} sparse, {dense.score(test):.4f} dense")
print(best.feature_table()[:3])

# %%
# The weights along the path, and the validation measure at each point.

plot_path(path, validation, figure=plt.figure(figsize=(6.4, 6), layout="constrained"))
