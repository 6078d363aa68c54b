"""Random Fourier features: cosines in random directions. Their inner products approximate a shift-invariant kernel."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.checks import generator, whole
from hingerank.features.kernels import Kernel, choose_gamma
from hingerank.features.maps import Factors, FeatureMap, rows_like


@dataclass(eq=False, repr=False)
class FourierMap(FeatureMap):
    """φ(x) = √(2/m) cos(Ωᵀx + b), so that <φ(x), φ(y)> ≈ exp(−γ‖x − y‖²), with an error of about m^{-½}.

    Parameters
    ----------
    n_components : number m of cosines
    gamma : a number, "scale" (1 / sum of the columns' variances), "median" or "auto"
    orthogonal : how the columns of Ω, each from N(0, 2γ I), are drawn
        False: all are independent, and b is uniform on [0, 2π) (Rahimi & Recht). True: they are drawn in groups of d
        mutually orthogonal ones with the same distribution of lengths (Yu et al. 2016). Each is used with b = 0 and
        with b = −π/2, as a cosine and as a sine. The error is then smaller for the same m.
    random_state : a seed

    Examples
    --------
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> F = FourierMap(n_components=2000, gamma=1.0).fit(X).transform(X)
    >>> bool(abs(F[0] @ F[1] - np.exp(-np.sum((X[0] - X[1]) ** 2))) < 0.05)
    True
    """

    n_components: int = 500
    _: KW_ONLY
    gamma: float | str = "scale"
    orthogonal: bool = True
    random_state: int | None = 0

    def fit(self, X: Matrix, y: object = None, sample_weight: np.ndarray | None = None) -> "FourierMap":
        """Draw random directions for the features of X. The values of X only affect gamma."""
        X = rows_like(X)
        count = whole("n_components", self.n_components)
        gamma = choose_gamma(self.gamma, X, sample_weight, self.random_state or 0)
        rng = generator(self.random_state)
        if self.orthogonal:
            directions, phases = _orthogonal(X.shape[1], count, rng)
        else:
            directions, phases = rng.standard_normal((X.shape[1], count)), rng.uniform(0.0, 2 * np.pi, count)
        return self.place(gamma, np.sqrt(2 * gamma) * directions, phases)

    def place(self, gamma: float, frequencies: np.ndarray, phases: np.ndarray) -> "FourierMap":
        """Set γ, the frequencies Ω (features × components) and the phases b, which were drawn before."""
        self.gamma_, self.frequencies_, self.phases_ = gamma, frequencies, phases
        self.n_features_in_, self.width_ = frequencies.shape
        self.kernel_ = Waves(phases)
        self.right_ = Factors(self.kernel_, frequencies)
        return self


class Waves(Kernel):
    """√(2/m) cos(<x, ω> + b) for rows x and columns ω of Ω. The phase b is one more feature of the product."""

    name = "waves"

    def __init__(self, phases: np.ndarray):
        super().__init__()
        self.phases, self.height = phases, float(np.sqrt(2 / len(phases)))

    def left(self, X, dtype):
        ones = np.ones((X.shape[0], 1), dtype)
        if sp.issparse(X):
            return sp.hstack([X, ones], format="csr", dtype=dtype)
        return np.hstack([X.astype(dtype, copy=False), ones])

    def right(self, Y, dtype):
        with np.errstate(over="ignore"):  # if frequencies overflow float32, the features are 0 in float32
            return np.ascontiguousarray(np.vstack([Y, self.phases]).T, dtype)

    def finish(self, Z):
        if isinstance(Z, np.ndarray):
            np.cos(Z, out=Z)
        else:
            Z.cos_()
        Z *= self.height


def _orthogonal(d: int, m: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Half as many directions as components, orthogonal in groups of d, each used twice: with phase 0 and −π/2."""
    half = -(-m // 2)
    groups = []
    for _ in range(-(-half // d)):
        Q, R = np.linalg.qr(rng.standard_normal((d, d)))
        Q *= np.sign(np.diag(R))  # makes Q uniform over rotations and reflections
        groups.append(Q * np.sqrt(rng.chisquare(d, d)))  # lengths of Gaussian vectors
    directions = np.hstack(groups)[:, :half]
    phases = np.concatenate([np.zeros(half), np.full(m - half, -np.pi / 2)])
    return np.hstack([directions, directions[:, : m - half]]), phases
