"""Names for the types of arrays."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]  # vectors and matrices of double precision
Integers = NDArray[np.int64]
