"""Checks what users pass to a ranker and brings it to one form: block order, plain dtypes, sorted CSR."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite, check_array, column_or_1d, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from hingerank.data import blocks as checks
from hingerank.data.blocks import (
    QueryBlocks,
    blocks_from_group,
    blocks_from_qid,
    fingerprint,
    fingerprint_rows,  # noqa: F401  for the rankers
    kept_rows,
    plain_csr,
)
from hingerank.data.blocks import whole as positive_count  # noqa: F401
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.solvers.run import Certificate, Solution


def unpack(X: Any, y: Any = None, qid: Any = None, group: Any = None) -> tuple[Any, Any, Any]:
    """X, y, qid, where RankingData brings its own y and qid."""
    if group is not None and (qid is not None or isinstance(X, RankingData)):
        raise ValueError("give the queries once: either qid (an id per row) or group (rows per query), not both")
    if not isinstance(X, RankingData):
        return X, y, qid
    if (y is not None and y is not X.y) or (qid is not None and qid is not X.qid):
        raise ValueError("RankingData already holds y and qid; pass them separately only with a plain X")
    return X, X.y, X.qid


def check_features(ranker: Any, X: Any, *, reset: bool) -> Any:
    """X as C-ordered float32/float64 or sorted CSR; its columns are recorded (reset) or compared with those of fit.

    The ranker's scikit-learn tags say whether sparse matrices and NaN are welcome.
    """
    welcome = get_tags(ranker).input_tags
    options: dict[str, Any] = {
        "accept_sparse": "csr" if welcome.sparse else False,
        "dtype": [np.float64, np.float32],
        "order": "C",
        "ensure_all_finite": "allow-nan" if welcome.allow_nan else True,
    }
    if isinstance(X, RankingData) and X.feature_names is not None:
        checked = check_array(X.X, estimator=ranker, input_name="X", **options)
        _check_names(ranker, np.asarray([str(name) for name in X.feature_names], object), checked.shape[1], reset)
    else:
        checked = validate_data(ranker, X.X if isinstance(X, RankingData) else X, reset=reset, **options)
    return plain_csr(checked) if sparse.issparse(checked) else checked


def _check_names(ranker: Any, names: np.ndarray, n_features: int, reset: bool) -> None:
    """Record or compare the feature names of RankingData, as scikit-learn does for data frames."""
    if len(names) != n_features:
        raise DataError(f"there are {len(names)} feature names for {n_features} features")
    if reset:
        ranker.n_features_in_, ranker.feature_names_in_ = n_features, names
        return
    known = getattr(ranker, "feature_names_in_", None)
    if known is None:
        if n_features != ranker.n_features_in_:
            raise ValueError(f"X has {n_features} features, but the ranker was fitted with {ranker.n_features_in_}")
        warnings.warn("X has feature names, but the ranker was fitted without feature names", stacklevel=4)
        return
    missing, extra = set(known) - set(names), set(names) - set(known)
    if missing or extra:
        raise ValueError(
            "the features differ from those seen in fit"
            + (f"; missing: {_listed(missing)}" if missing else "")
            + (f"; not seen in fit: {_listed(extra)}" if extra else "")
        )
    if len(names) != len(known) or (names != known).any():
        first = int(np.flatnonzero(names != known)[0])
        raise ValueError(
            "the features are those seen in fit but in another order: put the columns in the order of "
            f"feature_names_in_ (column {first} is {names[first]!r} where {known[first]!r} was expected)"
        )


def _listed(names: set[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:10]) + (f" and {len(ordered) - 10} more" if len(ordered) > 10 else "")


def check_grades(ranker: Any, y: Any, n_rows: int) -> np.ndarray:
    """y as one finite float64 per row; scikit-learn's words for what is wrong, where it has some."""
    if y is None:
        raise ValueError(f"{type(ranker).__name__} requires y to be passed, but the target y is None")
    grades = column_or_1d(y, warn=True)
    assert_all_finite(grades, input_name="y", estimator_name=type(ranker).__name__)
    return checks.check_grades(grades, n_rows)


