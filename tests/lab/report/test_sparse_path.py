"""Pictures of sparse paths: the right curves, a file, and no global state."""

import numpy as np
import pytest

import hingerank as hr

pytest.importorskip("matplotlib")

from hingerank.lab.report.figures import plot_path


def test_a_path_shows_weights_choice_and_counts(tmp_path):
    rng = np.random.default_rng(0)
    X, qid = rng.random((200, 12)), np.repeat(np.arange(20), 10)
    y = np.clip(np.round(3 * X[:, 0] - 2 * X[:, 3] + 0.3 * rng.normal(size=200)), 0, 2)
    path = hr.FenchelRank().fit_path(X, y, qid, [4.0, 1.0, 0.5, 2.0])
    figure = plot_path(path, hr.RankingData(X, y, qid), file=tmp_path / "path.svg")
    top, below, count = figure.axes
    curves = {line.get_label(): line for line in top.get_lines() if not line.get_label().startswith("_")}
    np.testing.assert_array_equal(curves["f1"].get_xdata(), [0.5, 1, 2, 4])
    np.testing.assert_array_equal(curves["f1"].get_ydata(), [path[i].coef_[0] for i in (2, 1, 3, 0)])
    scores = [path[i].score(X, y, qid) for i in (2, 1, 3, 0)]
    np.testing.assert_allclose(below.get_lines()[0].get_ydata(), scores)
    counts = [len(path[i].selected_features_) for i in (2, 1, 3, 0)]
    np.testing.assert_array_equal(count.get_lines()[0].get_ydata(), counts)
    assert below.get_xlabel() == "radius" and "chosen on validation" in below.get_title()
    assert (tmp_path / "path.svg").read_text().startswith("<?xml") and len(list(tmp_path.iterdir())) == 1
    assert plot_path(hr.SparseRankSVM().fit_path(X, y, qid, 3)).axes[1].get_xlabel() == "C"
