"""What every ranker inherits: scikit-learn's conventions around one hook, `_fit`."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Facts, Given, Matrix, PerRow, Ranker, RowsLike
from hingerank.data.blocks import QueryBlocks, blocks_from_group, blocks_from_qid, fingerprint, kept_rows
from hingerank.data.checks import GIVE_IDS, warn, warn_one_query, whole
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView
from hingerank.data.scaling import Scaler
from hingerank.export.attributes import Array, Attribute, Filling, Ids, Number, Of, Size
from hingerank.export.model_file import SavedModel, derived, saved_attributes
from hingerank.rankers.explanation import SUMS, Contributions, Explained
from hingerank.rankers.inputs import (
    GivenRows,
    block_scores,
    check_features,
    check_grades,
    check_weight,
    evaluation_sets,
    finite_scores,
    gather_rows,
    grades_and_ids,
    names_of_features,
)
from hingerank.rankers.sources import MEMORY, RowsInParts, check_alone
from hingerank.rankers.tuned import Tuning
from hingerank.renaming import renamed
from hingerank.solvers.run import Certificate, Solution

if TYPE_CHECKING:
    from hingerank.export.forms import Body, Form, Outline

NO_CLICKS = (
    "it has no loss with weights for clicked rows. RankSVM, AdditiveRankSVM, KernelRankSVM, SparseRankSVM, RankNet, "
    "ListNet and others have one; or estimate grades from clicks by hingerank.judgments, and use fit"
)


class Absent:
    """A method that a class does not have: asking for it is an AttributeError that says why, so `hasattr` is False.

    Parameters
    ----------
    why : the reason, and what to use instead

    Examples
    --------
    >>> class Some:
    ...     fly = Absent("it has no wings: use walk")
    >>> hasattr(Some(), "fly")
    False
    >>> Some().fly
    Traceback (most recent call last):
    AttributeError: Some has no fly: it has no wings: use walk
    """

    def __init__(self, why: str) -> None:
        self.why = why

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self.name}: {self.why}")


class TrainingRows(NamedTuple):
    """Checked and scaled training rows in block order; `weight` is None if all weights are 1."""

    X: Matrix
    y: np.ndarray
    blocks: QueryBlocks
    weight: np.ndarray | None


class BaseRanker(Explained, SavedModel, BaseEstimator):
    """score(x) for ordering the rows of a query: higher comes first.

    A ranker defines ``_fit(X, y, blocks, sample_weight)`` and ``_scores(X)``; everything else is here. Rows reach
    ``_fit`` in block order (see hingerank.data.blocks), X as C-ordered float32/float64 or CSR with sorted indices, y as
    float64, sample_weight as float64 without zeros, or None.

    A constructor parameter ``scale`` ("query-minmax", "standard", ...; None for none) rescales the features: the scaler
    is fitted on the training rows, kept as ``scaler_``, applied by ``predict`` and stored in the model file. A
    constructor parameter ``missing`` says how missing values are treated before scaling; what it learns is kept as
    ``missing_`` and stored as well.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "n_features_in_": Size("features", also="columns"),
        "missing_": Filling(needed=False),
        "feature_names_in_": Ids("features", texts=True, needed=False),
        "n_iter_": Number(low=0, whole=True, needed=False),
        "n_pairs_": Number(low=0, whole=True, needed=False),
        "C_": Number(above=0, needed=False),
        "objective_": Number(finite=False, needed=False),
        "certificate_": Of(Certificate, needed=False),
        "trace_": Of(dict, listed=True, needed=False),
        "scaler_": Of(Scaler, none=True),
        "fingerprint_": Of(dict, needed=False),
        "validation_scores_": Of(float, listed=True, needed=False),
        "tuning_": Of(Tuning, needed=False),
    }

    fit_clicks: Any = Absent(NO_CLICKS)  # as long as a ranker does not define them
    fit_winners: Any = Absent(NO_CLICKS)

    _form_kind: str | None = None  # the kind of form (`hingerank.export.forms.KINDS`) that a fit has, if any
    _farthest = MEMORY  # where rows may lie that a fit learns from: MEMORY, MAPPED or PARTS (rankers/sources.py)

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """The names of the parameters; looked up once, because a search makes hundreds of copies."""
        return list(super()._get_param_names())

    def _fit(self, X: Matrix, y: np.ndarray, blocks: QueryBlocks, sample_weight: np.ndarray | None) -> None:
        """Learn from rows in block order."""
        raise NotImplementedError

    def _scores(self, X: Matrix) -> np.ndarray:
        """One score per row of checked, scaled features."""
        raise NotImplementedError

    def fit(
        self,
        X: RowsLike,
        y: PerRow = None,
        qid: PerRow = None,
        sample_weight: PerRow = None,
        *,
        group: PerRow = None,
        eval_set: Sequence[object] | None = None,
        eval_group: Iterable[PerRow] | None = None,
    ) -> Self:
        """Learn from graded rows.

        Parameters
        ----------
        X : RankingData (then y and qid come from it), array, CSR matrix or data frame
        y : a grade per row, any real number, higher is better
        qid : a query id per row, in any order and of any type
            A single id makes one query of all rows, and so does None, with a warning.
        sample_weight : a weight per row
            The weight of a pair is the product of its two rows' weights. So weight 2 equals giving the row twice, and
            weight 0 equals leaving it out. (The scalings "log", "quantile" and "query-standard", ``context``, ranks
            and ``gamma="median"`` count rows, whatever their weights.)
        group : rows per query in row order, instead of qid
        eval_set : list of (X, y) pairs or RankingData
            The fitted ranker is scored on them (mean NDCG@10, in ``validation_scores_``); they never change the fit.
        eval_group : rows per query for each pair of eval_set, or None
        """
        held = evaluation_sets(eval_set, eval_group)
        self._learn_from(self._source(X, y, qid, sample_weight, group))
        return self._finish(held)

    def _source(self, *given: Any) -> Any:
        """What to learn from: checked and scaled rows."""
        return self._learning_rows(*given)

    def _learn_from(self, source: Any) -> None:
        """Learn from what `_source` makes of rows as users give them."""
        self._fit(*source)

    def _finish(self, held: Sequence[GivenRows] = ()) -> Self:
        """Finish a fit: check the weights, prepare what predictions need, score the held-out sets."""
        if not np.isfinite(getattr(self, "coef_", 0.0)).all():
            raise DataError("the weights are not finite: squares of the features overflow; rescale them (scale=...)")
        for name in derived(type(self)):
            getattr(self, name)  # computed now, so that predict does not change the ranker
        self.fingerprint_["pairs"] = getattr(self, "n_pairs_", None)
        self.validation_scores_ = [self.score(*part) for part in held]
        return self

    def _learning_rows(self, X: RowsLike, y: PerRow, qid: PerRow, sample_weight: PerRow, group: PerRow) -> TrainingRows:
        """Check the input, record its columns and fingerprint, fit the scaler, and return the rows to learn from."""
        if isinstance(X, RowsInParts):
            raise ValueError(
                f"{type(self).__name__} does not learn from data in parts: its loss is no sum over queries, or it "
                "needs all rows at once; RankSVM, its relatives by the loss, AdditiveRankSVM, SparseRankSVM, "
                "FenchelRank, NystroemRankSVM and FourierRankSVM do"
            )
        y, qid = grades_and_ids(X, y, qid, group)
        checked = check_features(self, X, reset=True)
        n_rows = checked.shape[0]
        grades, weight = check_grades(self, y, n_rows), check_weight(sample_weight, n_rows)
        if isinstance(X, RankingData):
            blocks = X.blocks
        else:
            blocks = blocks_from_qid(qid, n_rows) if group is None else blocks_from_group(group, n_rows)
        if qid is None and group is None:
            warn_one_query(grades, GIVE_IDS)
        forget_fit(self)
        taken, blocks = kept_rows(blocks, weight)
        if isinstance(checked, RowsView) and self.context is not None:
            checked = checked.copied(f"context={self.context!r}")
        if taken is not None:
            grades, weight = grades[taken], None if weight is None else weight[taken]
            checked = checked.take(taken) if isinstance(checked, RowsView) else checked[taken]
        self.fingerprint_ = fingerprint(checked, grades, blocks)
        return TrainingRows(self._learnt_rows(checked, blocks, weight), grades, blocks, weight)

    def predict(self, X: RowsLike, qid: PerRow = None) -> np.ndarray:
        """One score per row of X, rows in the order given.

        Parameters
        ----------
        X : rows as in fit
        qid : a query id per row; needed only by a scaler that works per query
        """
        if isinstance(X, RowsInParts):
            check_is_fitted(self)
            check_alone(qid=qid)
            return X.predict(self)
        return self._predict(X, qid, one_query=False)

    def _predict(self, X: RowsLike, qid: PerRow, one_query: bool) -> np.ndarray:
        """Scores; one_query: as in `fit`, no qid means that all rows belong to one query."""
        if "validation_scores_" not in vars(self):  # which `_finish` sets at last
            check_is_fitted(self)
        _, qid = grades_and_ids(X, None, qid)
        checked = check_features(self, X, reset=False)
        if qid is None and one_query:
            qid = np.zeros(checked.shape[0], np.int64)
        return finite_scores(self._scores_of(checked, qid))

    def _scores_of(self, X: Matrix, qid: PerRow) -> np.ndarray:
        """Scores of checked rows, which are not scaled yet."""
        if isinstance(X, RowsView) and self.context is not None:
            X = X.copied(f"context={self.context!r}")
        return block_scores(self, X, qid) if isinstance(X, RowsView) else self._scores(self._scaled(X, qid))

    def rank(self, X: RowsLike, qid: PerRow = None, top: int | None = None) -> np.ndarray:
        """Row numbers, best first within each query, queries one after another in order of first appearance.

        The result is always one 1-D array, so it can index anything with one entry per row: ``docid[order]``,
        ``qid[order]``, ``frame.iloc[order]``. Rows with equal scores keep their order.

        Parameters
        ----------
        X : rows as in fit
        qid : a query id per row; None if all rows belong to one query
        top : keep at most this many rows per query
        """
        if top is not None:
            whole("top", top)
        _, qid = grades_and_ids(X, None, qid)
        scores = self._predict(X, qid, one_query=True)
        blocks = blocks_from_qid(qid, len(scores))
        query = blocks.numbers
        order = np.lexsort((-blocks.gather(scores), query))
        if top is not None:
            order = order[np.arange(len(order)) - blocks.offsets[:-1][query] < top]
        return blocks.rows[order]

    def score(self, X: RowsLike, y: PerRow = None, qid: PerRow = None, sample_weight: PerRow = None) -> float:
        """Mean NDCG@10 over queries (`hingerank.evaluate`, default preset).

        Parameters
        ----------
        X, y, qid : rows as in fit
        sample_weight : a weight per row
            Rows of weight 0 are left out. The weight of a query is the mean weight of its rows.
        """
        from hingerank.metrics import evaluate

        if isinstance(X, RowsInParts):
            check_alone(y=y, qid=qid)
            if sample_weight is not None:
                raise ValueError("score takes no weights of data in parts: leave out sample_weight")
            return float(np.nanmean(X.evaluate([self], ["ndcg@10"])[0]["ndcg@10"]))
        y, qid = grades_and_ids(X, y, qid)
        known = self.__dict__.get("fingerprint_", {}).get("queries", 1)
        if qid is None and known > 1:
            raise ValueError(
                f"this ranker was fitted on {known:,} queries, but score got no query ids: without them it would take "
                f"all rows for one query and return a different number; {GIVE_IDS}"
            )
        scores = self._predict(X, qid, one_query=True)
        grades = check_grades(self, y, len(scores))
        if qid is None:
            warn_one_query(grades, GIVE_IDS)
        weight = check_weight(sample_weight, len(scores))
        rows, blocks = kept_rows(blocks_from_qid(qid, len(scores)), weight)
        if weight is not None:
            weight = np.add.reduceat(gather_rows(weight, rows), blocks.offsets[:-1]) / blocks.sizes
        grades, scores = gather_rows(grades, rows), gather_rows(scores, rows)
        return float(evaluate(grades, scores, blocks.numbers, "ndcg@10", sample_weight=weight)["ndcg@10"])

    def _body(self) -> "Body":
        """The score of scaled features in a plain form, for exports."""
        from hingerank.export.forms import ExportError

        raise ExportError(f"{type(self).__name__} has no form that another program could run")

    def _form_parts(self) -> "list[Outline]":
        """What export formats must support for these parameters: an `Outline` for every part of a sum."""
        from hingerank.export.forms import Outline, scaling_kind

        kind = None if self.context is not None else self._form_kind  # no format supports a context
        filled = {"error": "none", "zero": "zero"}.get(self.missing, "values")
        return [Outline.folded(kind, scaling_kind(self._scaling()), filled)]

    def _form(self) -> "Form":
        from hingerank.export.forms import ExportError, Form

        if self.context is not None:
            why = f"no format carries context={self.context!r}, which works within queries"
            raise ExportError(f"{why}; tune with serve=, as in serve='onnx', or set context=None")

        names = names_of_features(self, self.n_features_in_)
        scaling = None if self.scaler_ is None or self.scaler_.name == "none" else self.scaler_
        return Form(names, self._body(), scaling, self.missing_)

    def _state(self) -> Facts:
        state = super()._state()
        if "tuning_" in state:
            state["tuning_"] = state["tuning_"].to_dict()
        return state

    def _restore(self, state: Given) -> None:
        tuned = state.get("tuning_")
        super()._restore({**state, "tuning_": Tuning.from_dict(tuned)} if isinstance(tuned, dict) else state)

    def _check_together(self, sizes: Mapping[str, int]) -> None:
        scaler = self.scaler_
        if scaler is not None and scaler.n_features_in_ != sizes["columns"]:
            raise ValueError(f"scaler_ must be a scaler of the {sizes['columns']} features")

    def __sklearn_is_fitted__(self) -> bool:
        return "validation_scores_" in vars(self) or super().__sklearn_is_fitted__()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        tags.target_tags.required = True
        return tags