def check_weight(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """sample_weight as one finite non-negative float64 per row, or None."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({n_rows},): one weight per row")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    if n_rows and not weight.any():
        raise ValueError("all sample_weight are zero: no row is left to learn from or to score")
    return weight


def make_blocks(qid: Any, group: Any, n_rows: int) -> QueryBlocks:
    """Blocks from ids or from counts."""
    return blocks_from_qid(qid, n_rows) if group is None else blocks_from_group(group, n_rows)


def gather_rows(values: Any, rows: np.ndarray | None) -> Any:
    """`values[rows]`, or `values` itself when all rows stay as they are."""
    return values if rows is None else values[rows]


def names_of_features(ranker: Any, count: int, given: Sequence[str] | None = None) -> Sequence[str]:
    """The `count` names given, else those seen in fit, else "f1", "f2", ... as LETOR files count."""
    names = getattr(ranker, "feature_names_in_", [f"f{j + 1}" for j in range(count)]) if given is None else given
    if len(names) != count:
        raise ValueError(f"{len(names)} names were given for {count} features")
    return names


# What every ranker inherits: scikit-learn's conventions around one hook, `_fit`, and the model file.


class SavedModel:
    """`save(path)` for an estimator whose fitted state is plain: numbers, strings, arrays, lists and dicts of these.

    A class lists the attributes that `fit` sets in `_fitted` (those of its bases are added), and constructor
    parameters that only steer training, such as a callback, in `_training_only`: these are stored as None.
    State of another form goes through `_state` and `_restore`.
    """

    _fitted: tuple[str, ...] = ()
    _training_only: tuple[str, ...] = ()

    def save(self, path: Any, metadata: Mapping[str, Any] | None = None) -> str:
        """Write the fitted model to one file and return its path; read it back with `hingerank.load`.

        path: the file, or a folder (existing, or ending in a slash) that receives model.safetensors.
        metadata: anything of yours that JSON can hold, such as the data's name.
        """
        from hingerank.export.model_file import save

        return save(self, path, metadata)

    def _state(self) -> dict[str, Any]:
        """The fitted attributes by name."""
        return {name: getattr(self, name) for name in _fitted_names(type(self)) if hasattr(self, name)}

    def _account(self: Any, solution: Solution) -> None:
        """Keep what a solver says about its solution."""
        self.objective_, self.certificate_, self.trace_ = float(solution.value), solution.certificate, solution.trace
        self.n_iter_ = max(1, solution.certificate.n_iter)

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `_state` gave, checking it; a ValueError refuses it."""
        unknown = set(state) - set(_fitted_names(type(self)))
        if unknown:
            raise ValueError(f"{type(self).__name__} has no fitted attribute {', '.join(sorted(unknown))}")
        for name, value in state.items():
            setattr(self, name, value)


def _fitted_names(cls: type) -> list[str]:
    names = (name for base in reversed(cls.__mro__) for name in vars(base).get("_fitted", ()))
    return list(dict.fromkeys(names))


class BaseRanker(SavedModel, BaseEstimator):
    """score(x) for ordering the rows of a query: higher comes first.

    A ranker defines `_fit(X, y, blocks, sample_weight)` and `_scores(X)`; everything else is here. Rows reach `_fit` in
    block order (see hingerank.data.blocks), X as C-ordered float32/float64 or CSR with sorted indices, y as float64,
    sample_weight as float64 without zeros, or None.

    A constructor parameter `scale` ("query-minmax", "standard", ...; None for none) rescales the features: the scaler
    is fitted on the training rows, kept as `scaler_`, applied by `predict` and stored in the model file.
    """

    _fitted: tuple[str, ...] = (
        "n_features_in_",
        "feature_names_in_",
        "n_iter_",
        "n_pairs_",
        "certificate_",
        "trace_",
        "scaler_",
        "fingerprint_",
        "validation_scores_",
    )

    def _fit(self, X: Any, y: np.ndarray, blocks: QueryBlocks, sample_weight: np.ndarray | None) -> None:
        """Learn from rows in block order."""
        raise NotImplementedError

    def _scores(self, X: Any) -> np.ndarray:
        """One score per row of checked, scaled features."""
        raise NotImplementedError

    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        sample_weight: Any = None,
        *,
        group: Any = None,
        eval_set: Any = None,
        eval_group: Any = None,
    ) -> Any:
        """Learn from graded rows.

        X: RankingData (then y and qid come from it), an array, a CSR matrix or a data frame.
        y: a grade per row, any real number, higher is better.
        qid: a query id per row, in any order and of any type; None makes one query of all rows.
        sample_weight: a weight per row; a pair weighs the product of its two rows' weights, so weight 2 is the row
            given twice and weight 0 is the row left out (scaling looks at rows, not at their weights).
        group: rows per query in row order, instead of qid.
        eval_set: list of (X, y) pairs or RankingData on which the fitted ranker is scored (mean NDCG@10, in
            `validation_scores_`); they never change the fit. eval_group: for each pair its rows per query, or None.
        """
        given, (X, y, qid) = X, unpack(X, y, qid, group)
        checked = check_features(self, X, reset=True)
        n_rows = checked.shape[0]
        grades, weight = check_grades(self, y, n_rows), check_weight(sample_weight, n_rows)
        blocks = given.blocks if isinstance(given, RankingData) else make_blocks(qid, group, n_rows)
        rows, blocks = kept_rows(blocks, weight)
        self._source_rows = rows  # for rankers whose answer names training rows
        checked, grades = gather_rows(checked, rows), gather_rows(grades, rows)
        weight = None if weight is None else gather_rows(weight, rows)
        print_of_data = fingerprint(checked, grades, blocks)
        self.scaler_ = self._fitted_scaler(checked)
        if self.scaler_ is not None:
            checked = self.scaler_.transform(checked, blocks.numbers)
        self._fit(checked, grades, blocks, weight)
        if not np.isfinite(getattr(self, "coef_", 0.0)).all():
            raise DataError("the weights are not finite: squares of the features overflow; rescale them (scale=...)")
        self.fingerprint_ = print_of_data | {"pairs": getattr(self, "n_pairs_", None)}
        self.validation_scores_ = self._validate(eval_set, eval_group)
        return self

    def predict(self, X: Any, qid: Any = None) -> np.ndarray:
        """One score per row of X, rows in the order given; qid is needed only by a scaler that works per query."""
        return self._predict(X, qid, one_query=False)

    def _predict(self, X: Any, qid: Any, one_query: bool) -> np.ndarray:
        """Scores; one_query: as in `fit`, no qid means that all rows belong to one query."""
        check_is_fitted(self)
        X, _, qid = unpack(X, None, qid)
        checked = check_features(self, X, reset=False)
        if qid is None and one_query:
            qid = np.zeros(checked.shape[0], np.int64)
        return self._scores(self._scaled(checked, qid))

    def _scaled(self, X: Any, qid: Any) -> Any:
        scaler = getattr(self, "scaler_", None)
        if scaler is None:
            return X
        if qid is None and scaler.per_query:
            raise ValueError(
                f"this ranker scales features within each query (scale={getattr(self, 'scale', None)!r}), so predict "
                "needs qid: one query id per row (for the rows of a single query a list of zeros will do)"
            )
        return scaler.transform(X, qid)

    def rank(self, X: Any, qid: Any = None, top: int | None = None) -> np.ndarray:
        """Row numbers, best first within each query, queries one after another in order of first appearance.

        The answer is always one 1-D array, so that it indexes everything that has a row: ``docid[order]``,
        ``qid[order]``, ``frame.iloc[order]``. Equal scores keep their row order. qid=None: all rows are one query.
        top: at most that many rows per query.
        """
        if top is not None and (isinstance(top, bool) or int(top) != top or top < 1):
            raise ValueError(f"top must be a positive whole number or None, got {top!r}")
        _, _, qid = unpack(X, None, qid)
        scores = self._predict(X, qid, one_query=True)
        blocks = blocks_from_qid(qid, len(scores))
        query = blocks.numbers
        order = np.lexsort((-blocks.gather(scores), query))
        if top is not None:
            order = order[np.arange(len(order)) - blocks.offsets[:-1][query] < top]
        return order if blocks.order is None else blocks.order[order]

    def score(self, X: Any, y: Any = None, qid: Any = None, sample_weight: Any = None) -> float:
        """Mean NDCG@10 over queries (`hingerank.evaluate`, default preset).

        sample_weight: a weight per row; rows of weight 0 are left out, and a query counts with the mean weight of its
        rows.
        """
        from hingerank.metrics import evaluate

        _, y, qid = unpack(X, y, qid)
        scores = self._predict(X, qid, one_query=True)
        grades = check_grades(self, y, len(scores))
        weight = check_weight(sample_weight, len(scores))
        rows, blocks = kept_rows(blocks_from_qid(qid, len(scores)), weight)
        if weight is not None:
            weight = np.add.reduceat(gather_rows(weight, rows), blocks.offsets[:-1]) / blocks.sizes
        grades, scores = gather_rows(grades, rows), gather_rows(scores, rows)
        return float(evaluate(grades, scores, blocks.numbers, "ndcg@10", sample_weight=weight)["ndcg@10"])

    def _fitted_scaler(self, X: Any) -> Any:
        """The scaler named by the parameter `scale`, fitted on the training rows; None when there is none."""
        if getattr(self, "scale", None) is None:
            return None
        from hingerank.data.scaling import make_scaler

        return make_scaler(self.scale).fit(X)

    def _validate(self, eval_set: Any, eval_group: Any) -> list[float]:
        """Mean NDCG@10 on each validation set."""
        if eval_set is None:
            if eval_group is not None:
                raise ValueError("eval_group was given without eval_set")
            return []
        groups = [None] * len(eval_set) if eval_group is None else list(eval_group)
        if not isinstance(eval_set, Sequence) or len(groups) != len(eval_set):
            raise ValueError("eval_set must be a list of (X, y) pairs or RankingData, eval_group a list as long")
        scores = []
        for item, group in zip(eval_set, groups, strict=True):
            X, y = (item, None) if isinstance(item, RankingData) else item
            qid = None if group is None else np.repeat(np.arange(len(group)), group)
            scores.append(self.score(X, y, qid))
        return scores

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        n_features = getattr(self, "n_features_in_", None)
        if type(n_features) is not int or n_features < 1:
            raise ValueError(f"n_features_in_ must be a positive whole number, got {n_features!r}")
        names = getattr(self, "feature_names_in_", None)
        if names is not None and (not isinstance(names, np.ndarray) or len(names) != n_features):
            raise ValueError(f"feature_names_in_ must name the {n_features} features")
        scaler = getattr(self, "scaler_", None)
        if scaler is not None and getattr(scaler, "n_features_in_", None) != n_features:
            raise ValueError(f"scaler_ must be a scaler of the {n_features} features")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


