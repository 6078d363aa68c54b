"""Rankers with a low-rank matrix of dual multipliers for each query (Xu et al. 2019)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from hingerank.data.checks import positive, whole
from hingerank.export.attributes import Array, Attribute, Ids, Number
from hingerank.losses import LOSSES, make_loss, no_loss
from hingerank.preferences import GradedPreferences
from hingerank.problem import Problem
from hingerank.problem.design import RowsDesign
from hingerank.problem.multipliers import FactorizedDual, FactorizedPrimal, RegularizedDual
from hingerank.rankers.base import BaseRanker, LinearRanker, UnweightedRanker, keep_account
from hingerank.rankers.multiplier_blocks import HasMultipliers, MultiplierBlock, of_pairs
from hingerank.rankers.problem_ranker import chosen_C
from hingerank.rankers.rank_parameter import RankParameter
from hingerank.solvers.lbfgs import lbfgs
from hingerank.solvers.multipliers import (
    affordable,
    factor_descent,
    factor_newton,
    factor_steps,
    multiplier_steps,
    shrinkage,
)
from hingerank.solvers.run import Solution


class FactorizedRankSVM(HasMultipliers, UnweightedRanker, LinearRanker):
    """min over V of  ½‖sum over pairs of <v_i, v_j>(x_i - x_j)‖² - sum over pairs of <v_i, v_j>,   0 ≤ v_ik ≤ √(C/K).

    The dual of the hinge RankSVM with its multipliers forced to rank K in every query. The box implies 0 ≤ a_ij ≤ C and
    is stricter, so the objective is never below the dual RankSVM's. Not convex: the result depends on the start.

    Parameters
    ----------
    rank : K, numbers per row
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    tol : stop when the projected gradient's norm is at most tol times that of the second sum alone
    max_iter : epochs, each one projected gradient step for every query, in random order
        Steps adapt: one that would raise the objective is halved, so it never diverges. If they are not enough, as for
        a large C, up to max_iter Gauss-Newton steps over all queries follow (with up to 400 features).
    n_starts : number of random starts; the one with the lowest objective is kept
    form : "dual", as above, or "primal"
        The latter is min over V of ½‖w(V)‖² + C sum of hinges of the factorised model
        w(V) = sum <v_i, v_j>(x_i - x_j), the form first presented (Zhang et al. 2015), by L-BFGS with the hinge's kink
        rounded over 1e-3. There is no box on V then, and multipliers may be negative.
    loss : "hinge", or with form="primal" any loss of pairs, as in RankSVM: "squared_hinge", "logistic", ...
        Xu et al. (2019, section 5.3) leave losses other than the hinge to future work.
    validation : RankingData on which to choose the epoch (dual form)
        The epoch with the best mean NDCG@10 there is kept.
    patience : stop after this many epochs without a better one on validation
    solver : "adaptive", as above, or "paper": Algorithm 1 as printed (dual form)
        From factors in the whole box, exactly max_iter epochs of steps of one length, converged or not.
    learning_rate : the length of the paper's steps, its η
    random_state : seed of the starts and of the order of queries
    scale, missing : as in RankSVM

    Attributes
    ----------
    factors_ : V, one row per training row
    ranks_ : rank of every query's multipliers
    certificate_ : how near a stationary point the factors are
    trace_ : one entry per epoch
    n_iter_ : number of epochs
    objective_, coef_, n_pairs_, C_ : as in RankSVM

    Examples
    --------
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0, 1, 2]
    >>> FactorizedRankSVM(rank=2, C=1.0, random_state=0).fit(X, y, qid=0).rank(X).tolist()
    [2, 1, 0]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "objective_": Number(finite=False),
        "C_": Number(above=0, needed=False),  # version 0.2 had none
        "factors_": Array("rows, rank"),
        "grades_": Array("rows"),
        "rows_": Array("rows", "i", low=0),
        "queries_": Ids("queries"),
        "offsets_": Array("queries+1", "i", low=0),
    }
    _training_only = ("validation",)
    rank = RankParameter()
    _order = BaseRanker.rank

    def __init__(
        self, rank=5, C=1.0, *, tol=1e-3, max_iter=500, n_starts=1, form="dual", loss="hinge", validation=None,
        patience=20, solver="adaptive", learning_rate=0.01, random_state=0, scale=None, missing="error",
    ):  # fmt: skip
        self.rank = rank
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.n_starts = n_starts
        self.form = form
        self.loss = loss
        self.validation = validation
        self.patience = patience
        self.solver = solver
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.scale = scale
        self.missing = missing

    def _fit(self, X, y, blocks, sample_weight):
        if self.form not in ("dual", "primal"):
            raise ValueError(f"form must be 'dual' or 'primal', not {self.form!r}")
        if self.solver not in ("adaptive", "paper"):
            raise ValueError(f"solver must be 'adaptive' or 'paper', not {self.solver!r}")
        if self.solver == "paper" and (self.form != "dual" or self.validation is not None):
            raise ValueError("solver='paper' needs form='dual' and ends after max_iter epochs: leave out validation")
        if self.loss not in LOSSES:
            raise ValueError(no_loss(str(self.loss), LOSSES))
        if self.loss != "hinge" and self.form == "dual":
            raise ValueError(f"form='dual' needs loss='hinge': for loss={self.loss!r} give form='primal'")
        preferences, design, loss = GradedPreferences(y, blocks.offsets), RowsDesign(X), make_loss(self.loss)
        self.C_ = chosen_C(self.C, Problem(design, loss, preferences))
        problem = (
            FactorizedDual(design, preferences, self.rank, self.C_)
            if self.form == "dual"
            else FactorizedPrimal(design, preferences, self.rank, self.C_, loss)
        )
        rng = np.random.default_rng(self.random_state)
        solution = min((self._descend(problem, rng) for _ in range(self.n_starts)), key=lambda found: found.value)
        self.factors_ = np.empty((len(y), problem.rank))
        self.factors_[preferences.row_at] = solution.extra["V"].T
        self.grades_, self.offsets_, self.queries_ = y, blocks.offsets, blocks.ids
        self.rows_ = np.arange(len(y)) if blocks.given is None else blocks.given
        self.coef_, self.n_pairs_ = solution.w, preferences.n_pairs
        keep_account(self, solution)

    def _descend(self, problem: FactorizedDual | FactorizedPrimal, rng: np.random.Generator) -> Solution:
        """From one random start."""
        limits = {"tol": self.tol, "max_iter": self.max_iter}
        if isinstance(problem, FactorizedPrimal):
            V = problem.start(rng)
            found = lbfgs(problem.at, V.ravel(), measure=problem.flatness, **limits)
            V = found.w.reshape(V.shape)
            return replace(found, w=problem.weights(V)[0], extra={"V": V})
        if self.solver == "paper":
            return factor_steps(problem, rng, step=positive("learning_rate", self.learning_rate), **limits)
        validate = None if self.validation is None else self._validation_score
        found = factor_descent(problem, problem.start(rng), rng, validate=validate, patience=self.patience, **limits)
        hard = found.certificate.status == "max_iter" and validate is None and affordable(problem)
        return factor_newton(problem, found.extra["V"], before=found, **limits) if hard else found

    def _validation_score(self, w: np.ndarray) -> float:
        self.coef_ = w
        return self.score(self.validation)

    @property
    def ranks_(self) -> np.ndarray:
        """Rank of every query's V Vᵀ, at most K. (With more than two grades only part of V Vᵀ is multipliers, and the
        matrix with zeros elsewhere, as in `multiplier_blocks`, can have rank up to K times the grades less one.)"""
        blocks = (self.factors_[lo:hi] for lo, hi in zip(self.offsets_[:-1], self.offsets_[1:]))
        return np.array([np.linalg.matrix_rank(V) if len(V) else 0 for V in blocks])

    def multiplier(self, i: int, j: int) -> float:
        """a_ij for two training rows, numbered as they were given to fit; 0 where i is not preferred to j."""
        place = {int(row): k for k, row in enumerate(self.rows_)}
        a, b = place[int(i)], place[int(j)]
        same = np.searchsorted(self.offsets_, [a, b], side="right")
        preferred = same[0] == same[1] and self.grades_[a] > self.grades_[b]
        return float(self.factors_[a] @ self.factors_[b]) if preferred else 0.0

    def multiplier_blocks(self) -> Iterator[MultiplierBlock]:
        for query, lo, hi in zip(self.queries_, self.offsets_[:-1], self.offsets_[1:]):
            y, V = self.grades_[lo:hi], self.factors_[lo:hi]
            win, lose = np.flatnonzero(y > y.min(initial=np.inf)), np.flatnonzero(y < y.max(initial=-np.inf))
            preferred = y[win][:, None] > y[lose][None, :]
            A = np.where(preferred, V[win] @ V[lose].T, 0.0)
            rows = self.rows_[lo:hi]
            yield MultiplierBlock(query, int(hi - lo), int(preferred.sum()), rows[win], rows[lose], A)


