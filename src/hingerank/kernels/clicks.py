"""Click models fitted from counts: P(click) = P(examined) · P(attractive)."""

import numpy as np

from hingerank.kernels.compiled import kernel


@kernel
def product_step(slot, pair, n, c, n_slots, x, shown, hits, prior, new):
    """Make one EM step on Σ c log(θ_slot γ_pair) + (n − c) log(1 − θ_slot γ_pair) and return this sum at `x`.

    x and new hold θ of every slot, then γ of every pair; shown holds Σ n of each. hits of prior are the pseudo-counts
    of a beta prior on every γ, whose logarithm is part of the sum. O(cells)."""
    likelihood = 0.0
    for k in range(len(x)):
        new[k] = 0.0
    for e in range(len(n)):
        i, j = slot[e], n_slots + pair[e]
        t, g = x[i], x[j]
        v = (n[e] - c[e]) / max(1.0 - t * g, 1e-12)
        new[i] += c[e] + v * t * (1.0 - g)
        new[j] += c[e] + v * g * (1.0 - t)
        if c[e] > 0.0:
            likelihood += c[e] * np.log(max(t * g, 1e-300))
        if n[e] > c[e]:
            likelihood += (n[e] - c[e]) * np.log(max(1.0 - t * g, 1e-300))
    for k in range(len(x)):
        if shown[k] <= 0.0:
            new[k] = x[k]
        elif k < n_slots:
            new[k] = min(1.0, new[k] / shown[k])
        else:
            new[k] = min(1.0, (new[k] + hits) / (shown[k] + prior))
            if hits > 0.0:
                likelihood += hits * np.log(max(x[k], 1e-300))
            if prior > hits:
                likelihood += (prior - hits) * np.log(max(1.0 - x[k], 1e-300))
    return likelihood