class UnweightedRanker(BaseRanker):
    """A ranker for which weights of rows have no meaning: its fit takes none."""

    def fit(  # type: ignore[override]
        self, X: Any, y: Any = None, qid: Any = None, *, group: Any = None, eval_set: Any = None, eval_group: Any = None
    ) -> Any:
        """As every ranker's fit, without sample_weight."""
        return super().fit(X, y, qid, group=group, eval_set=eval_set, eval_group=eval_group)


class LinearRanker(BaseRanker):
    """score(x) = coef_ · x.  `coef_` has one weight per (scaled) feature."""

    _fitted: tuple[str, ...] = ("coef_",)
    coef_: np.ndarray

    def _scores(self, X: Any) -> np.ndarray:
        return X @ self.coef_.astype(X.dtype, copy=False)

    def feature_table(self, names: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """(feature, weight) pairs, largest absolute weight first.

        names: default the names seen in fit, else "f1", "f2", ... as LETOR files count. With a scaler the weights are
        those of the scaled features.
        """
        check_is_fitted(self)
        names = names_of_features(self, len(self.coef_), names)
        order = np.argsort(-np.abs(self.coef_), kind="stable")
        return [(str(names[j]), float(self.coef_[j])) for j in order]

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        weights = np.asarray(getattr(self, "coef_", None))
        if weights.shape != (self.n_features_in_,) or weights.dtype.kind not in "fiu":
            raise ValueError(
                f"coef_ has shape {weights.shape}, expected ({self.n_features_in_},) numbers, and is {weights.dtype}"
            )


def warn_not_converged(certificate: Certificate) -> None:
    """A ConvergenceWarning that says how far the fit got and what to do, unless the certificate says it converged."""
    if certificate.converged:
        return
    remedies = {"max_seconds": "raise max_seconds", "stalled": "rescale the features (scale=...)"}
    remedy = remedies.get(certificate.status, "raise max_iter") + ", lower C or accept a larger tol"
    warnings.warn(
        f"stopped after {certificate.n_iter} iterations and {certificate.seconds:.2f} s ({certificate.status}) with "
        f"{certificate.kind} {certificate.value:.3g} above the tolerance {certificate.tolerance:.3g}: {remedy}",
        ConvergenceWarning,
        stacklevel=3,
    )


# Paths: one fitted ranker for every value of a parameter, from one look at the data and from warm starts.


class PathRanker(BaseRanker):
    """A ranker whose problem can be solved for many values of one parameter, each from the solution of the one before.

    A ranker's `_fit` ends in `_solve`, its `fit_path` calls `_fit_path`, and `_take` takes over a solution.
    """

    path_parameter = "C"

    def _take(self, solution: Solution) -> None:
        """Take over a solution, as `_solve` and the rankers of a path need it."""
        raise NotImplementedError

    def _solve(
        self,
        solve: Callable[[Any, Solution | None], Solution],
        grid: Callable[[int], Iterable[Any]] | None = None,
    ) -> None:
        """Take solve(value, None), or solve all values of a path, each from the solution before; grid: so many."""
        if not hasattr(self, "_values"):
            self._take(solve(getattr(self, self.path_parameter), None))
            return
        self._solutions, solution = {}, None
        for value in self._values if grid is None or isinstance(self._values, list) else grid(self._values):
            solution = self._solutions[value] = solve(value, solution)

    def _fit_path(self, values: Any, X: Any, y: Any, qid: Any, sample_weight: Any, group: Any) -> list[Any]:
        """One fitted ranker for every value, in the order given, each started from the next smaller value."""
        count = isinstance(values, int)
        wanted = [] if count else [self._path_value(value) for value in values]
        if not (values > 0 if count else wanted):
            raise ValueError(f"the path is empty: give values of {self.path_parameter}, such as [1, 2, 4]")
        leader = self._with(getattr(self, self.path_parameter) if count else wanted[0])
        leader._values = values if count else sorted(set(wanted))
        leader.fit(X, y, qid, sample_weight, group=group)
        solutions = leader.__dict__.pop("_solutions")
        del leader._values
        path = []
        for value in solutions if count else wanted:
            path.append(take_over(leader, self._with(value)))
            path[-1]._take(solutions[value])
        return path

    def _path_value(self, value: Any) -> Any:
        return float(value)

    def _with(self, value: Any) -> Any:
        """An unfitted copy with another value of the path parameter that shares what only steers training."""
        steering = {name: getattr(self, name) for name in self._training_only}
        return clone(self).set_params(**{self.path_parameter: value}, **steering)


def take_over(leader: Any, ranker: Any) -> Any:
    """The ranker with all that the leader's fit has set, but with its own parameters."""
    parameters = leader.get_params()
    ranker.__dict__.update({name: state for name, state in leader.__dict__.items() if name not in parameters})
    return ranker


def warn_if_no_pairs(preferences: Any, stacklevel: int) -> None:
    if preferences.n_pairs == 0:
        warnings.warn(
            "there are no preference pairs (in every query all rows have the same grade), so every weight is 0",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
