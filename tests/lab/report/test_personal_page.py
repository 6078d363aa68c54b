"""The page of a personal model: right numbers, and no text of the data taken as code."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.cli import main
from hingerank.lab.report.personal import personal_page, reasons_of, user_map
from hingerank.personal.catalogue import Catalogue

EVIL = "<script>alert(1)</script>&\"'"
VOID = {"meta", "circle", "br"}


class Checked(HTMLParser):
    """Every element is closed, in order; the texts."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.texts = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def read(page):
    checked = Checked()
    checked.feed(page)
    assert not checked.open and "script" not in checked.tags
    return "".join(checked.texts)


@pytest.fixture(scope="module")
def made():
    data = hr.make_personal(30, 40, 5, 2, kind="ratings", per_user=12, seed=1)
    users = np.array([f"{EVIL} {user}" for user in data.users], object)
    names = [f"{EVIL} feature {j}" for j in range(5)]
    catalogue = Catalogue(np.arange(40), data.item_features, names, np.array([f"{EVIL} item {i}" for i in range(40)]))
    return data, users, catalogue


@pytest.mark.parametrize(
    "ranker",
    [
        hr.PersonalRankSVM(rank=3),
        hr.PersonalRankSVM(rank=1, shared=True),
        hr.InductiveMatrixCompletion(rank=2),
        hr.JointRanker(),
        hr.SeparateRanker(),
        hr.MeanVarianceRanker(),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_every_ranker_has_a_page_and_nothing_in_it_is_code(made, ranker, kind):
    data, users, catalogue = made
    X = kind(data.item_features)
    ranker.fit(X, users, data.items, data.ratings)
    text = read(personal_page(ranker, Catalogue(catalogue.ids, X, catalogue.names, catalogue.titles), title=EVIL))
    assert EVIL in text and f"{EVIL} item" in text and f"{EVIL} feature" in text
    assert ("What it ranks by" in text) == (not isinstance(ranker, hr.SeparateRanker) or hasattr(ranker, "coef_"))
    assert ("Its users" in text) == (min(getattr(ranker, "user_weights_", np.zeros((1, 1))).shape) > 1)


def test_the_map_is_the_principal_components_and_its_axes_are_functions_of_features(made):
    data, users, _ = made
    ranker = hr.PersonalRankSVM(rank=3, shared=True).fit(data.item_features, users, data.items, data.ratings)
    points, axes, shares = user_map(ranker)
    V = ranker.user_weights_ - ranker.user_weights_.mean(axis=0)
    values = np.linalg.svd(V, compute_uv=False) ** 2
    np.testing.assert_allclose(shares, values[:2] / values.sum())
    np.testing.assert_allclose((points**2).sum(axis=0), values[:2])
    _, _, right = np.linalg.svd(V, full_matrices=False)
    np.testing.assert_allclose(np.abs(axes), np.abs(right[:2] @ ranker.basis_.T), atol=1e-10)


def test_reasons_add_up_to_what_sets_an_item_apart(made):
    data, users, catalogue = made
    X = data.item_features
    ranker = hr.PersonalRankSVM(rank=3, shared=True).fit(X, users, data.items, data.ratings)
    weights, rows = ranker._scores(np.eye(5), ranker._numbers(users[0], 5)), ranker._rows(X)
    said = reasons_of(rows[7], rows.mean(axis=0), weights, [f"f{j}" for j in range(5)], most=5)
    total = sum(float(number) for number in re.findall(r"f\d ([+-][\d.]+)<", said))
    scores = ranker.predict(users[0], X)
    assert total == pytest.approx(scores[7] - scores.mean(), abs=3e-3)
    assert "no red +0.500" in reasons_of(sp.csr_matrix([[0.0, 1.0]]), np.array([0.5, 1.0]), [-1.0, 3.0], ["red", "car"])
    page = personal_page(ranker, catalogue, users=[users[0]], exclude=(users[:1], [int(np.argmax(scores))]), top=3)
    best = [i for i in np.argsort(-scores, kind="stable") if i != np.argmax(scores)][:3]
    assert [int(i) for i in re.findall(r"item (\d+)</td>", page)] == best


def test_report_on_the_command_line(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data, _, _ = made
    ranker = hr.PersonalRankSVM(rank=2).fit(data.item_features, data.users, data.items, data.ratings)
    (tmp_path / "model").mkdir()
    ranker.save("model/", {"features": list("abcde")})
    Catalogue(np.arange(40), data.item_features, list("abcde")).save("model")
    assert main(["report", "model/", "--user", str(data.users[0])]) == 0
    text = read((tmp_path / "model" / "report.html").read_text())
    assert f"User {data.users[0]}" in text and capsys.readouterr().out.strip().endswith("report.html")
    assert main(["report", "model/", "--user", "nobody"]) != 0
    assert "there is no user 'nobody'" in capsys.readouterr().err
