"""Names for types that all rooms use.

Some are Any to a type checker, because the library they come from has no types or is optional; the name says what they
are.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NewType, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike
else:
    ArrayLike = NewType("ArrayLike", object)  # short in signatures that `help` shows, where NumPy's fills lines

Floats = NDArray[np.float64]  # vectors and matrices of double precision
Integers = NDArray[np.int64]
PerRow: TypeAlias = ArrayLike | None  # a number or an id for each row, where it is given

Matrix: TypeAlias = Any  # rows of features: a NumPy array, or SciPy's CSR matrix
RowsLike: TypeAlias = Any  # what `fit` takes for rows: an array, a SciPy matrix, a frame, RankingData, rows in parts
Frame: TypeAlias = Any  # a table of pandas, polars, pyarrow or narwhals, or a column of one
Column: TypeAlias = Any  # a value for each rating, click or item: an array, a list, or a column of a frame
Vector: TypeAlias = Any  # weights: an array, or whatever adds, scales and multiplies like one (problem/kernel_space.py)
Tensor: TypeAlias = Any  # PyTorch's, or an array in its place
Device: TypeAlias = Any  # PyTorch's
Ranker: TypeAlias = Any  # one of ours, or any estimator of scikit-learn with fit(X, y, qid) and predict

Facts = dict[str, Any]  # by name: what a header, a record or an object of JSON holds
Given = Mapping[str, Any]  # by name: what someone else has set, to be read
