"""Blend: a weighted sum of the scores of several rankers, whose scales and weights come from out-of-fold scores."""

import inspect
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Matrix, PerRow, RowsLike
from hingerank.data.blocks import blocks_from_qid
from hingerank.data.checks import one_of, positive, whole
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView
from hingerank.export.attributes import Array, Attribute, Of
from hingerank.features.curves import Curves, place_knots
from hingerank.metrics import parse_measure
from hingerank.metrics.places import parse_place_measure
from hingerank.preferences import GradedPreferences, WeightedWinners
from hingerank.rankers.additive import AdditiveRankSVM
from hingerank.rankers.base import BaseRanker, TrainingRows
from hingerank.rankers.blending import Blending, OutOfFold, blend_scores, deal_queries
from hingerank.rankers.corrections import ClickData, Propensities, click_weights, refuse_parts
from hingerank.rankers.explanation import Contributions
from hingerank.rankers.inputs import check_features, grades_and_ids, names_of_features
from hingerank.rankers.linear import RankSVM
from hingerank.rankers.own import fit_rows, predicted
from hingerank.rankers.shapes import ShapeSample
from hingerank.rankers.sources import MAPPED, MEMORY
from hingerank.rankers.winners import Centre, check_winners
from hingerank.registry import names_of_rankers, ranker_class, registered_name
from hingerank.solvers.run import Certificate

EXACT = "exact: the weighted sum of the members' contributions"
NOT_EXACT = "the weighted sum of the members' contributions, some of them by the gradient of the score"


