"""A tree ensemble as plain checked arrays, safe to read from untrusted files, and its scores.

A tree's nodes are in level order: the root, its two children, their children, and so on. Which nodes are leaves then
determines all children: those of the k-th inner node are nodes 2k + 1 and 2k + 2. So no array of children can be wrong;
it is enough to check that each inner node comes before its children.
"""

import math

import numpy as np

from hingerank.arrays import Facts, Given, Matrix
from hingerank.kernels.threads import run_shards
from hingerank.kernels.trees import ROWS, add_trees, leaf_paths, path_contributions, used_values

MISSING_LEFT, ZERO_IS_MISSING = 1, 2  # bits of `missing`
SMALL = float(np.float32(1e-35))  # LightGBM counts values within ±SMALL as zeros
SHARD = 1 << 17  # numbers of a shard's rows, which stay in the second-level cache
DEEPEST = 500  # longest path to a leaf for contributions, which cost its square
LARGEST = np.finfo(np.float64).max
ARRAYS = {
    "sizes": np.int64, "feature": np.int32, "number": np.float64, "missing": np.uint8, "cover": np.float32,
    "gain": np.float32,
}  # fmt: skip


class Forest:
    """score(x) = start + sum over trees of the value of the leaf that x reaches; divided by the trees if `average`.

    At an inner node x goes left if x[feature] <= number.

    Parameters
    ----------
    arrays : name -> array
        ``sizes``, the nodes of each tree, and for all nodes of all trees in level order ``feature`` (-1 for a leaf),
        ``number`` (a threshold, or a leaf's value), ``missing`` (MISSING_LEFT: NaN goes left, else right;
        ZERO_IS_MISSING: 0 goes where NaN goes, the same at all nodes of a feature), ``cover`` (the weight of the
        training rows there) and ``gain`` (of the split, 0 in a leaf). The last two are only for explanations.
    n_features : of the rows
    start : the score before the first tree
    average : whether the sum is divided by the number of trees
    single : as in XGBoost, features and sums have single precision; else, as in LightGBM, double precision, and
        features within ±SMALL are zeros
    """

    def __init__(self, arrays: Given, n_features: int, start: float = 0.0, average: bool = False, *, single: bool):
        check_arrays(arrays, n_features)
        if type(start) is not float or not math.isfinite(start) or type(average) is not bool:
            raise ValueError(
                f"a forest needs a finite number as start, and average True or False, not {start!r} and {average!r}"
            )
        self.arrays, self.n_features = dict(arrays), n_features
        self.start, self.average, self.single = start, average, single
        roots, children = first_children(arrays["sizes"], arrays["feature"] >= 0)
        about = arrays["feature"], arrays["number"], children, arrays["missing"]
        self._walk = TreeWalk(*about, roots, start, 0.0 if single else SMALL, single)

    def to_state(self) -> Facts:
        """Arrays and plain values from which `from_state` makes the same forest."""
        return self.arrays | {"start": self.start, "average": self.average}

    @classmethod
    def from_state(cls, state: object, n_features: int, *, single: bool) -> "Forest":
        """The forest of an untrusted state; a ValueError says what is wrong with it."""
        if not isinstance(state, dict) or set(state) != {*ARRAYS, "start", "average"}:
            raise ValueError(f"a forest has the entries {', '.join(ARRAYS)}, start and average")
        arrays = {name: state[name] for name in ARRAYS}
        return cls(arrays, n_features, state["start"], state["average"], single=single)

    def first(self, count: int) -> "Forest":
        """The forest of the first trees."""
        nodes = int(self.arrays["sizes"][:count].sum())
        arrays = {name: array[: count if name == "sizes" else nodes] for name, array in self.arrays.items()}
        return Forest(arrays, self.n_features, self.start, self.average, single=self.single)

    def scores(self, X: Matrix, threads: int) -> np.ndarray:
        """One score per row of X, C-ordered or CSR: in single precision if the forest is, else in double."""
        if X.shape[1] != self.n_features:  # kernels do not check bounds
            raise ValueError(f"X has {X.shape[1]} features, but the trees were fitted on {self.n_features}")
        scores = self._walk(X, threads)
        if self.average:
            scores /= len(self.arrays["sizes"])
        return scores.astype(np.float32) if self.single else scores

    def importances(self) -> np.ndarray:
        """The total gain of the splits by each feature."""
        inner = self.arrays["feature"] >= 0
        gain = self.arrays["gain"][inner].astype(np.float64)
        return np.bincount(self.arrays["feature"][inner], gain, minlength=self.n_features)

    def contributions(self, X: Matrix, threads: int) -> np.ndarray:
        """The contribution of each feature to each row's score (see kernels/trees.py); the last column: the mean score.

        They add up to the score, up to rounding.
        """
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but the trees were fitted on {self.n_features}")
        walk, paths = self._walk, leaf_paths(self._walk.tables[3].astype(np.int64))
        found = np.zeros((X.shape[0], len(walk.used) + 1))
        ratios = self._ratios(paths[3])
        deepest = int(np.diff(paths[0]).max())
        if deepest > DEEPEST:
            raise ValueError(f"a tree is {deepest} levels deep; explanations need at most {DEEPEST} levels")

        def some(shard: slice) -> None:
            room = np.empty((4, deepest + 2))
            path_contributions(walk.values(X[shard]), *paths, *walk.tables[1:], ratios, room, found[shard])

        run_shards(some, [slice(lo, lo + 64) for lo in range(0, len(found), 64)], threads)
        out = np.zeros((X.shape[0], self.n_features + 1))
        out[:, walk.used], out[:, -1] = found[:, :-1], found[:, -1]
        out /= len(self.arrays["sizes"]) if self.average else 1
        out[:, -1] += self.start
        return out

    def _ratios(self, parent: np.ndarray) -> np.ndarray:
        """The fraction of the training rows at each node's parent that went to it; a half where none were counted."""
        cover = self.arrays["cover"].astype(np.float64)
        below = parent >= 0
        both = np.bincount(parent[below], cover[below], len(cover))[parent]
        return np.where(both > 0, cover / np.where(both > 0, both, 1.0), 0.5)


