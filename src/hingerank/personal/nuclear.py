"""The convex problem behind the factorised one, with the trace norm in place of two factors, and its duality gap."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.personal.alternating import item_vectors, slopes
from hingerank.personal.preferences import UserPreferences

SAFE = 1.0 + 1e-9  # factor that rounds the largest singular value up


def nuclear_gap(
    X: Matrix, p: UserPreferences, U: np.ndarray, V: np.ndarray, shared: np.ndarray | None, C: float, width: float = 0.0
) -> float:
    """Return (primal - dual) / primal of  min over W of  C · loss(W) + ‖W‖_* (+ ½‖w‖²)  at W = U Vᵀ.

    Every loss here is quadratic where it is not 0. Let l be its value, z its gradient in the scores s of the rows, and
    a = l - ½ s·z. Its conjugate at θ z is  θ² l - 2 θ a.  So the dual at θ z is

        2 θ C a - θ² (C l + ½ C² ‖g_w‖²)    for    θ C ‖G‖₂ ≤ 1,

    with G the gradient of the loss in W (‖G‖₂, its largest singular value, is the dual of the nuclear norm) and g_w
    the gradient in the weights w that all users share. The best θ has a closed form. The multipliers -ℓ'(t) of the
    hinge may not exceed 1. Its dual is  2 θ C a - ½ θ² C² ‖g_w‖²  with 2 a the sum of the multipliers, and θ ≤ 1.

    V has a row for each user of `p`, shared is w. width: 0 for the squared hinge; for the hinge, the width of its
    rounded kink, which gives the dual point.
    """
    everyone = item_vectors(X, U if shared is None else np.column_stack([U, shared]))
    mixed = V if shared is None else np.column_stack([V, np.ones(len(V))])
    s = np.einsum("rc,rc->r", everyone[p.item], mixed[np.repeat(np.arange(len(V)), np.diff(p.start))])
    Z, (loss, hinge, kink) = slopes(replace(p, known=p.known._replace(width=width)), s, X.shape[0])
    G = Z @ X
    G = G.toarray() if sp.issparse(G) else np.asarray(G)
    norm = SAFE * float(np.linalg.norm(G, 2))
    most = 1.0 / (C * norm) if norm > 0 else np.inf
    own, bend = 0.0, 0.0
    if shared is not None:
        own, bend = 0.5 * float(shared @ shared), 0.5 * C * C * float(np.square(G.sum(axis=0)).sum())
    if width > 0:
        loss, most, a = hinge, min(1.0, most), 0.5 * (hinge - kink - float(s @ Z.data))
    else:
        bend, a = bend + C * loss, loss - 0.5 * float(s @ Z.data)
    theta = min(C * a / bend if bend > 0 else np.inf, most) if a > 0 else 0.0
    nuclear = float(np.linalg.svd(np.linalg.qr(U)[1] @ np.linalg.qr(V)[1].T, compute_uv=False).sum())
    primal, dual = C * loss + nuclear + own, 2.0 * theta * C * a - theta * theta * bend
    return (primal - max(dual, 0.0)) / primal if primal > 0 else 0.0
