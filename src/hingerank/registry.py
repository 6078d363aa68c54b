"""The registry of rankers: the name used on the command line and in model files -> "module:Class".

Contract tests run over it, and a model file can name nothing else. Classes are imported when they are asked for.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

_TABLE = {  # name: (module:Class, summary for `hingerank models`)
    "rank-svm": ("rankers.linear:RankSVM", "linear score, hinge or another loss of pairs; the one to start with"),
    "kernel-rank-svm": ("rankers.kernel:KernelRankSVM", "kernel score over all rows, for up to some ten thousand rows"),
    "nystroem-rank-svm": ("rankers.kernel:NystroemRankSVM", "kernel score over landmarks, for many rows"),
    "fourier-rank-svm": ("rankers.kernel:FourierRankSVM", "kernel score by random Fourier features, for many rows"),
    "additive-rank-svm": ("rankers.additive:AdditiveRankSVM", "one readable curve per feature, and pairs of features"),
    "factorized": ("rankers.low_rank:FactorizedRankSVM", "linear score, low-rank multipliers by factorisation"),
    "regularized": ("rankers.low_rank:RegularizedRankSVM", "linear score, low-rank multipliers by a nuclear norm"),
    "ranking-fm": ("rankers.low_rank:RankingFM", "a product of every two features, low rank: a factorization machine"),
    "fenchel-rank": ("rankers.sparse:FenchelRank", "sparse linear score, bounded sum of absolute weights"),
    "sparse-rank-svm": ("rankers.sparse:SparseRankSVM", "sparse linear score, absolute weights penalised"),
    "tg-rank": ("rankers.sparse:TGRank", "sparse linear score by truncated gradient"),
    "rs-rank": ("rankers.sparse:RSRank", "sparse linear score, pairs weighted by their effect on NDCG"),
    "feature-selection": (
        "rankers.feature_selection:FeatureSelectionRanker",
        "rank-svm on the features that rank best alone",
    ),
    "ranknet": ("rankers.linear:RankNet", "linear score, logistic loss of pairs"),
    "listnet": ("rankers.linear:ListNet", "linear score, cross entropy of top-one probabilities"),
    "listmle": ("rankers.linear:ListMLE", "linear score, likelihood of the ideal ranking"),
    "rankrls": ("rankers.least_squares:RankRLS", "linear score, squared differences of grades"),
    "frank": ("rankers.linear:FRank", "linear score, fidelity loss of pairs"),
    "crr": ("rankers.least_squares:CRR", "linear score, regression and ranking combined"),
    "pointwise-regression": (
        "rankers.least_squares:PointwiseRegression",
        "linear score, ridge regression of the grades",
    ),
    "ordinal-svm": ("rankers.ordinal:OrdinalSVM", "linear score and thresholds between grades, large margins"),
    "prank": ("rankers.ordinal:PRank", "linear score and thresholds, an ordinal perceptron"),
    "svm-map": ("rankers.measured:SVMMAP", "linear score, structural SVM for average precision"),
    "lambdarank": ("rankers.measured:LambdaRank", "linear score, pairs weighted by the change of NDCG"),
    "softrank": ("rankers.measured:SoftRank", "linear score, expected NDCG of noisy scores"),
    "rankcosine": ("rankers.measured:RankCosine", "linear score, cosine between scores and grades"),
    "adarank": ("rankers.boosting:AdaRank", "boosted single features, queries reweighted"),
    "rankboost": ("rankers.boosting:RankBoost", "boosted thresholds on features, pairs reweighted"),
    "lightgbm": ("rankers.tree_rankers:LightGBMRanker", "LambdaMART trees by LightGBM"),
    "gbrank": ("rankers.tree_rankers:GBRank", "boosted trees, squared hinge loss of pairs"),
    "mcrank": ("rankers.tree_rankers:McRank", "boosted trees, classification into grades"),
    "xgboost": ("rankers.tree_rankers:XGBoostRanker", "LambdaMART trees by XGBoost"),
    "blend": ("rankers.blend:Blend", "a weighted sum of the scores of other rankers"),
    "mmr": ("diversity.selection:MMR", "relevance against similarity to what is chosen"),
    "xquad": ("diversity.selection:XQuAD", "coverage of aspects that are still open"),
    "pm2": ("diversity.selection:PM2", "aspects in proportion to their weights"),
    "r-ltr": ("diversity.learning:RLTR", "learned relevance and novelty, likelihood of rankings"),
    "pamm": ("diversity.learning:PAMM", "learned relevance and novelty, perceptron for a measure"),
    "svm-div": ("diversity.structural:SVMDiv", "structural SVM that covers the words of documents"),
    "struct-svm-div": ("diversity.structural:StructSVMDiv", "structural SVM for a diversity measure"),
    "personal-rank-svm": ("personal.factorized:PersonalRankSVM", "one linear score per user, low rank over users"),
    "matrix-completion": (
        "personal.factorized:InductiveMatrixCompletion",
        "ratings fitted from item features, low rank over users",
    ),
    "mean-variance": ("personal.convex:MeanVarianceRanker", "a shared score, and one per user near it"),
    "separate": ("personal.convex:SeparateRanker", "one linear score per user, each learned alone"),
    "joint": ("personal.convex:JointRanker", "one linear score for all users"),
    "ease": ("personal.item_item:EASE", "items by the items a user took, full rank, closed form"),
    "list-ranker": ("personal.lists:ListRanker", "lists over a catalogue: what is chosen times what is liked"),
}
RANKERS = {name: f"hingerank.{place}" for name, (place, _) in _TABLE.items()}
SUMMARIES = {name: words for name, (_, words) in _TABLE.items()}

ALIASES = {
    "lambdamart": "lightgbm",
    "ranksvm": "rank-svm",
    "svmrank": "rank-svm",
    "structsvm": "struct-svm-div",
}  # names of other programs


def registered_name(text: str) -> str:
    """The registered name meant by `text`: the name or the class's name in any spelling, or a part of it that is clear.

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
    """The end of a message about an unknown name: known names that are similar, or nothing.

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
    return f"there is no ranker named {name!r} (hingerank models lists them){hint}"


def ranker_class(name: str) -> Any:
    """The class registered under `name`; an unknown name is a ValueError that suggests similar ones."""
    if name not in RANKERS:
        raise ValueError(no_ranker(name))
    module, _, attribute = RANKERS[name].partition(":")
    return getattr(import_module(module), attribute)


def learns_from(name: str) -> str:
    """What the ranker registered under `name` learns from: graded rows, ratings of users, or topics to diversify.

    >>> [learns_from(name) for name in ("rank-svm", "ease", "mmr")]
    ['rows', 'ratings', 'topics']
    """
    if name not in RANKERS:
        raise ValueError(no_ranker(name))
    return {"personal": "ratings", "diversity": "topics"}.get(RANKERS[name].split(".")[1], "rows")


def names_of_rankers(rankers: Iterable[object]) -> list[str]:
    """The names of rankers in results: registered names, or else those of classes; equal names are numbered."""
    names = [registered_as(type(ranker)) or type(ranker).__name__ for ranker in rankers]
    return [name if names.count(name) == 1 else f"{name} {i + 1}" for i, name in enumerate(names)]


def ranker_name(cls: type) -> str:
    """The registered name of a ranker class."""
    name = registered_as(cls)
    if name is None:
        raise ValueError(f"{cls.__qualname__} is not in hingerank.registry.RANKERS, the registry of rankers")
    return name


def registered_as(cls: type) -> str | None:
    """The registered name of a class, if it has one."""
    home = f"{cls.__module__}:{cls.__qualname__}"
    return next((name for name, place in RANKERS.items() if place == home), None)
