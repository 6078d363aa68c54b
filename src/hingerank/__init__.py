"""hingerank: learning to rank with the whole Ranking SVM family.

Public names are imported where they are first used, so that ``import hingerank`` costs little.
"""

from importlib import import_module
from typing import Any

from hingerank.registry import RANKERS as _RANKERS

__version__ = "0.3.0"

# module -> its public names; those of the rankers are in the registry
_NAMES = {
    "hingerank.data.files": "DataError",
    "hingerank.data.ranking_data": "RankingData",
    "hingerank.data.checks": "OneQueryWarning ScaleWarning",
    "hingerank.data.read_write": "read read_folds write",
    "hingerank.data.letor": "read_pieces read_scores",
    "hingerank.data.feature_logs": "read_feature_log",
    "hingerank.data.fetching": "fetch",
    "hingerank.data.generate": "make_benchmark make_letor make_like",
    "hingerank.preferences": "ExplicitPairs GradedPreferences WeightedWinners",
    "hingerank.metrics": "evaluate",
    "hingerank.search.tuning": "tune",
    "hingerank.search.kernel_search": "search_kernel",
    "hingerank.watching": "progress",
    "hingerank.export": "export",
    "hingerank.export.forms": "ExportError",
    "hingerank.export.model_file": "ModelFileError load",
    "hingerank.export.uploading": "upload",
    "hingerank.personal.ratings": (
        "Ratings read_ratings ratings_from split_by_user split_by_item split_by_time split_last age_weights"
    ),
    "hingerank.personal.rating_sets": "read_movielens",
    "hingerank.personal.item_features": (
        "genre_features word_features identity_features embedding_features join_features"
    ),
    "hingerank.personal.top_n": "evaluate_top",
    "hingerank.personal.generate": "make_personal",
    "hingerank.diversity.queries": "DiverseData DiverseQuery",
    "hingerank.diversity.measures": "evaluate_diversity",
    "hingerank.diversity.generate": "make_diverse",
    "hingerank.clicks.log": "ClickLog",
    "hingerank.clicks.reading": "read_clicks",
    "hingerank.clicks.propensities": "Propensities propensities",
    "hingerank.clicks.models": "ClickModel click_model",
    "hingerank.clicks.judgments": "Judgments judgments",
    "hingerank.clicks.interleaving": "interleave interleaving_test",
    "hingerank.clicks.value": "evaluate_clicks",
    "hingerank.clicks.simulation": "make_shop simulate_clicks",
    "hingerank.distributed.ratings": "read_rating_parts",
    "hingerank.lab": "Method compare leaderboard",
    "hingerank.lab.trec_evaluation": "evaluate_run",
}
_HOME = {name: module for module, _, name in (place.partition(":") for place in _RANKERS.values())}
_HOME |= {name: module for module, names in _NAMES.items() for name in names.split()}

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
