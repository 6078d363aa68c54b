"""The picture of docs/map.md: the losses of the five approaches, each drawn from the library's own code.

python benchmarks/field_map.py [--output docs/figures/field-map.svg]
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

import hingerank as hr
from hingerank.diversity.measures import parse_diversity_measure
from hingerank.losses import LIST_LOSSES, make_loss
from hingerank.losses.rankings import ExpectedNdcg
from hingerank.preferences import GradedPreferences

matplotlib.use("svg")
GRADES = np.array([2.0, 1.0, 0.0, 0.0])  # of the list whose first row moves
SCORES = np.array([0.0, 0.5, 0.0, -0.5])


def pointwise(axes) -> None:
    """A row of grade 1 of three, by its score: regression, and PRank's thresholds, one at 0.5 and one at 1.5."""
    s = np.linspace(-1, 3, 200)
    axes.plot(s, (1 - s) ** 2, label="regression")
    axes.plot(s, np.maximum(0, 0.5 - s) + np.maximum(0, s - 1.5), label="PRank")
    axes.set(title="pointwise", xlabel="score of a row of grade 1", ylim=(0, 3))


def pairwise(axes) -> None:
    """A pair, by how far the better row leads."""
    t = np.linspace(-2, 3, 300)
    for name in ("hinge", "squared_hinge", "logistic", "exponential", "fidelity"):
        axes.plot(t, make_loss(name).pointwise(t)[0], label=name.replace("_", " "))
    axes.set(title="pairwise", xlabel="lead of the better row", ylim=(0, 5))


def listwise(axes) -> None:
    """Four rows of grades 2, 1, 0, 0, by the score of the first; every loss less its least value, and of height 1."""
    preferences, moved = GradedPreferences(GRADES, np.array([0, 4])), np.linspace(-4, 5, 300)
    lists = [np.concatenate(([m], SCORES[1:])) for m in moved]
    losses = {"ListNet": make_loss("listnet"), "ListMLE": make_loss("listmle"), "RankCosine": LIST_LOSSES["cosine"]()}
    losses |= {"SVM-MAP": make_loss("average_precision"), "SoftRank": ExpectedNdcg()}
    for name, loss in losses.items():
        values = np.array([loss.at(s, preferences).value for s in lists])
        axes.plot(moved, (values - values.min()) / np.ptp(values), label=name)
    plain = np.array([1 - hr.evaluate(GRADES, s, np.zeros(4), "ndcg@4")["ndcg@4"] for s in lists])
    axes.plot(moved, plain / plain.max(), "k--", linewidth=1, label="1 - NDCG")
    axes.set(title="listwise", xlabel="score of the best row", ylim=(0, 1.05))


def diversified(axes) -> None:
    """Two documents say the same and a third something else: the second place, by the lead of the third."""
    measure, judgments = parse_diversity_measure("alpha-ndcg@20"), np.array([[1, 0], [1, 0], [0, 1]])
    right, wrong = (measure(judgments, np.array(order)) for order in ([0, 2, 1], [0, 1, 2]))
    t = np.linspace(-2, 3, 300)
    axes.plot(t, np.log1p(np.exp(-t)), label="R-LTR")
    axes.plot(t, np.maximum(0, (right - wrong) - t), label="StructSVM-div, PAMM")
    axes.plot(t, np.where(t < 0, right - wrong, 0.0), "k--", linewidth=1, label="lost α-NDCG")
    axes.set(title="diversified", xlabel="lead of what is new", ylim=(0, 2.5))


def personal(axes) -> None:
    """Two users want the opposite of the same two items: one function for both, and one for each."""
    t, loss = np.linspace(-2, 2, 300), make_loss("squared_hinge")
    first, second = loss.pointwise(t)[0], loss.pointwise(-t)[0]
    axes.plot(t, first, label="one user")
    axes.plot(t, second, label="another")
    axes.plot(t, first + second, "k--", linewidth=1, label="one function for both")
    axes.set(title="personal", xlabel="score of an item less that of another", ylim=(0, 6))


def main() -> None:
    from matplotlib import pyplot

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("docs/figures/field-map.svg"))
    asked = parser.parse_args()
    matplotlib.rcParams["svg.hashsalt"] = "hingerank"
    figure, places = pyplot.subplots(1, 5, figsize=(15, 3.2))
    for axes, draw in zip(places, (pointwise, pairwise, listwise, diversified, personal)):
        draw(axes)
        axes.legend(fontsize=7, frameon=False)
        axes.tick_params(labelsize=7)
    places[0].set_ylabel("loss")
    figure.tight_layout()
    figure.savefig(asked.output, metadata={"Date": None})
    print(asked.output)


if __name__ == "__main__":
    main()
