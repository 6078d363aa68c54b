"""Compute a new user's vector without this library: plain Python to copy as it is, without any import.

prior = ranker.new_users()                      # lists and numbers, as in JSON
vector = new_user(prior, item_vectors, ratings) # item_vectors: rows of the items of `export(..., to="vectors")`
"""


def new_user(prior, item_vectors, ratings, steps=5000, tol=1e-10):
    """Return the vector of a user who gave these ratings to items with these vectors, as ``add_user`` finds it.

    Gradient steps minimise  ½‖z‖² + strength · min(1, n/20) n/|P| · sum over pairs of max(0, 1 - (score_i - score_j))²
    with the user's vector mean + root z. A 1 is appended if the model has a function that all users share.

    Parameters
    ----------
    prior : the result of ``new_users`` of a fitted ranker
    item_vectors : a list of numbers for each rated item
    ratings : one for each
    """
    mean, root = prior["mean"], prior["root"]
    k = len(mean)
    pairs = [(i, j) for i in range(len(ratings)) for j in range(len(ratings)) if ratings[i] > ratings[j]]
    weight = prior["strength"] * min(1.0, len(ratings) / 20.0) * len(ratings) / max(1, len(pairs))
    rows, fixed = [], []
    for i, j in pairs:
        d = [a - b for a, b in zip(item_vectors[i], item_vectors[j])]
        rows.append([sum(d[c] * root[c][e] for c in range(k)) for e in range(len(root[0]))])
        fixed.append(sum(d[c] * mean[c] for c in range(k)) + sum(d[k:]))
    length = 1.0 / (1.0 + 2.0 * weight * sum(x * x for row in rows for x in row))
    z = [0.0] * len(root[0])
    for _ in range(steps):
        g = list(z)
        for row, base in zip(rows, fixed):
            gap = 1.0 - base - sum(x * y for x, y in zip(row, z))
            if gap > 0:
                for e, x in enumerate(row):
                    g[e] -= 2.0 * weight * gap * x
        if sum(x * x for x in g) <= tol * tol:
            break
        z = [x - length * y for x, y in zip(z, g)]
    shared = [1.0] * (len(item_vectors[0]) - k) if item_vectors else []
    return [m + sum(root[c][e] * z[e] for e in range(len(z))) for c, m in enumerate(mean)] + shared
