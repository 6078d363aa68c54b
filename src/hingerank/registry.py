"""The registry of rankers: the name used on the command line and in model files -> "module:Class".

Contract tests run over it, and a model file can name nothing else. Classes are imported when they are asked for.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

RANKERS: dict[str, str] = {
    "rank-svm": "hingerank.rankers.linear:RankSVM",
    "kernel-rank-svm": "hingerank.rankers.kernel:KernelRankSVM",
    "nystroem-rank-svm": "hingerank.rankers.kernel:NystroemRankSVM",
    "fourier-rank-svm": "hingerank.rankers.kernel:FourierRankSVM",
    "additive-rank-svm": "hingerank.rankers.additive:AdditiveRankSVM",
    "factorized": "hingerank.rankers.low_rank:FactorizedRankSVM",
    "regularized": "hingerank.rankers.low_rank:RegularizedRankSVM",
    "ranking-fm": "hingerank.rankers.low_rank:RankingFM",
    "fenchel-rank": "hingerank.rankers.sparse:FenchelRank",
    "sparse-rank-svm": "hingerank.rankers.sparse:SparseRankSVM",
    "tg-rank": "hingerank.rankers.sparse:TGRank",
    "rs-rank": "hingerank.rankers.sparse:RSRank",
    "feature-selection": "hingerank.rankers.feature_selection:FeatureSelectionRanker",
    "ranknet": "hingerank.rankers.linear:RankNet",
    "listnet": "hingerank.rankers.linear:ListNet",
    "listmle": "hingerank.rankers.linear:ListMLE",
    "rankrls": "hingerank.rankers.least_squares:RankRLS",
    "frank": "hingerank.rankers.linear:FRank",
    "crr": "hingerank.rankers.least_squares:CRR",
    "pointwise-regression": "hingerank.rankers.least_squares:PointwiseRegression",
    "ordinal-svm": "hingerank.rankers.ordinal:OrdinalSVM",
    "prank": "hingerank.rankers.ordinal:PRank",
    "svm-map": "hingerank.rankers.measured:SVMMAP",
    "lambdarank": "hingerank.rankers.measured:LambdaRank",
    "softrank": "hingerank.rankers.measured:SoftRank",
    "rankcosine": "hingerank.rankers.measured:RankCosine",
    "adarank": "hingerank.rankers.boosting:AdaRank",
    "rankboost": "hingerank.rankers.boosting:RankBoost",
    "lightgbm": "hingerank.rankers.tree_rankers:LightGBMRanker",
    "gbrank": "hingerank.rankers.tree_rankers:GBRank",
    "mcrank": "hingerank.rankers.tree_rankers:McRank",
    "xgboost": "hingerank.rankers.tree_rankers:XGBoostRanker",
    "blend": "hingerank.rankers.blend:Blend",
    "mmr": "hingerank.diversity.selection:MMR",
    "xquad": "hingerank.diversity.selection:XQuAD",
    "pm2": "hingerank.diversity.selection:PM2",
    "r-ltr": "hingerank.diversity.learning:RLTR",
    "pamm": "hingerank.diversity.learning:PAMM",
    "svm-div": "hingerank.diversity.structural:SVMDiv",
    "struct-svm-div": "hingerank.diversity.structural:StructSVMDiv",
    "personal-rank-svm": "hingerank.personal.factorized:PersonalRankSVM",
    "matrix-completion": "hingerank.personal.factorized:InductiveMatrixCompletion",
    "mean-variance": "hingerank.personal.convex:MeanVarianceRanker",
    "separate": "hingerank.personal.convex:SeparateRanker",
    "joint": "hingerank.personal.convex:JointRanker",
    "ease": "hingerank.personal.item_item:EASE",
    "list-ranker": "hingerank.personal.lists:ListRanker",
}

SUMMARIES: dict[str, str] = {  # for `hingerank models`
    "rank-svm": "linear score, hinge or another loss of pairs; the one to start with",
    "kernel-rank-svm": "kernel score over all rows, for up to some ten thousand rows",
    "nystroem-rank-svm": "kernel score over landmarks, for many rows",
    "fourier-rank-svm": "kernel score by random Fourier features, for many rows",
    "additive-rank-svm": "one readable curve per feature, and pairs of features",
    "factorized": "linear score, low-rank multipliers by factorisation",
    "regularized": "linear score, low-rank multipliers by a nuclear norm",
    "ranking-fm": "a product of every two features, low rank: a factorization machine",
    "fenchel-rank": "sparse linear score, bounded sum of absolute weights",
    "sparse-rank-svm": "sparse linear score, absolute weights penalised",
    "tg-rank": "sparse linear score by truncated gradient",
    "rs-rank": "sparse linear score, pairs weighted by their effect on NDCG",
    "feature-selection": "rank-svm on the features that rank best alone",
    "ranknet": "linear score, logistic loss of pairs",
    "listnet": "linear score, cross entropy of top-one probabilities",
    "listmle": "linear score, likelihood of the ideal ranking",
    "rankrls": "linear score, squared differences of grades",
    "frank": "linear score, fidelity loss of pairs",
    "crr": "linear score, regression and ranking combined",
    "pointwise-regression": "linear score, ridge regression of the grades",
    "ordinal-svm": "linear score and thresholds between grades, large margins",
    "prank": "linear score and thresholds, an ordinal perceptron",
    "svm-map": "linear score, structural SVM for average precision",
    "lambdarank": "linear score, pairs weighted by the change of NDCG",
    "softrank": "linear score, expected NDCG of noisy scores",
    "rankcosine": "linear score, cosine between scores and grades",
    "adarank": "boosted single features, queries reweighted",
    "rankboost": "boosted thresholds on features, pairs reweighted",
    "lightgbm": "LambdaMART trees by LightGBM",
    "gbrank": "boosted trees, squared hinge loss of pairs",
    "mcrank": "boosted trees, classification into grades",
    "xgboost": "LambdaMART trees by XGBoost",
    "blend": "a weighted sum of the scores of other rankers",
    "mmr": "relevance against similarity to what is chosen",
    "xquad": "coverage of aspects that are still open",
    "pm2": "aspects in proportion to their weights",
    "r-ltr": "learned relevance and novelty, likelihood of rankings",
    "pamm": "learned relevance and novelty, perceptron for a measure",
    "svm-div": "structural SVM that covers the words of documents",
    "struct-svm-div": "structural SVM for a diversity measure",
    "personal-rank-svm": "one linear score per user, low rank over users",
    "matrix-completion": "ratings fitted from item features, low rank over users",
    "mean-variance": "a shared score, and one per user near it",
    "separate": "one linear score per user, each learned alone",
    "joint": "one linear score for all users",
    "list-ranker": "lists over a catalogue: what is chosen times what is liked",
    "ease": "items by the items a user took, full rank, closed form",
}

ALIASES = {
    "lambdamart": "lightgbm",
    "ranksvm": "rank-svm",
    "svmrank": "rank-svm",
    "structsvm": "struct-svm-div",
}  # names of other programs


def registered_name(text: str) -> str:
    """The registered name meant by `text`: itself, the class's name in any spelling, or as much of it as is clear.

    >>> [registered_name(text) for text in ("Rank_SVM", "FenchelRank", "factorized-rank-svm", "nystroem")]
    ['rank-svm', 'fenchel-rank', 'factorized', 'nystroem-rank-svm']
    """
    if text in RANKERS:
        return text
    if text.lower() in ALIASES:
        return ALIASES[text.lower()]
    plain = text.lower().replace("-", "").replace("_", "")
    begun = [name for name in RANKERS if plain and (name.startswith(text) or text in name.split("-"))]
    named = [n for n, place in RANKERS.items() if plain in (n.replace("-", ""), place.rpartition(":")[2].lower())]
    meant = named or begun
    if len(meant) > 1:
        raise ValueError(f"{text!r} could be {', '.join(meant)}: say which ranker is meant")
    return meant[0] if meant else text


def did_you_mean(word: str, known: Iterable[str], canonical: Mapping[str, str] | None = None) -> str:
    """The end of a message about an unknown name: the known ones that are like it, or nothing.

    canonical: what to suggest instead of some of the known names.

    >>> did_you_mean("listnett", ["listnet", "rank-svm"]), did_you_mean("x", ["listnet"])
    ("; did you mean 'listnet'?", '')
    """
    from difflib import SequenceMatcher

    by_case = {name.lower(): (canonical or {}).get(name, name) for name in known}
    alike = {name: SequenceMatcher(None, name, str(word).lower()).ratio() for name in by_case}
    enough = max(0.6, max(alike.values(), default=0.0) - 0.05)
    near = dict.fromkeys(
        by_case[name] for name in sorted(alike, key=lambda name: -alike[name]) if alike[name] >= enough
    )
    return f"; did you mean {' or '.join(map(repr, list(near)[:3]))}?" if near else ""


def no_ranker(name: str) -> str:
    """What to say of a name that is not registered."""
    hint = did_you_mean(name, [*RANKERS, *ALIASES], ALIASES)
    return f"there is no ranker named {name!r}; the known ones are: {', '.join(sorted(RANKERS))}{hint}"


def ranker_class(name: str) -> Any:
    """The class registered under `name`; an unknown name is a ValueError that lists the known ones."""
    if name not in RANKERS:
        raise ValueError(no_ranker(name))
    module, _, attribute = RANKERS[name].partition(":")
    return getattr(import_module(module), attribute)


def names_of_rankers(rankers: Iterable[object]) -> list[str]:
    """What some rankers are called in results: their registered names, else their classes', numbered where equal."""
    names = [_name_of(type(ranker)) or type(ranker).__name__ for ranker in rankers]
    return [name if names.count(name) == 1 else f"{name} {i + 1}" for i, name in enumerate(names)]


def ranker_name(cls: type) -> str:
    """The registered name of a ranker class."""
    name = _name_of(cls)
    if name is None:
        raise ValueError(f"{cls.__qualname__} is not in hingerank.registry.RANKERS, the registry of rankers")
    return name


def _name_of(cls: type) -> str | None:
    home = f"{cls.__module__}:{cls.__qualname__}"
    return next((name for name, place in RANKERS.items() if place == home), None)
