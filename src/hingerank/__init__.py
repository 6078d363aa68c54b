"""hingerank: learning to rank with the whole Ranking SVM family.

Public names are imported where they are first used, so that ``import hingerank`` costs little.
"""

from importlib import import_module
from typing import Any

from hingerank.registry import RANKERS as _RANKERS

__version__ = "0.3.0"

# public name -> module that defines it; rankers are those of the registry
_HOME = {
    "DataError": "hingerank.data.files",
    "RankingData": "hingerank.data.ranking_data",
    "OneQueryWarning": "hingerank.data.checks",
    "ScaleWarning": "hingerank.data.checks",
    "ExplicitPairs": "hingerank.preferences",
    "GradedPreferences": "hingerank.preferences",
    "WeightedWinners": "hingerank.preferences",
    **{place.partition(":")[2]: place.partition(":")[0] for place in _RANKERS.values()},
    "tune": "hingerank.search.tuning",
    "progress": "hingerank.watching",
    "search_kernel": "hingerank.search.kernel_search",
    "ExportError": "hingerank.export.forms",
    "export": "hingerank.export",
    "upload": "hingerank.export.uploading",
    "ModelFileError": "hingerank.export.model_file",
    "load": "hingerank.export.model_file",
    "DiverseData": "hingerank.diversity.queries",
    "DiverseQuery": "hingerank.diversity.queries",
    "ClickLog": "hingerank.clicks.log",
    "evaluate_clicks": "hingerank.clicks.value",
    "simulate_clicks": "hingerank.clicks.simulation",
    "Method": "hingerank.lab",
    "compare": "hingerank.lab",
    "leaderboard": "hingerank.lab",
    "evaluate": "hingerank.metrics",
    "fetch": "hingerank.data.fetching",
    "evaluate_diversity": "hingerank.diversity.measures",
    "evaluate_run": "hingerank.lab.trec_evaluation",
    "make_benchmark": "hingerank.data.generate",
    "make_diverse": "hingerank.diversity.generate",
    "make_letor": "hingerank.data.generate",
    "make_like": "hingerank.data.generate",
    "Ratings": "hingerank.personal.ratings",
    "read_rating_parts": "hingerank.distributed.ratings",
    "read_ratings": "hingerank.personal.ratings",
    "ratings_from": "hingerank.personal.ratings",
    "split_by_user": "hingerank.personal.ratings",
    "split_by_item": "hingerank.personal.ratings",
    "split_by_time": "hingerank.personal.ratings",
    "split_last": "hingerank.personal.ratings",
    "age_weights": "hingerank.personal.ratings",
    "read_movielens": "hingerank.personal.rating_sets",
    "genre_features": "hingerank.personal.item_features",
    "word_features": "hingerank.personal.item_features",
    "identity_features": "hingerank.personal.item_features",
    "embedding_features": "hingerank.personal.item_features",
    "join_features": "hingerank.personal.item_features",
    "evaluate_top": "hingerank.personal.top_n",
    "make_shop": "hingerank.clicks.simulation",
    "make_personal": "hingerank.personal.generate",
    "read": "hingerank.data.read_write",
    "Propensities": "hingerank.clicks.propensities",
    "propensities": "hingerank.clicks.propensities",
    "ClickModel": "hingerank.clicks.models",
    "click_model": "hingerank.clicks.models",
    "Judgments": "hingerank.clicks.judgments",
    "judgments": "hingerank.clicks.judgments",
    "interleave": "hingerank.clicks.interleaving",
    "interleaving_test": "hingerank.clicks.interleaving",
    "read_clicks": "hingerank.clicks.reading",
    "read_feature_log": "hingerank.data.feature_logs",
    "read_folds": "hingerank.data.read_write",
    "read_pieces": "hingerank.data.letor",
    "read_scores": "hingerank.data.letor",
    "write": "hingerank.data.read_write",
}

_ROOMS = ("distributed",)  # packages that are public as a whole

__all__ = ["__version__", *sorted([*_HOME, *_ROOMS])]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'hingerank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_ROOMS])