@dataclass(eq=False, repr=False)
class Blend(BaseRanker):
    """score(x) = Σ_k a_k f_k(x) / σ_k:  a weighted sum of the scores of several rankers f_k, its members.

    σ_k is the standard deviation within queries of member k's out-of-fold scores: the queries are split into folds, and
    each fold is scored by a copy of the member fitted on the other folds. Then every member is fitted on all rows.

    Parameters
    ----------
    members : list of rankers, or of their names, such as ``["rank-svm", "additive-rank-svm", "lightgbm"]``
        None: RankSVM on features divided by their standard deviations, and AdditiveRankSVM. Blends work best if the
        members make different errors.
    weights : "equal", "stack" or "auto"
        "equal": a_k = 1 / K. "stack": min over a ≥ 0 of ½‖a − ā1‖² + C Σ loss over the out-of-fold scores, with a
        certificate. It helps if one member is far behind, and overfits if there are few queries. "auto": between the
        two, (1 - p) · equal + p · stack, p the probability that the stack is better, by the mean and the standard error
        of the difference of their measures of out-of-fold queries.
    folds : number of parts of the queries, each scored by members that were not fitted on it
    measure : used for ``out_of_fold_`` and for the choice of "auto"
    tol : tolerance of the stack's fit, as in RankSVM
    random_state : seed of the folds

    Attributes
    ----------
    members_ : the fitted members
    weights_ : a, which add up to 1
    scales_ : σ
    out_of_fold_ : the measure of out-of-fold scores and its standard error, for each member, for equal weights, for the
        stack and for "mixed" weights between them; the "kind" of the weights; the "difference" of the stack from equal
        weights, with its error; the stack's "share" in the weights
    certificate_ : how near the optimum the stack is; without a stack the measure of the out-of-fold scores
    trace_ : trace of the stack
    n_iter_, n_pairs_ : numbers of iterations and of preference pairs

    Notes
    -----
    Folds do not depend on the order of the queries. Data of a single query have no folds: members are then scaled by
    their scores of the training rows and get equal weights. Row weights are used in fits and in scales if the members
    take them; measures ignore them. Rows of a memory-mapped folder stay on disk if the members read them from there.
    Data in parts cannot be blended, because the out-of-fold scores of all rows are needed in one place.

    Examples
    --------
    >>> from hingerank import make_letor
    >>> data = make_letor(30, seed=0)
    >>> blend = Blend(["rank-svm", "additive-rank-svm"]).fit(data)
    >>> blend.weights_.tolist(), blend.score(data) > 0.5
    ([0.5, 0.5], True)
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "members_": Of(BaseRanker, listed=True),
        "weights_": Array("members", low=0.0, least=1),
        "scales_": Array("members"),
        "out_of_fold_": Of(dict, needed=False),
    }

    members: Sequence[object] | None = None
    weights: str = "equal"
    _: KW_ONLY
    folds: int = 5
    measure: str = "ndcg@10"
    tol: float = 1e-3
    random_state: int = 0

    # Members

    def _made(self) -> list[BaseRanker]:
        """Unfitted members."""
        if self.members is None:
            return [RankSVM(scale="deviation"), AdditiveRankSVM()]
        if isinstance(self.members, str | BaseRanker) or not isinstance(self.members, Sequence) or not self.members:
            raise ValueError(
                f"members must be a list of rankers or of their names, such as ['rank-svm', 'lightgbm'], not "
                f"{self.members!r}"
            )
        found = [ranker_class(registered_name(m))() if isinstance(m, str) else m for m in self.members]
        for member in found:
            if not isinstance(member, BaseRanker):
                raise ValueError(f"{type(member).__name__} does not score graded rows of queries: it cannot be blended")
        return [clone(member) for member in found]

    def _known(self) -> list[BaseRanker]:
        """Unfitted members; none if the parameter is invalid."""
        try:
            return self._made()
        except (ValueError, TypeError):
            return []

    @property
    def _farthest(self):  # type: ignore[override]
        members = self.__dict__.get("members_") or self._known()
        return MEMORY if any(member._farthest == MEMORY for member in members) else MAPPED

    @property
    def _bytes_a_row(self):  # type: ignore[override]
        members = self._made()
        return max(member._bytes_a_row for member in members) + 8 * (len(members) + 2)

    def __sklearn_tags__(self):
        tags, others = super().__sklearn_tags__(), [get_tags(member).input_tags for member in self._known()]
        tags.input_tags.allow_nan = bool(others) and all(each.allow_nan for each in others)
        tags.input_tags.sparse = all(each.sparse for each in others)
        return tags

    # Learning

    def _source(self, X, *given):
        """The rows, and their document ids, by which some measures break ties."""
        rows, docid = self._learning_rows(X, *given), X.docid if isinstance(X, RankingData) else None
        if docid is not None and rows.blocks.given is not None:
            docid = np.asarray(docid)[rows.blocks.given]
        return rows, docid

    def _learn_from(self, source):
        (rows, docid), began, members = source, time.perf_counter(), self._made()
        self._check_settings()
        for member in members:
            if rows.weight is not None and "sample_weight" not in inspect.signature(type(member).fit).parameters:
                raise ValueError(f"{type(member).__name__} takes no sample_weight: leave out weights or this member")
        self._fit_folds(rows, members, began, docid=docid)

    def _fit_folds(
        self, rows: TrainingRows, members: list[BaseRanker], began: float, *, lists: np.ndarray | None = None,
        docid: np.ndarray | None = None, around: Centre = None,
    ) -> None:  # fmt: skip
        """Score every fold by members fitted on the other folds, then fit every member to all rows.

        lists: of clicks, how often each query was shown.
        """
        X, y, blocks, weight = rows
        learn = partial(self._learn, clicked=lists is not None, around=around)
        folds = min(whole("folds", self.folds, 2), len(blocks))
        if folds >= 2:
            part = deal_queries(X, y, blocks.offsets, weight, folds, self.random_state)
            scores = np.stack([_held_out(member, rows, part[blocks.numbers], learn) for member in members], axis=1)
        elif self.weights == "stack":
            raise DataError("weights='stack' needs held-out queries, and the data have one query only")
        fitted = [learn(member, X, y, blocks.numbers, weight) for member in members]
        if folds < 2:
            part = np.zeros(len(blocks), np.int64)
            scores = np.stack([_scores(member, X, blocks.numbers) for member in fitted], axis=1)
        found = OutOfFold(scores, y, blocks.offsets, weight, part, lists, docid)
        self.n_pairs_ = found.preferences().n_pairs
        self._combine(fitted, found, began)

    def fit_clicks(
        self, data: ClickData, *, propensities: Propensities = None, correction: str = "ips",
        clip: float | None = None, around: Centre = None,
    ) -> Self:  # fmt: skip
        """Learn from clicks: every member does, and scales and weights come from clicks on out-of-fold queries.

        ``measure`` is then the value of a list, "dcg@10", "p@5" or "average-rank". Without grades there is no ideal
        list, so NDCG means DCG here. All members must have ``fit_clicks``; tree rankers do not have it.

        Parameters
        ----------
        data : ClickData, ``log.join(rows)``
        propensities, correction, clip, around : as in ``RankSVM.fit_clicks``; around applies to every member
        """
        began, members = time.perf_counter(), self._made()
        for member in members:
            check_winners(member)
        self._check_settings(clicked=True)
        refuse_parts(data, "a blend scores out-of-fold rows")
        weight = click_weights(data, propensities, correction, clip)
        rows = self._learning_rows(replace(data.data, y=weight), None, None, None, None)
        self._fit_folds(rows, members, began, lists=np.asarray(data.lists, np.float64), around=around)
        return self._finish()

    def fit_members(self, data: RankingData, found: OutOfFold, around: Centre = None) -> Blending:
        """Fit every member to all rows, given scores of rows by copies that have not learnt from them, as `tune` has
        them; the scales and weights taken. For clicks the data's grades are the weights of rows as winners."""
        began, members, clicked = time.perf_counter(), self._made(), found.lists is not None
        self._check_settings(clicked)
        X, y, blocks, _ = self._learning_rows(data, None, None, None, None)
        fitted = [self._learn(member, X, y, blocks.numbers, None, clicked, around) for member in members]
        self.n_pairs_ = (WeightedWinners if clicked else GradedPreferences)(y, blocks.offsets).n_pairs
        blending = self._combine(fitted, found, began)
        self._finish()
        return blending

    def _measure(self, clicked: bool) -> str:
        """What out-of-fold scores are measured by."""
        return re.sub("^ndcg", "dcg", self.measure) if clicked else self.measure

    def _check_settings(self, clicked: bool = False) -> None:
        one_of("weights", self.weights, "equal", "stack", "auto")
        (parse_place_measure if clicked else parse_measure)(self._measure(clicked))
        positive("tol", self.tol)

    def _learn(
        self, member: BaseRanker, X: Matrix, y: np.ndarray, qid: np.ndarray, weight: np.ndarray | None, clicked: bool,
        around: Centre,
    ) -> BaseRanker:  # fmt: skip
        names = getattr(self, "feature_names_in_", None)
        rows = RankingData(X, y, qid, feature_names=None if names is None else names.tolist())
        if clicked:
            return check_winners(member).fit_winners(rows, around=around)
        return fit_rows(member, rows, **{} if weight is None else {"sample_weight": weight})

    def _combine(self, fitted: list[BaseRanker], found: OutOfFold, began: float) -> Blending:
        """Keep the members with the scales and weights that their out-of-fold scores suggest."""
        names, alone = names_of_rankers(fitted), len(np.unique(found.part)) < 2
        measure = self._measure(found.lists is not None)
        blending = blend_scores(found, names, "equal" if alone else self.weights, measure, self.tol)
        self.members_, self.weights_, self.scales_ = fitted, blending.weights, blending.scales
        if not np.isfinite(self.scales_).all():
            raise DataError("the members' scores overflow: divide the features first (scale=... of the members)")
        said = {name: getattr(blending, name) for name in ("kind", "values", "difference", "share")}
        self.out_of_fold_ = {"measure": measure, **said}
        if blending.stack is not None:
            self.certificate_, self.trace_ = blending.stack.certificate, blending.stack.trace
        else:
            kind, value = f"{'training' if alone else 'out-of-fold'} {measure}", blending.values[blending.kind][0]
            steps = max(getattr(member, "n_iter_", 1) for member in fitted)
            seconds = time.perf_counter() - began
            self.certificate_, self.trace_ = Certificate(kind, value, 0.0, "trained", steps, seconds), []
        self.n_iter_ = max(1, self.certificate_.n_iter)
        return blending

    # Scores

    def _scores_of(self, X, qid):
        total = np.zeros(X.shape[0])
        for a, member in self._parts():
            total += a * _scores(member, X, qid)
        return total

    def _parts(self) -> list[tuple[float, BaseRanker]]:
        """What each member's score is multiplied by, and the member; without those of weight 0."""
        return [(float(a), m) for a, m in zip(self.weights_ / self.scales_, self.members_) if a != 0]

    def _explained(self, X, qid):
        parts, base, exact = np.zeros(X.shape), np.zeros(X.shape[0]), True
        scores = np.zeros(X.shape[0])
        for a, member in self._parts():
            found, own = member._explained(X, qid)
            parts, base, scores = parts + a * found.parts, base + a * found.base, scores + a * own
            exact = exact and found.exact
        return Contributions(parts, base, EXACT if exact else NOT_EXACT, exact), scores

    @property
    def _form_kind(self):  # type: ignore[override]
        parts = self._form_parts()
        return parts[0].kind if len(parts) == 1 else "sum"

    def _form_parts(self):
        from hingerank.export.sums import joined_parts

        return joined_parts([part for member in self._made() for part in member._form_parts()])

    def _form(self):
        from hingerank.export.sums import summed

        names = names_of_features(self, self.n_features_in_)
        return summed(names, [(a, member._form()) for a, member in self._parts()])

    def additive(self, X: RowsLike, qid: PerRow = None) -> AdditiveRankSVM:
        """Turn a blend of linear and additive models over the same columns into one AdditiveRankSVM, same ranking.

        Its scores differ from the blend's by a constant only. ``curves_`` and ``plot`` show the sum of all members.

        Parameters
        ----------
        X : rows used to weigh and centre the curves, usually the training rows of the blend
        qid : a query id per row, unless X brings them
        """
        from hingerank.export.forms import Affine
        from hingerank.export.sums import added_curves

        check_is_fitted(self)
        form = self._form().folded(always=True)
        plain = form.scaling is None and form.filled is None
        if not plain or form.kind not in ("linear", "curves"):
            raise ValueError(
                "this blend is not one sum of curves: its members must be linear or additive without interactions, of "
                "features that are not scaled or scaled by columns, without missing values"
            )
        _, qid = grades_and_ids(X, None, qid)
        rows = check_features(self, X, reset=False)
        rows = rows.copied("additive") if isinstance(rows, RowsView) else rows
        placed = place_knots(rows, 2)
        flat = Curves(placed.values, np.zeros(len(placed.values)), placed.starts, np.zeros(rows.shape[1]))
        body = added_curves([flat], form.body) if isinstance(form.body, Affine) else form.body.curves
        blocks = blocks_from_qid(qid, rows.shape[0])
        rows = blocks.gather(rows)  # as a ShapeSample has them: rows of a query together
        look = ShapeSample(np.arange(rows.shape[0]), rows, np.ones(rows.shape[0]), blocks.numbers)
        parts, one = body.parts(rows), AdditiveRankSVM()
        kept = ("n_features_in_", "feature_names_in_", "n_iter_", "n_pairs_", "certificate_", "trace_", "fingerprint_")
        one.__dict__.update({name: vars(self)[name] for name in kept if name in vars(self)})
        one.scaler_, one.validation_scores_, one.knot_weights_ = None, [], np.empty(0)
        one.knots_, one.knot_starts_, one.slopes_, one.rug_ = body.knots, body.starts, body.slopes, placed.rug
        one.heights_ = body.heights - np.repeat(look.mean(parts), np.diff(body.starts))
        one.deviations_ = look.deviation(parts)
        return one

    def _check_together(self, sizes):
        super()._check_together(sizes)
        if len(self.members_) != sizes["members"]:
            raise ValueError(f"members_ has {len(self.members_)} rankers, weights_ {sizes['members']}")
        if any(getattr(member, "n_features_in_", None) != sizes["features"] for member in self.members_):
            raise ValueError(f"members_ must all be fitted to the {sizes['features']} features")
        if not (self.scales_ > 0).all():
            raise ValueError("scales_ must be above 0")


def _held_out(member: BaseRanker, rows: TrainingRows, part: np.ndarray, learn: Callable[..., BaseRanker]) -> np.ndarray:
    """A member's score of every row, by a copy that has not learnt from the row's fold; part: every row's fold."""
    X, y, blocks, weight = rows
    scores, qid = np.empty(len(y)), blocks.numbers
    take = X.take if isinstance(X, RowsView) else X.__getitem__
    for k in range(int(part.max()) + 1):
        others, held = np.flatnonzero(part != k), np.flatnonzero(part == k)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit on all rows will warn
            copy = learn(
                clone(member), take(others), y[others], qid[others], None if weight is None else weight[others]
            )
        scores[held] = _scores(copy, take(held), qid[held])
    return scores


def _scores(member: BaseRanker, X: Matrix, qid: PerRow) -> np.ndarray:
    """A member's scores of checked rows, by `predict` if a user's class overrides it."""
    own = type(member).predict is not BaseRanker.predict
    return np.asarray(predicted(member, X, qid) if own else member._scores_of(X, qid), np.float64)