class RegularizedRankSVM(HasMultipliers, UnweightedRanker, LinearRanker):
    """min over a, A of  ½‖sum a_ij (x_i - x_j)‖² - sum a_ij + gamma · ‖A‖ (nuclear) + lam ‖P(a) - A‖²,   0 ≤ a_ij ≤ C.

    P(a) lays the multipliers out as one matrix per query, zero where there is no pair; A may be nonzero there, and is
    penalised there like anywhere else (Eq. 19 of the paper as written). Convex. Alternates two exact steps: A is
    P(a) with its singular values shrunk by gamma / (2 lam); and a is the best for that A, found not among the pairs but
    in w, where  a_ij = clip(A_ij + (1 - w·(x_i - x_j)) / (2 lam), 0, C)  and Newton's method needs few steps. That is
    proximal gradient descent in A, so it is accelerated like one (Nesterov's, with restart); the objective never rises.
    gamma = 0 is the dual of the hinge RankSVM. Needs memory for six numbers per pair.

    The squared hinge's dual has + sum a_ij² / (4C) in it and no upper bound on a_ij; all else is the same.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    gamma : weight of the nuclear norm
    lam : weight of the distance between a and A
    tol : stop when the objective is provably within tol times its size of the optimum
    max_iter : rounds
    loss : "hinge" or "squared_hinge"
    solver : "exact", as above, or "paper": Algorithm 2 as printed (the hinge)
        From multipliers in the whole box, exactly max_iter rounds of inner_iter gradient steps in a and one shrinkage.
    learning_rate : the length of the paper's steps, its η
    inner_iter : the paper's steps in a round, its T'
    random_state : seed of the paper's start
    scale, missing : as in RankSVM

    Attributes
    ----------
    multipliers_ : a, pairs in the order of ``pairs_``
    pairs_ : winner row and loser row of each pair
    ranks_ : rank of every query's A
    certificate_ : the duality gap
    trace_ : one entry per round
    n_iter_ : number of rounds
    objective_, coef_, n_pairs_, C_ : as in RankSVM

    Examples
    --------
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0, 1, 2]
    >>> RegularizedRankSVM(C=1.0, gamma=0.1, lam=1.0).fit(X, y, qid=0).rank(X).tolist()
    [2, 1, 0]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "objective_": Number(finite=False),
        "C_": Number(above=0, needed=False),  # version 0.2 had none
        **of_pairs(needed=True),
        "block_ranks_": Array("queries", "i", low=0),
    }

    def __init__(
        self, C=1.0, gamma=1.0, lam=1.0, *, tol=1e-3, max_iter=200, loss="hinge", solver="exact", learning_rate=0.01,
        inner_iter=10, random_state=0, scale=None, missing="error",
    ):  # fmt: skip
        self.C = C
        self.gamma = gamma
        self.lam = lam
        self.tol = tol
        self.max_iter = max_iter
        self.loss = loss
        self.solver = solver
        self.learning_rate = learning_rate
        self.inner_iter = inner_iter
        self.random_state = random_state
        self.scale = scale
        self.missing = missing

    def _fit(self, X, y, blocks, sample_weight):
        gamma, lam = positive("gamma", self.gamma, least=0), positive("lam", self.lam)
        preferences, design = GradedPreferences(y, blocks.offsets), RowsDesign(X)
        if self.loss not in ("hinge", "squared_hinge"):
            raise ValueError(f"loss of RegularizedRankSVM must be 'hinge' or 'squared_hinge', not {self.loss!r}")
        squared = self.loss == "squared_hinge"
        self.C_ = chosen_C(self.C, Problem(design, make_loss(self.loss), preferences))
        problem = RegularizedDual(design, preferences, self.C_, gamma, lam, squared=squared)
        if self.solver == "paper" and squared:
            raise ValueError("solver='paper' needs loss='hinge': leave it out for loss='squared_hinge'")
        if self.solver not in ("exact", "paper"):
            raise ValueError(f"solver must be 'exact' or 'paper', not {self.solver!r}")
        limits = {"tol": self.tol, "max_iter": self.max_iter}
        if self.solver == "paper":
            rate, inner = positive("learning_rate", self.learning_rate), whole("inner_iter", self.inner_iter)
            rng = np.random.default_rng(self.random_state)
            solution = multiplier_steps(problem, rng, step=rate, inner_iter=inner, **limits)
        else:
            solution = shrinkage(problem, **limits)
        self.coef_, self.n_pairs_ = solution.w, preferences.n_pairs
        self.block_ranks_, self.queries_, self.sizes_ = problem.ranks, blocks.ids, blocks.sizes
        winner, loser, self.multipliers_ = problem.listed()
        self.pairs_per_query_, rows = preferences.pairs_per_query, blocks.given
        self.pairs_ = np.stack([winner, loser] if rows is None else [rows[winner], rows[loser]], axis=1)
        keep_account(self, solution)

    @property
    def ranks_(self) -> np.ndarray:
        """Rank of every query's A, after the last shrinkage."""
        return self.block_ranks_
