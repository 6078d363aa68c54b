"""hingerank: learning to rank with the whole Ranking SVM family.

Public names are imported where they are first used, so that ``import hingerank`` costs little.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0.dev0"

# public name -> module that defines it
_HOME = {
    "DataError": "hingerank.data.errors",
    "RankingData": "hingerank.data.ranking_data",
    "ExplicitPairs": "hingerank.preferences",
    "GradedPreferences": "hingerank.preferences",
    "RankSVM": "hingerank.rankers.linear",
    "KernelRankSVM": "hingerank.rankers.kernel",
    "NystroemRankSVM": "hingerank.rankers.nystroem",
    "FourierRankSVM": "hingerank.rankers.fourier",
    "search_kernel": "hingerank.rankers.kernel_search",
    "FactorizedRankSVM": "hingerank.rankers.multiplier.factorized",
    "RegularizedRankSVM": "hingerank.rankers.multiplier.regularized",
    "FeatureSelectionRanker": "hingerank.rankers.sparse.feature_selection",
    "FenchelRank": "hingerank.rankers.sparse.fenchel",
    "RSRank": "hingerank.rankers.sparse.rsrank",
    "SparseRankSVM": "hingerank.rankers.sparse.penalised",
    "TGRank": "hingerank.rankers.sparse.tgrank",
    "RankNet": "hingerank.rankers.baselines.ranknet",
    "ListNet": "hingerank.rankers.baselines.listnet",
    "ListMLE": "hingerank.rankers.baselines.listmle",
    "RankRLS": "hingerank.rankers.baselines.rankrls",
    "FRank": "hingerank.rankers.baselines.frank",
    "CRR": "hingerank.rankers.baselines.crr",
    "AdaRank": "hingerank.rankers.baselines.adarank",
    "RankBoost": "hingerank.rankers.baselines.rankboost",
    "LightGBMRanker": "hingerank.rankers.trees.lightgbm_ranker",
    "XGBoostRanker": "hingerank.rankers.trees.xgboost_ranker",
    "PersonalRankSVM": "hingerank.personal.factorization",
    "InductiveMatrixCompletion": "hingerank.personal.completion",
    "MeanVarianceRanker": "hingerank.personal.mean_variance",
    "SeparateRanker": "hingerank.personal.separate",
    "JointRanker": "hingerank.personal.joint",
    "ModelFileError": "hingerank.export.model_file",
    "load": "hingerank.export.model_file",
    "DiverseData": "hingerank.diversity.queries",
    "DiverseQuery": "hingerank.diversity.queries",
    "MMR": "hingerank.diversity.mmr",
    "PAMM": "hingerank.diversity.pamm",
    "PM2": "hingerank.diversity.pm2",
    "RLTR": "hingerank.diversity.rltr",
    "SVMDiv": "hingerank.diversity.svmdiv",
    "StructSVMDiv": "hingerank.diversity.structsvmdiv",
    "XQuAD": "hingerank.diversity.xquad",
    "Method": "hingerank.lab",
    "compare": "hingerank.lab",
    "leaderboard": "hingerank.lab",
    "evaluate": "hingerank.metrics",
    "fetch": "hingerank.data.fetching",
    "evaluate_diversity": "hingerank.diversity.measures",
    "make_benchmark": "hingerank.data.generate",
    "make_diverse": "hingerank.diversity.generate",
    "make_letor": "hingerank.data.generate",
    "make_like": "hingerank.data.generate",
    "make_personal": "hingerank.personal.generate",
    "read": "hingerank.data.reader",
    "read_folds": "hingerank.data.folds",
    "read_pieces": "hingerank.data.reader",
    "read_scores": "hingerank.data.reader",
    "write": "hingerank.data.writer",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'hingerank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
