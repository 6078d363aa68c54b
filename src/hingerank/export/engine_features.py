"""A search engine's own features: reading its lists of them, and which ones an export defines."""

from collections.abc import Mapping, Sequence

from hingerank.arrays import Facts, Given
from hingerank.export.forms import ExportError, Form

WITH_OWN_FEATURES = ("solr", "elasticsearch", "opensearch")


def used_names(form: Form) -> list[str]:
    """Names of the features that the score depends on; at least one."""
    names = [form.names[j] for j in form.features_used()] or [form.names[0]]
    if "" in names:
        raise ExportError("a feature has the empty name '', but this engine needs one: name it by features=")
    return names


def by_engine_name(features: Given) -> dict[str, Given]:
    """The entries of a mapping, by the engine's names."""
    return {str(v.get("name", k)): v for k, v in features.items() if isinstance(v, Mapping)}


def own_list(features: object, to: str) -> tuple[Given, list[str] | None]:
    """The given mapping of names, or the names in an engine's own list of features.

    Such a list is Solr's response to GET schema/feature-store/STORE, the plugins' response to GET _ltr/_featureset/SET,
    or what was sent to them.

    >>> own_list({"f1": "title"}, "solr"), own_list({"features": [{"name": "title"}]}, "solr")
    (({'f1': 'title'}, None), ({}, ['title']))
    """
    entries = entries_of(features)
    if entries is None:
        if not isinstance(features, Mapping):
            raise ExportError(f"features must map names, or be an engine's list of features, not {features!r:.80}")
        return features, None
    if to not in WITH_OWN_FEATURES:
        raise ExportError(f"features is an engine's list of features, and {to} has none: give a mapping of names")
    if not all(isinstance(entry, Mapping) and isinstance(entry.get("name"), str) for entry in entries):
        raise ExportError("features is a list, but not an engine's: each entry of those has a name")
    return {}, [entry["name"] for entry in entries]


def entries_of(features: object) -> list[Facts] | None:
    """The entries of an engine's list of features; None for anything else."""
    for key in ("_source", "featureset"):
        inner = features.get(key) if isinstance(features, Mapping) else None
        features = inner if isinstance(inner, Mapping) else features
    if isinstance(features, Mapping):
        features = features.get("features")
    return features if isinstance(features, list) else None


def store_of(features: object) -> str | None:
    """The store that all features of Solr's own list are in, if they name one."""
    stores = {entry.get("store") for entry in entries_of(features) or []}
    return stores.pop() if len(stores) == 1 else None


def engine_set(form: Form, to: str, listed: Sequence[str] | None, options: Given) -> list[str] | None:
    """Names of the features of an engine's set in its order, if known: model/ranklib numbers features by it."""
    if to not in WITH_OWN_FEATURES or (listed is None and not options.get("define")):
        return None
    return [*(listed or []), *(n for n in used_names(form) if n not in (listed or []))]


def to_define(used: Sequence[str], about: Given, define: bool, keys: Sequence[str]) -> list[str]:
    """The features to write definitions of: with `define` those missing from the engine's own list, else none.

    Parameters
    ----------
    used : names of the features that the model uses
    about : "features", the mapping of names, and "listed", the engine's own features or None
    define : whether definitions are wanted
    keys : of the mapping's entries that are definitions
    """
    mapping, listed = by_engine_name(about["features"]), about["listed"]
    lacking = [n for n in used if listed is None or n not in listed]
    if define:
        return lacking
    given = [n for n, entry in mapping.items() if any(key in entry for key in keys)]
    if given:
        raise ExportError(f"the mapping defines {given[0]!r}: pass define=True to write definitions of the features")
    if listed is not None and lacking:
        raise ExportError(
            f"the engine's list of features lacks {', '.join(lacking)}, which the model uses (it has "
            f"{', '.join(listed) or 'none'}): map the names to the engine's, or pass define=True to define these"
        )
    return []
