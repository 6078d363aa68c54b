"""A loss of the user's own: what is missing or wrong is named, and what is right works in every ranker with a loss."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.losses import LIST_LOSSES, LOSSES, LossAt, PairLoss, check_loss, make_loss

SMOOTH = {name: make for name, make in {**LOSSES, **LIST_LOSSES}.items() if name != "hinge"}


class SquareRoot(PairLoss):
    """l(t) = √(1 + (1 - t)²) - 1 for t < 1, else 0; factors are for mistakes in slope and curvature."""

    name = "my_own"

    def __init__(self, slope=1.0, curvature=1.0):
        self.slope, self.curvature = slope, curvature

    def pointwise(self, t):
        gap = np.maximum(1.0 - t, 0.0)
        root = np.sqrt(1.0 + gap**2)
        return root - 1.0, -self.slope * gap / root, self.curvature * (t < 1) / root**3


class Squares:
    """½‖s‖², or what a mistake makes of it."""

    name, convex, by_query = "squares", True, True

    def __init__(self, **wrong):
        self.wrong = wrong

    def at(self, s, preferences):
        parts = {"value": 0.5 * float(s @ s), "gradient": s, "curvature": np.copy, "diagonal": np.ones(len(s))}
        return LossAt(**{**parts, **self.wrong})


class Mixed(Squares):
    """½ (sum of s)²: no sum over queries."""

    def at(self, s, preferences):
        total = np.full(len(s), s.sum())
        return LossAt(0.5 * float(s.sum()) ** 2, total, lambda v: np.full(len(v), v.sum()), np.ones(len(s)))


class Counted(Squares):
    """1: the gradient does not see that it is no sum over queries."""

    def at(self, s, preferences):
        return LossAt(1.0, np.zeros(len(s)), np.zeros_like, np.zeros(len(s)))


class Falling(Squares):
    """-½‖s‖²."""

    def at(self, s, preferences):
        return LossAt(-0.5 * float(s @ s), -s, np.negative, -np.ones(len(s)))


@pytest.mark.parametrize("name", SMOOTH)
def test_registered_losses_pass(name):
    check_loss(SMOOTH[name]())


@pytest.mark.parametrize(
    "loss, problem",
    [
        (SquareRoot(slope=-1.0), "my_own: gradient is .* where differences of the value give"),
        (SquareRoot(curvature=2.0), r"my_own: curvature\(v\) is .* where differences of the gradient give"),
        (Squares(diagonal=np.full(14, 2.0)), "squares: diagonal is 2 where"),
        (Squares(gradient=np.zeros(3)), r"gradient has shape \(3,\), expected 14 finite numbers"),
        (Squares(value=float("nan")), "value is nan, expected a finite number"),
        (Squares(value=None), "value is None"),
        (Mixed(), "by_query=True, but is no sum over queries"),
        (Counted(), "by_query=True, but is no sum over queries: .* add up to 3 and not to 1,"),
        (Falling(), "has convex=True, but"),
        (SquareRoot, "loss is the class SquareRoot: pass an object, SquareRoot()"),
        (object(), r"object has no name, a string; no convex.*no at\(s, preferences\)"),
    ],
)
def test_mistakes_are_found(loss, problem):
    with pytest.raises(ValueError, match=problem):
        check_loss(loss)


@pytest.mark.parametrize("ranker", [hr.RankSVM, hr.KernelRankSVM, hr.NystroemRankSVM, hr.AdditiveRankSVM])
def test_rankers_take_a_loss_object(ranker, tmp_path):
    """And find what they find with the same loss by its name; a saved model keeps the name alone."""
    data = hr.make_letor(n_queries=12, rows_per_query=8, n_features=4, seed=0)
    named, given = (ranker(loss=loss).fit(data) for loss in ("logistic", make_loss("logistic")))
    assert np.allclose(named.predict(data), given.predict(data))
    own = ranker(loss=SquareRoot()).fit(data)
    assert own.certificate_.status == "converged"
    loaded = hr.load(own.save(tmp_path / "model.safetensors"))
    assert loaded.loss == "my_own" and np.array_equal(loaded.predict(data), own.predict(data))
    with pytest.raises(ValueError, match="there is no loss 'my_own'"):
        loaded.fit(data)


def test_a_solver_that_cannot_minimise_it_is_refused():
    data = hr.make_letor(n_queries=4, rows_per_query=5, n_features=3, seed=0)
    with pytest.raises(ValueError, match=r"solver 'dual' does not minimise .*use one of: auto, newton"):
        hr.RankSVM(loss=SquareRoot(), solver="dual").fit(data)
    with pytest.raises(ValueError, match="loss must be a name such as 'squared_hinge' or a loss object"):
        hr.RankSVM(loss=3).fit(data)
