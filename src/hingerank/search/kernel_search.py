"""`search_kernel`: gamma and C of one kernel ranker, chosen on validation data."""

from collections.abc import Iterable
from dataclasses import dataclass

from sklearn.base import clone

from hingerank.arrays import Ranker
from hingerank.features.kernels import choose_gamma
from hingerank.rankers.own import fit_rows
from hingerank.search.folds import QueryFolds
from hingerank.search.settings import Setting, Staged, listed
from hingerank.search.tuning import Plan, Study

CS = tuple(2.0**k for k in range(-14, 3, 2))
WIDTHS = tuple(4.0**k for k in range(-4, 2))  # multiples of gamma="scale"


@dataclass(frozen=True)
class KernelSearch:
    """The result of ``search_kernel``.

    Attributes
    ----------
    best : the fitted ranker with the largest value
    table : one dict of gamma, C, value and seconds for every fit
    """

    best: Ranker
    table: list[Setting]


def search_kernel(
    ranker: Ranker, train: object, validation: object, *, Cs: Iterable[float] = CS,
    gammas: Iterable[float | str] | None = None, measure: str = "ndcg@10",
) -> KernelSearch:  # fmt: skip
    """argmax over gamma and C of measure(validation), for KernelRankSVM, NystroemRankSVM or FourierRankSVM.

    For every gamma the rows are mapped (or the kernel matrix is computed) once, and C follows a warm-started path from
    small to large. Validation rows are also mapped once for all values of C. Ties go to the smaller C.
    (`hingerank.tune` does this over folds, and also tries scalings.)

    Parameters
    ----------
    ranker : with the other parameters set
    train, validation : RankingData
    Cs : values of C
    gammas : numbers or rules such as "4*scale"; by default 4^-4, ..., 4 times the gamma of "scale" for the scaled rows
    measure : what to maximise

    Examples
    --------
    >>> from hingerank import FourierRankSVM
    >>> from hingerank.data.generate import make_letor
    >>> train, validation = make_letor(20, seed=0), make_letor(10, seed=1)
    >>> found = search_kernel(FourierRankSVM(50), train, validation, Cs=[0.01, 1.0], gammas=[0.1, 0.5])
    >>> len(found.table), found.best.gamma in (0.1, 0.5)
    (4, True)
    """
    if gammas is None:
        scale = choose_gamma("scale", clone(ranker)._learning_rows(train, None, None, None, None).X)
        gammas = [scale * width for width in WIDTHS]
    grid = {"gamma": listed("gammas", gammas), "C": sorted({float(C) for C in listed("Cs", Cs)})}
    plan = Plan(QueryFolds(train, measure, validation, tol_factor=1.0))
    study = Study(type(ranker).__name__, ranker, plan, Staged([grid], widen=False))
    study.run()
    if not study.fitted():
        raise ValueError(f"no combination of gamma and C could be fitted; the first error is: {study.problem}")
    table = [t.setting | {"value": t.mean, "seconds": t.seconds} for t in study.trials.values()]
    return KernelSearch(fit_rows(clone(ranker).set_params(**study.best().setting), train), table)
