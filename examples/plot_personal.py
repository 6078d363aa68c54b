"""
One ranking per user, from a few basic ones
===========================================

Six hundred readers rated thirty books each. Their tastes are mixtures of three that nobody wrote down: suspense, love
stories and popular science. ``PersonalRankSVM`` finds ranking functions of the words in the titles that explain all
readers at once, and gives each reader a mixture of them.
"""

import matplotlib.pyplot as plt
import numpy as np

import hingerank as hr
from hingerank.lab.report.figures import plot_basis
from hingerank.personal.item_features import word_features

WORDS = {
    "suspense": "murder night shadow secret detective silence blood trail witness knife",
    "love": "heart summer kiss letters garden wedding sister forever Paris moon",
    "science": "brain universe numbers evolution ocean climate atoms genes history machine",
}
rng = np.random.default_rng(0)
themes = [words.split() for words in WORDS.values()]
theme = rng.integers(0, 3, 800)  # of each book
titles = [" ".join(rng.choice(themes[t], 3, replace=False)) + " " + rng.choice(themes[rng.integers(3)]) for t in theme]
X, names = word_features(titles)

# %%
# A reader's rating depends on a mixture of the three themes, and on chance. Ratings go from 1 to 5.

n_readers, n_rated = 600, 30
liking = rng.standard_normal((n_readers, 3))
users = np.repeat(np.arange(n_readers), n_rated)
books = np.concatenate([rng.choice(len(titles), n_rated, replace=False) for _ in range(n_readers)])
of_word = np.array([next(t for t in range(3) if name in [w.lower() for w in themes[t]]) for name in names])
share = np.stack([X[:, of_word == t].sum(axis=1).A1 for t in range(3)], axis=1)
score = np.einsum("rc,rc->r", share[books], liking[users]) + rng.standard_normal(len(users))
ratings = np.digitize(score, [-3, -1, 1, 3]) + 1

# %%
# Ten of each reader's ratings are held back.

train = np.arange(len(users)) % n_rated < 20
seen, held = (users[train], books[train], ratings[train]), (users[~train], books[~train], ratings[~train])
for ranker in (hr.JointRanker(), hr.SeparateRanker(), hr.PersonalRankSVM(rank=2)):
    ranker.set_params(C=0.01).fit(X, *seen)
    print(f"{type(ranker).__name__:16} {ranker.score(X, *held):.3f} of the held back pairs in the right order")

# %%
# The basic ranking functions: on the left the words that each one prefers, on the right those that it puts last. Two
# functions are enough for three themes: love against science, and suspense against love.

plot_basis(ranker, names, functions=(0, 1), top=12, figure=plt.figure(figsize=(9, 3.6)))

# %%
# A new reader rates four books. The basis stays as it is, so this takes about a millisecond.

four = word_features(["night detective murder", "summer wedding kiss", "atoms numbers universe", "blood trail knife"],
                     min_items=1, vocabulary=names)[0]  # fmt: skip
ranker.add_user("new", four, [5, 1, 4, 5])
rows, _ = ranker.top_k(["new"], X, top=3)
print([titles[row] for row in rows[0]])
