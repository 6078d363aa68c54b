"""Clicks as a product of two probabilities, examined and attractive, from counts."""

from hingerank.kernels.compiled import kernel


@kernel
def product_em(
    slot, pair, n, c, theta, gamma, new_theta, new_gamma, shown_theta, shown_gamma, hits, shown, max_iter, tol
):
    """Expectation maximisation of Σ c log(θ_slot γ_pair) + (n − c) log(1 − θ_slot γ_pair); answers the iterations.

    theta and gamma are where it starts, and what it finds. It ends when no θ moves by more than tol. shown_*: Σ n of
    each slot and pair; hits of shown: what every γ begins with, a beta prior. O(cells) an iteration."""
    for turn in range(max_iter):
        for i in range(len(theta)):
            new_theta[i] = 0.0
        for j in range(len(gamma)):
            new_gamma[j] = 0.0
        for e in range(len(n)):
            i, j = slot[e], pair[e]
            t, g = theta[i], gamma[j]
            v = (n[e] - c[e]) / max(1.0 - t * g, 1e-12)
            new_theta[i] += c[e] + v * t * (1.0 - g)
            new_gamma[j] += c[e] + v * g * (1.0 - t)
        moved = 0.0
        for i in range(len(theta)):
            if shown_theta[i] > 0.0:
                value = min(1.0, new_theta[i] / shown_theta[i])
                moved = max(moved, abs(value - theta[i]))
                theta[i] = value
        for j in range(len(gamma)):
            if shown_gamma[j] > 0.0:
                gamma[j] = min(1.0, (new_gamma[j] + hits) / (shown_gamma[j] + shown))
        if moved <= tol:
            return turn + 1
    return max_iter