class UnweightedRanker(BaseRanker):
    """A ranker whose fit takes no sample_weight."""

    def fit(  # type: ignore[override]
        self,
        X: RowsLike,
        y: PerRow = None,
        qid: PerRow = None,
        *,
        group: PerRow = None,
        eval_set: Sequence[object] | None = None,
        eval_group: Iterable[PerRow] | None = None,
    ) -> Self:
        """As every ranker's fit, without sample_weight."""
        return super().fit(X, y, qid, group=group, eval_set=eval_set, eval_group=eval_group)


class LinearRanker(BaseRanker):
    """score(x) = ``coef_`` · x, with one weight per (scaled) feature."""

    _saved: ClassVar[Mapping[str, Attribute]] = {"coef_": Array("columns")}
    _form_kind = "linear"
    _sees_spreads = True
    coef_: np.ndarray

    def _scores(self, X: Matrix) -> np.ndarray:
        return X @ self.coef_.astype(X.dtype, copy=False)

    def _contributions(self, X, blocks):
        rows = X.toarray() if sparse.issparse(X) else X
        base = np.full(len(rows), float(getattr(self, "intercept_", 0.0)))
        return Contributions(rows * self.coef_, base, SUMS, True)

    def _body(self) -> "Body":
        from hingerank.export.forms import Affine

        return Affine(np.asarray(self.coef_, np.float64))

    def _names_of_weights(self, given: Sequence[str] | None) -> list[str]:
        return names_of_features(self, len(self.coef_), given)

    def linear_form(self) -> tuple[np.ndarray, float]:
        """(weights, intercept) in the input's units: score(x) = intercept + <weights, x>, as SHAP's explainers take it.

        ``coef_``, in contrast, belongs to scaled features. With `missing` the formula holds for rows without missing
        values. A ValueError is raised if the score is not a linear function of the features themselves.
        """
        from hingerank.export.forms import Affine

        check_is_fitted(self)
        form = self._form().folded(always=True)
        if not isinstance(form.body, Affine) or form.scaling is not None:
            raise ValueError(
                f"this {type(self).__name__} (scale={self.scale!r}) is not a linear function of the "
                "features themselves: use scale=None, 'standard', 'minmax', 'maxabs' or 'deviation', and no features="
            )
        return form.body.weights[: form.n_features], float(form.body.offset)

    @renamed
    def feature_table(self, feature_names: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """(feature, weight) pairs, largest absolute weight first; with a scaler these are weights of scaled features.

        With a feature map they are weights of its outputs.

        Parameters
        ----------
        feature_names : names of the features; default those seen in fit, else "f1", "f2", ... as in LETOR files
        """
        check_is_fitted(self)
        names = self._names_of_weights(feature_names)
        order = np.argsort(-np.abs(self.coef_), kind="stable")
        return [(names[j], float(self.coef_[j])) for j in order]


def forget_fit(ranker: Ranker) -> None:
    """Delete what an earlier fit has set, except number and names of the columns, which are checked first."""
    kept = {"n_features_in_", "feature_names_in_"}
    for name in {*saved_attributes(type(ranker)), *derived(type(ranker)), *ranker._here_only} - kept:
        ranker.__dict__.pop(name, None)


def keep_account(ranker: Ranker, solution: Solution, warned: bool = False) -> None:
    """Store the solver's account of its solution; a warning if it misses the tolerance and no other said why."""
    ranker.objective_, ranker.certificate_, ranker.trace_ = float(solution.value), solution.certificate, solution.trace
    ranker.n_iter_ = max(1, solution.certificate.n_iter)
    if not warned:
        warn_not_converged(solution.certificate)


def warn_not_converged(certificate: Certificate) -> None:
    """A ConvergenceWarning that says how far the fit got and what to do, unless it ended as it should."""
    if certificate.status in ("converged", "validation"):
        return
    rescale = "rescale the features (scale=...)"
    remedies = {"max_seconds": "raise max_seconds"} | dict.fromkeys(("stalled", "overflow", "rounding"), rescale)
    remedy = remedies.get(certificate.status, "raise max_iter") + ", lower C or accept a larger tol"
    warn(
        f"stopped after {certificate.n_iter} iterations and {certificate.seconds:.2f} s ({certificate.status}) with "
        f"{certificate.kind} {certificate.value:.3g} above the tolerance {certificate.tolerance:.3g}: {remedy}",
        ConvergenceWarning,
    )


def path_counts(name: str, values: Iterable[int]) -> list[int]:
    """The whole numbers of a path over the parameter `name`. No number, or a plain one, is a ValueError."""
    wanted = [whole(name, value) for value in values] if isinstance(values, Iterable) else []
    if not wanted:
        came = "empty" if isinstance(values, Iterable) else repr(values)
        raise ValueError(f"{name} is {came}: give several numbers, such as [10, 30, 100]")
    return wanted


def take_over(leader: Ranker, ranker: Ranker) -> Ranker:
    """Give a ranker everything that the leader's fit has set; its own parameters stay."""
    parameters = leader.get_params()
    ranker.__dict__.update({name: state for name, state in leader.__dict__.items() if name not in parameters})
    return ranker
