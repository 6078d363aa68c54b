"""The registry of rankers: the name used on the command line and in model files -> "module:Class".

Contract tests run over it, and a model file can name nothing else. Classes are imported when they are asked for.
"""

from importlib import import_module
from typing import Any

RANKERS: dict[str, str] = {
    "rank-svm": "hingerank.rankers.linear:RankSVM",
    "kernel-rank-svm": "hingerank.rankers.kernel:KernelRankSVM",
    "nystroem-rank-svm": "hingerank.rankers.kernel:NystroemRankSVM",
    "fourier-rank-svm": "hingerank.rankers.kernel:FourierRankSVM",
    "additive-rank-svm": "hingerank.rankers.additive:AdditiveRankSVM",
    "factorized": "hingerank.rankers.multipliers:FactorizedRankSVM",
    "regularized": "hingerank.rankers.multipliers:RegularizedRankSVM",
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
    "prank": "hingerank.rankers.ordinal:PRank",
    "svm-map": "hingerank.rankers.measured:SVMMAP",
    "lambdarank": "hingerank.rankers.measured:LambdaRank",
    "softrank": "hingerank.rankers.measured:SoftRank",
    "rankcosine": "hingerank.rankers.measured:RankCosine",
    "adarank": "hingerank.rankers.boosting:AdaRank",
    "rankboost": "hingerank.rankers.boosting:RankBoost",
    "lightgbm": "hingerank.rankers.trees:LightGBMRanker",
    "gbrank": "hingerank.rankers.gbrank:GBRank",
    "mcrank": "hingerank.rankers.mcrank:McRank",
    "xgboost": "hingerank.rankers.trees:XGBoostRanker",
    "mmr": "hingerank.diversity.selection:MMR",
    "xquad": "hingerank.diversity.selection:XQuAD",
    "pm2": "hingerank.diversity.selection:PM2",
    "r-ltr": "hingerank.diversity.learning:RLTR",
    "pamm": "hingerank.diversity.learning:PAMM",
    "svm-div": "hingerank.diversity.structural:SVMDiv",
    "struct-svm-div": "hingerank.diversity.structural:StructSVMDiv",
    "personal-rank-svm": "hingerank.personal.factorized:PersonalRankSVM",
    "matrix-completion": "hingerank.personal.completion:InductiveMatrixCompletion",
    "mean-variance": "hingerank.personal.convex:MeanVarianceRanker",
    "separate": "hingerank.personal.convex:SeparateRanker",
    "joint": "hingerank.personal.convex:JointRanker",
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


def ranker_class(name: str) -> Any:
    """The class registered under `name`; an unknown name is a ValueError that lists the known ones."""
    if name not in RANKERS:
        raise ValueError(f"there is no ranker named {name!r}; the known ones are: {', '.join(sorted(RANKERS))}")
    module, _, attribute = RANKERS[name].partition(":")
    return getattr(import_module(module), attribute)


def ranker_name(cls: type) -> str:
    """The registered name of a ranker class."""
    home = f"{cls.__module__}:{cls.__qualname__}"
    for name, place in RANKERS.items():
        if place == home:
            return name
    raise ValueError(f"{cls.__qualname__} is not in hingerank.registry.RANKERS, the registry of rankers")
