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


@kernel(allocates=True)
def chain_step(pair, key, last, length, weight, attraction, stops, go_on, examined, stopped):
    """What users are expected to have done, given the clicks of each list: one E-step of a chain model.

    Everything down to the last click was examined. Below it, below[k] is the probability of no click from k on if k is
    examined, and `reach` that k is examined and all between was skipped. Adds to `examined` by pair and to `stopped` by
    key; answers how often users might have gone on to a next document and how often they did. O(entries)."""
    trials, went = 0.0, 0.0
    below = np.empty(pair.shape[1] + 1)
    for e in range(len(last)):
        n, end, w = length[e], last[e], weight[e]
        rest = 1.0  # no click below k, if the user is not satisfied at k
        for k in range(n - 1, end, -1):
            below[k] = (1.0 - attraction[pair[e, k]]) * rest
            rest = 1.0 - go_on + go_on * below[k]
        for k in range(end + 1):
            examined[pair[e, k]] += w
        reach, total = 1.0, below[0]
        if end >= 0:
            stop = stops[key[e, end]]
            total = max(stop + (1.0 - stop) * rest, 1e-300)
            trials += w * end
            went += w * end
            if end + 1 < n:
                stopped[key[e, end]] += w * stop / total
                trials += w * (1.0 - stop / total)
            reach = (1.0 - stop) * go_on
        total = max(total, 1e-300)
        for k in range(end + 1, n):
            expected = w * reach * below[k] / total
            examined[pair[e, k]] += expected
            if k > 0:
                went += expected
            if k + 1 < n:
                trials += expected
            reach *= (1.0 - attraction[pair[e, k]]) * go_on
    return trials, went