class TreeWalk:
    """start + Σ over trees of the value of the leaf that x reaches (see kernels/trees.py).

    Parameters
    ----------
    feature, number, child, missing, roots, start : as in `hingerank.export.forms.Trees`; children of leaves are ignored
    small : numbers within ±small are zeros
    single : whether features and sums have single precision
    """

    def __init__(
        self, feature: np.ndarray, number: np.ndarray, child: np.ndarray, missing: np.ndarray, roots: np.ndarray,
        start: float, small: float, single: bool = False,
    ) -> None:  # fmt: skip
        inner = feature >= 0
        self.used, column = np.unique(feature[inner], return_inverse=True)
        self.at_zero = np.zeros(len(self.used))  # what 0 becomes in each of these columns
        self.at_zero[column[(missing[inner] & ZERO_IS_MISSING) > 0]] = np.nan
        columns = np.zeros(len(feature), np.uint32)
        columns[inner] = column
        number = np.array(number)  # a writable copy: numba would compile the kernel again for a read-only one
        child = np.where(inner, child, 0).astype(np.uint32)
        self.tables = roots.astype(np.uint32), columns, number, child, (missing & MISSING_LEFT) > 0
        self.start, self.small, self.single = float(start), small, single

    def __call__(self, X: Matrix, threads: int = 1) -> np.ndarray:
        """One score per row, C-ordered or CSR, in double precision."""
        scores = np.full(X.shape[0], self.start)
        step = min(1024, max(1, SHARD // max(1, len(self.used))))

        def add(shard: slice) -> None:
            room = np.empty(ROWS, np.uint32), np.empty(ROWS, np.uint32)
            add_trees(self.values(X[shard]), *self.tables, self.single, *room, scores[shard])

        run_shards(add, [slice(lo, lo + step) for lo in range(0, len(scores), step)], threads)
        return scores

    def values(self, X: Matrix) -> np.ndarray:
        """The features that the trees use, for each row, in double precision."""
        X = _single(X) if self.single else X
        rows = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
        values = np.empty((X.shape[0], len(self.used)))
        used_values(rows, self.used, self.small, self.at_zero, values)
        return values


def check_arrays(arrays: Given, n_features: int) -> None:
    """Refuse arrays that are not trees in level order over `n_features` features."""
    for name, dtype in ARRAYS.items():
        array = arrays[name]
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
            raise ValueError(f"{name} of a forest must be a vector of {np.dtype(dtype)}")
    sizes, feature, number, missing, cover, gain = (arrays[name] for name in ARRAYS)
    n_nodes = len(feature)
    if not len(number) == len(missing) == len(cover) == len(gain) == n_nodes < np.iinfo(np.int32).max:
        raise ValueError(f"a forest has {n_nodes} features of nodes, {len(number)} numbers and {len(missing)} rules")
    if not 1 <= len(sizes) <= n_nodes or sizes.min() < 1 or sizes.max() > n_nodes or sizes.sum() != n_nodes:
        raise ValueError(f"the sizes of a forest's trees do not add up to its {n_nodes} nodes")
    if feature.min() < -1 or feature.max() >= n_features:
        raise ValueError(f"a tree splits by a feature that is not among the {n_features} features")
    if not np.isfinite(number).all():
        raise ValueError("a forest has thresholds or leaves that are not finite")
    if not (np.isfinite(cover) & (cover >= 0) & np.isfinite(gain)).all():
        raise ValueError("a forest has covers or gains that are not finite, or negative covers")
    inner = feature >= 0
    starts, children = first_children(sizes, inner)
    if (2 * np.add.reduceat(inner, starts, dtype=np.int64) + 1 != sizes).any():
        raise ValueError("a tree does not have one leaf more than inner nodes")
    if (children <= np.arange(n_nodes))[inner].any():
        raise ValueError("a tree's nodes are not in level order: one comes after its children")
    at_zero = np.unique(feature[inner] * np.int64(2) + ((missing[inner] & ZERO_IS_MISSING) > 0)) // 2
    if missing.max() > (MISSING_LEFT | ZERO_IS_MISSING) or missing[~inner].any() or (np.diff(at_zero) == 0).any():
        raise ValueError(
            "a forest's rules for missing values are not valid: one is unknown, belongs to a leaf, or contradicts "
            "another split by the same feature"
        )


def first_children(sizes: np.ndarray, inner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each tree starts, and for every node where its first child would be: 1 + 2 · inner nodes before it."""
    starts = np.cumsum(sizes) - sizes
    before = np.cumsum(inner) - inner
    return starts, np.repeat(starts - 2 * before[starts], sizes) + 2 * before + 1


def _single(X: Matrix) -> Matrix:
    """X in single precision; a ValueError if its numbers are too large for that."""
    with np.errstate(over="ignore"):
        X = X.astype(np.float32, copy=False)
    if np.isinf(X if isinstance(X, np.ndarray) else X.data).any():
        raise ValueError("X has numbers beyond single precision, in which this ranker works: rescale them")
    return X


def warm_trees() -> None:
    """Compile the kernels for all kinds of rows."""
    from scipy.sparse import csr_matrix

    feature, missing = np.array([0, -1, -1], np.int32), np.zeros(3, np.uint8)
    rest = {name: np.zeros(3, ARRAYS[name]) for name in ("number", "cover", "gain")}
    arrays = {"sizes": np.array([3]), "feature": feature, "missing": missing, **rest}
    forest = Forest(arrays, 1, single=False)
    for rows in (np.zeros((1, 1)), np.zeros((1, 1), np.float32)):
        forest.scores(rows, 1)
        forest.scores(csr_matrix(rows), 1)
    forest.contributions(rows, 1)
