"""AdditiveRankSVM on generated data: are known curves recovered, and what of products of features?

    python benchmarks/additive_curves.py [--figure docs/figures/additive-curves.svg] [--write FOLDER]

Curves: 12,000 rows in queries of 30, utility sin(2 x1) - |x2| + step(x3) + noise, cut into 5 grades. Grades say nothing
of the unit of scores, so curves are compared up to one factor. Interactions: utility x1 + 2 x3 x5 + noise; a sum of
curves cannot have the product; NDCG@10 on 50 further queries, the setting of each method chosen on 50 others.
--write keeps the table as additive-interactions.json there (docs/results).
"""

import argparse
from pathlib import Path

import numpy as np

import hingerank as hr
from measuring import keep_table

TRUTH = {
    "sin(2 x1)": lambda x: np.sin(2 * x),
    "-|x2|": lambda x: -np.abs(x),
    "step(x3)": lambda x: 1.0 * (x > 0.5),
    "0 · x4": lambda x: 0.0 * x,
}


def curves(figure: Path | None) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (12_000, len(TRUTH)))
    utility = sum(f(X[:, c]) for c, f in enumerate(TRUTH.values())) + 0.3 * rng.normal(size=len(X))
    y, qid = np.digitize(utility, np.quantile(utility, [0.4, 0.6, 0.8, 0.93])), np.arange(len(X)) // 30
    x = np.linspace(-1.95, 1.95, 300)
    wanted = np.stack([f(x) - f(x).mean() for f in TRUTH.values()])
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(11, 2.8), layout="constrained")
    axes = [drawn.add_subplot(1, len(TRUTH), c + 1) for c in range(len(TRUTH))]
    for axis, name, truth in zip(axes, TRUTH, wanted, strict=True):
        axis.plot(x, truth, color="black", linewidth=1, label="truth")
        axis.set(title=name, ylim=(-2, 1.5))
    for smoothness, color in ((0.1, "#2a78b5"), (100.0, "#c2554a")):
        ranker = hr.AdditiveRankSVM(20, C=0.1, smoothness=smoothness).fit(X, y, qid)
        found = np.stack([ranker._curves.at(c, x) for c in range(len(TRUTH))])
        found -= found.mean(axis=1, keepdims=True)
        found *= (found * wanted).sum() / (found**2).sum()
        errors = np.sqrt(((found - wanted) ** 2).mean(axis=1))
        print(f"smoothness {smoothness:g}: root mean square errors", errors.round(3).tolist())
        for axis, curve in zip(axes, found, strict=True):
            axis.plot(x, curve, color=color, label=f"smoothness {smoothness:g}")
    axes[0].legend(frameon=False, fontsize=7)
    if figure is not None:
        figure.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(figure, metadata={"Date": None})


def interactions() -> list[list[str]]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (9000, 6))
    utility = X[:, 0] + 2.0 * X[:, 2] * X[:, 4] + 0.2 * rng.normal(size=len(X))
    y, qid = np.digitize(utility, np.quantile(utility, [0.4, 0.6, 0.8, 0.93])), np.arange(len(X)) // 30
    train, choose, test = slice(0, 6000), slice(6000, 7500), slice(7500, 9000)
    Cs = [1e-3, 1e-2, 1e-1]
    methods = {
        "RankSVM": [hr.RankSVM(C=C) for C in Cs],
        "AdditiveRankSVM": [hr.AdditiveRankSVM(C=C, smoothness=s) for C in Cs for s in (0.1, 10)],
        "AdditiveRankSVM(interactions=1)": [
            hr.AdditiveRankSVM(C=C, smoothness=s, interactions=1) for C in Cs for s in (0.1, 10)
        ],
        "NystroemRankSVM": [hr.NystroemRankSVM(C=C, gamma=g) for C in Cs for g in ("scale", "4*scale")],
        "LightGBMRanker": [hr.LightGBMRanker(n_estimators=k, num_leaves=m) for k in (50, 100, 200) for m in (7, 31)],
    }
    rows = []
    for name, rankers in methods.items():
        fitted = [ranker.fit(X[train], y[train], qid[train]) for ranker in rankers]
        best = max(fitted, key=lambda ranker: ranker.score(X[choose], y[choose], qid[choose]))
        score = best.score(X[test], y[test], qid[test])
        found = f", pairs found {best.surface_pairs_.tolist()}" if "interactions" in name else ""
        print(f"{name:34} NDCG@10 {score:.4f}{found}")
        rows.append([f"`{name}`", f"{score:.4f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    curves(asked.figure)
    rows = interactions()
    if asked.write:
        command = "python benchmarks/additive_curves.py"
        keep_table(asked.write, "additive-interactions", command, ["ranker", "NDCG@10"], rows)


if __name__ == "__main__":
    main()
