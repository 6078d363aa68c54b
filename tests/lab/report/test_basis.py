"""The picture of basic ranking functions."""

import numpy as np
import pytest

from hingerank.personal.factorized import PersonalRankSVM

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def ranker():
    rng = np.random.default_rng(0)
    X = (rng.random((60, 30)) < 0.2).astype(float)
    users, items = np.repeat(np.arange(20), 15), np.concatenate([rng.choice(60, 15, replace=False) for _ in range(20)])
    return PersonalRankSVM(rank=3, C=0.5).fit(X, users, items, rng.integers(1, 6, 300))


def test_words_are_sized_by_weight(ranker, tmp_path):
    from hingerank.lab.report.figures import plot_basis

    names = [f"word{j}" for j in range(30)]
    figure = plot_basis(ranker, names, functions=(0, 2), top=8, file=tmp_path / "basis.png")
    assert (tmp_path / "basis.png").stat().st_size > 1000 and len(figure.axes) == 4
    table = ranker.basis_table(names, 8)
    shown = {text.get_text(): text.get_fontsize() for text in figure.axes[0].texts}
    liked = dict(table[0]["positive"])
    assert shown and set(shown) <= set(liked)
    order = sorted(shown, key=lambda word: -liked[word])
    assert [shown[word] for word in order] == sorted(shown.values(), reverse=True)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[0] == "function 1, positive" and titles[3] == "function 3, negative"


def test_words_stay_inside_their_panel(ranker):
    from hingerank.lab.report.figures import plot_basis

    figure = plot_basis(ranker, [f"a rather long name {j}" for j in range(30)], functions=(0,), top=30)
    for axes in figure.axes:
        box = axes.get_window_extent()
        for text in axes.texts:
            extent = text.get_window_extent()
            assert extent.y0 >= box.y0 - 1 and extent.x1 <= box.x1 + 1
