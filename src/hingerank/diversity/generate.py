"""Generated queries with known subtopics: documents with words, hosts and categories, and noisy evidence of them."""

import numpy as np
from scipy import sparse

from hingerank.data.checks import fraction, positive, real, whole
from hingerank.data.files import DataError
from hingerank.diversity.queries import DiverseData, DiverseQuery
from hingerank.diversity.relations import (
    Relation,
    Relations,
    category_relation,
    cosine_relation,
    mixture_relation,
    topic_mixture,
    url_relation,
)

DISTRACTORS = 3  # themes of a query that are not subtopics
FACETS = 0.9  # fraction of the facets that a document of a faceted query has
LENGTH = 2.0  # strength of the signal in the length, relative to other features
THEME_WORDS = 25  # words that belong to a theme
NOISE_RELATIONS = ("links", "anchors")  # relations of pure noise


def make_diverse(
    n_queries: int = 50, candidates: int | tuple[int, int] = (80, 120), subtopics: int | tuple[int, int] = (4, 10), *,
    relevant: float = 0.3, n_features: int = 10, noise: float = 1.0, known_aspects: float = 0.6, faceted: float = 0.0,
    vocabulary: int = 1500, topics: int | None = None, materialize: bool = True, seed: int = 0,
) -> DiverseData:  # fmt: skip
    """Generate queries with subtopics of unequal popularity and some irrelevant themes; documents mix their words.

    A document is about one or two themes, more often about popular ones. A good document is relevant to its subtopics.
    So a ranking by relevance alone repeats the popular subtopics. A reranker gets only noisy data about all this:

    - ``X`` has features in [0, 1]. Half of them show, with noise, whether a document is good; the others are noise. The
      first one is also ``relevance``, like a retrieval score.
    - ``relations`` are "tfidf" and "topics" (from the words), "url" (half of the hosts have a single theme), "category"
      (correct for two documents in three), and "links" and "anchors", which are noise.
    - ``aspects`` are guesses: only some subtopics and some irrelevant themes are guessed. P(d | a) comes from the words
      and the retrieval score.

    Parameters
    ----------
    n_queries : int, default 50
    candidates, subtopics : int or (smallest, largest)
        Number per query, or a range to draw from.
    relevant : float, default 0.3
        Fraction of the documents about a subtopic that are good, and so relevant to it.
    n_features : int, default 10
        Columns of ``X``.
    noise : float, default 1
        Standard deviation of the noise in the features, whose signal is 1 to 2.
    known_aspects : float, default 0.6
        Probability that a subtopic is among the guessed aspects.
    faceted : float, default 0
        Fraction of faceted queries. Their subtopics are facets of one thing (half as many), and each good document
        covers nearly all of them. The subtopics of the other, ambiguous queries are meanings, and a document has one or
        two. If it is above 0, the second feature is the length: good documents are long in faceted queries and short in
        ambiguous ones, and no feature shows the kind of a query. ERR-IA gives faceted queries more weight, alpha-NDCG
        gives both kinds the same, so the two measures favour different lengths.
    vocabulary : int, default 1500
        Number of different words.
    topics : int, optional
        Size of the topic model (NMF) behind the relation "topics"; None leaves that relation out.
    materialize : bool, default True
        Store relations as tensors (faster to train on); otherwise rows are computed on demand.
    seed : int
        The result depends only on the arguments.

    Examples
    --------
    >>> data = make_diverse(3, 40, seed=1)
    >>> len(data), data[0].X.shape, data.relation_names
    (3, (40, 10), ('tfidf', 'url', 'category', 'links', 'anchors'))
    """
    for name, value in {"relevant": relevant, "known_aspects": known_aspects, "faceted": faceted}.items():
        fraction(name, value)
    for name, count, least in (
        ("n_queries", n_queries, 1), ("n_features", n_features, 2), ("vocabulary", vocabulary, 10 * THEME_WORDS),
    ):  # fmt: skip
        whole(name, count, least)
    positive("noise", noise, least=0)
    documents, meanings = _range("candidates", candidates), _range("subtopics", subtopics)
    seeds = np.random.SeedSequence(seed).spawn(n_queries + 1)
    background = 1 / np.arange(3, vocabulary + 3)
    background = np.random.default_rng(seeds[0]).permutation(background / background.sum())

    def query(qid: str, rng: np.random.Generator) -> DiverseQuery:
        n, m = (int(rng.integers(low, high + 1)) for low, high in (documents, meanings))
        of_facets = faceted > 0 and rng.random() < faceted
        if of_facets:
            m = max(2, m // 2)
        about = _facets(n, m, rng) if of_facets else _meanings(n, m, rng)
        good = _good(about[:, :m], relevant, rng)
        language = _theme_languages(m + DISTRACTORS, background, rng)
        words = _words(about, language, background, rng)
        X = _features(good, n_features, noise, rng)
        if faceted:
            X[:, 1] = _features(good if of_facets else ~good, 2, noise / LENGTH, rng)[:, 0]
        aspects, weights = _aspects(words, X[:, 0], language, m, known_aspects, rng)
        relations = Relations(_relations(words, about, topics, rng))
        return DiverseQuery(
            X,
            relations=relations.materialize() if materialize else relations,
            judgments=(about[:, :m] & good[:, None]).astype(np.int64),
            relevance=X[:, 0],
            aspects=aspects,
            aspect_weights=weights,
            words=words,
            docids=[f"q{qid}-d{i}" for i in range(n)],
            qid=qid,
        )

    return DiverseData([query(str(q), np.random.default_rng(own)) for q, own in enumerate(seeds[1:], start=1)])


def _range(name: str, value: int | tuple[int, int]) -> tuple[int, int]:
    ends = [real(end) for end in (value if isinstance(value, tuple | list) else (value, value))]
    if len(ends) != 2 or not 1 <= ends[0] <= ends[1] or not all(end.is_integer() for end in ends):
        raise DataError(f"{name} is {value!r}, expected a whole number, or a range (smallest, largest), of at least 1")
    return int(ends[0]), int(ends[1])


def _meanings(n: int, m: int, rng: np.random.Generator) -> np.ndarray:
    """Return the themes of each document (n × (m + DISTRACTORS)).

    Theme k is the theme of a document with a probability that falls as 1/k²; one in five has a second theme.
    """
    popularity = np.arange(1.0, m + 1) ** -2.0
    popularity = np.concatenate((popularity / popularity.sum(), np.full(DISTRACTORS, 0.3 / DISTRACTORS)))
    popularity /= popularity.sum()
    about = np.zeros((n, m + DISTRACTORS), bool)
    for document in about:
        document[rng.choice(len(popularity), 2 if rng.random() < 0.2 else 1, replace=False, p=popularity)] = True
    return about


def _facets(n: int, m: int, rng: np.random.Generator) -> np.ndarray:
    """Return the same for facets: 3 of 4 documents have each with probability FACETS, the others have another theme."""
    about = np.zeros((n, m + DISTRACTORS), bool)
    about[:, :m] = (rng.random((n, 1)) < 0.75) & (rng.random((n, m)) < FACETS)
    off = np.flatnonzero(~about.any(axis=1))
    about[off, m + rng.integers(0, DISTRACTORS, len(off))] = True
    return about


def _good(wanted: np.ndarray, relevant: float, rng: np.random.Generator) -> np.ndarray:
    """Return which documents are good, and so relevant to their subtopics: never one with only irrelevant themes."""
    good = wanted.any(axis=1) & (rng.random(len(wanted)) < relevant)
    if not good.any():
        i = rng.integers(len(wanted))
        wanted[i, 0], good[i] = True, True
    return good


def _theme_languages(themes: int, background: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return word distributions: each theme has its own words, drawn from the background, with random weights."""
    language = np.zeros((themes, len(background)))
    for theme in language:
        theme[rng.choice(len(background), THEME_WORDS, replace=False)] = rng.dirichlet(np.ones(THEME_WORDS))
    return language


def _words(
    about: np.ndarray, language: np.ndarray, background: np.ndarray, rng: np.random.Generator
) -> sparse.csr_matrix:
    """Return word counts: a quarter of a document's words come from its themes, the rest from the background."""
    themes = about / about.sum(axis=1, keepdims=True)
    mixture = 0.25 * (themes @ language) + 0.75 * background
    counts: np.ndarray = rng.multinomial(rng.integers(60, 240, len(about)), mixture)
    return sparse.csr_matrix(counts.astype(np.float64))


def _features(good: np.ndarray, d: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Φ(strength·good + noise): half of the columns, including the first, carry the signal; the others are noise."""
    from scipy.special import ndtr

    strength = np.where(np.arange(d) < (d + 1) // 2, rng.uniform(1.0, 2.0, d), 0.0)
    centred = good - good.mean()
    return np.asarray(ndtr(strength * centred[:, None] + noise * rng.standard_normal((len(good), d))))


def _aspects(
    words: sparse.csr_matrix, score: np.ndarray, language: np.ndarray, m: int, known: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """P(d | a) = retrieval score of d · weight of the guessed theme's words in it; 1 for the best document of a."""
    guessed = [theme for theme in range(len(language)) if rng.random() < (known if theme < m else 0.5)]
    guessed = guessed or [0]
    clues = language[guessed] * (rng.random((len(guessed), language.shape[1])) < 0.4)  # a suggestion has a few words
    hits = np.asarray(words @ clues.T) / np.maximum(1, np.asarray(words.sum(axis=1)))
    hits *= score[:, None]
    return hits / np.maximum(hits.max(axis=0), 1e-12), np.full(len(guessed), 1 / len(guessed))


def _relations(
    words: sparse.csr_matrix, about: np.ndarray, topics: int | None, rng: np.random.Generator
) -> list[Relation]:
    from sklearn.feature_extraction.text import TfidfTransformer

    n, themes = about.shape
    tfidf = TfidfTransformer(sublinear_tf=True).fit_transform(words)
    main = (about * rng.random(about.shape)).argmax(axis=1)
    host = np.where(rng.random(n) < 0.5, 3 * main + rng.integers(0, 3, n), 100 + rng.integers(0, n, n))
    category = np.where(rng.random(n) < 2 / 3, main, rng.integers(0, themes, n))
    parts = [cosine_relation(tfidf, "tfidf")]
    if topics is not None:
        parts.append(mixture_relation(topic_mixture(tfidf, topics, seed=int(rng.integers(2**31))), "topics"))
    parts.append(url_relation([f"http://host{h}.example/{i}" for i, h in enumerate(host)]))
    parts.append(category_relation([f"top/{c}" for c in category]))
    return parts + [cosine_relation(rng.standard_normal((n, 4)), name) for name in NOISE_RELATIONS]
