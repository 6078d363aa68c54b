"""Models for the learning-to-rank modules of Solr, Elasticsearch and OpenSearch, which score in single precision.

A feature x contributes weight · (x − mean) / width. There is no offset, so a constant added to all scores (a shift,
since Lucene forbids negative ones) moves the mean of the feature with the largest weight. Features are
the engine's own, or defined beside the model.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import SupportsFloat
from xml.etree import ElementTree

import numpy as np

from hingerank.arrays import Facts, Given
from hingerank.data.scaling import ColumnScaler
from hingerank.export.forest import MISSING_LEFT
from hingerank.export.forms import Affine, ExportError, Form, Trees, largest_below, largest_single, missing_matters

# these engines have features of their own and normalizers that scale them; they score in single precision, allow no
# negative scores, and take a feature without a value for 0, except in trees
LUCENE = ("solr", "elasticsearch", "opensearch")
SLACK = np.float32(1e-6)  # Solr adds this to every threshold of a tree
NORMALIZER = "org.apache.solr.ltr.norm.StandardNormalizer"
LINEAR, TREES = "org.apache.solr.ltr.model.LinearModel", "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"


def used_names(form: Form) -> list[str]:
    """Names of the features that the score depends on; at least one."""
    names = [form.names[j] for j in form.features_used()] or [form.names[0]]
    if "" in names:
        raise ExportError("a feature has the empty name '', but this engine needs one: name it by features=")
    return names


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
    if to not in LUCENE:
        raise ExportError(f"features is an engine's list of features, and {to} has none: give a mapping of names")
    if not all(isinstance(entry, Mapping) and isinstance(entry.get("name"), str) for entry in entries):
        raise ExportError("features is a list, but not an engine's: every entry of an engine's list has a name")
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
    if to not in LUCENE or (listed is None and not options.get("define")):
        return None
    return [*(listed or []), *(n for n in used_names(form) if n not in (listed or []))]


def to_define(used: Sequence[str], about: Given, define: bool, keys: Sequence[str]) -> dict[str, Facts]:
    """The features to write definitions of, and the entries `keys` of the mapping for each: with `define` those that
    the engine's own list, about["listed"], lacks, else none."""
    listed = about["listed"]
    given = {n: {key: entry[key] for key in keys if key in entry} for n, entry in about["features"].items()}
    lacking = [n for n in used if listed is None or n not in listed]
    if define:
        return {n: given.get(n, {}) for n in lacking}
    if own := [n for n, entry in given.items() if entry]:
        raise ExportError(f"the mapping defines {own[0]!r}: pass define=True to write definitions of the features")
    if listed is not None and lacking:
        raise ExportError(
            f"the engine's list of features lacks {', '.join(lacking)}, which the model uses (it has "
            f"{', '.join(listed) or 'none'}): map the names to the engine's, or pass define=True to define these"
        )
    return {}


def write_solr(
    form: Form, about: Facts, name: str, store: str, shift: float, missing: bool | None, define: bool
) -> list[str]:
    """model.json and, with `define`, features.json, for schema/model-store and schema/feature-store."""
    used = used_names(form)
    features = [
        {"store": store, "name": n, "class": "org.apache.solr.ltr.feature.FieldValueFeature", "params": {"field": n}}
        | given
        for n, given in to_define(used, about, define, ("class", "params")).items()
    ]
    model: Facts = {"class": LINEAR, "name": name, "store": store}
    if isinstance(form.body, Trees):
        needed = missing_matters(form.body) if missing is None else missing
        listed = solr_trees(form, shift, needed)
        model |= {"class": TREES, "features": [{"name": n} for n in used]}
        model["params"] = ({"isNullSameAsZero": "false"} if needed else {}) | {"trees": listed}
    else:
        means, widths, weights = normalized(form, shift)
        norms = {n: {"avg": text(means[n]), "std": text(widths[n])} for n in means}
        model["features"] = [
            {"name": n} | ({"norm": {"class": NORMALIZER, "params": norms[n]}} if n in norms else {}) for n in used
        ]
        model["params"] = {"weights": weights}
    return [json.dumps(model, indent=1), json.dumps(features, indent=1) if features else ""]


def write_plugin(form: Form, about: Facts, name: str, shift: float, ranklib: bool, define: bool) -> list[str]:
    """model.json and, with `define`, featureset.json: bodies of _ltr/_featureset/SET/_createmodel and of the set."""
    features = []
    wanted = to_define(used_names(form), about, define, ("params", "template_language", "template"))
    for n, given in wanted.items():
        value = {"field_value_factor": {"field": n, "missing": 0}, "query": {"match_all": {}}, "boost_mode": "replace"}
        plain = {"name": n, "params": [], "template_language": "mustache", "template": {"function_score": value}}
        if "{{" in n and "template" not in given:
            raise ExportError(
                f"the feature {n!r} contains '{{{{', which a template replaces: rename it, or give its template"
            )
        features.append(plain | given)
    model: Facts = {"type": "model/linear"}
    if ranklib:
        model = {"type": "model/ranklib", "definition": ranklib_text(form.folded(always=True), shift, about["set"])}
    elif isinstance(form.body, Trees):
        splits = plugin_trees(form, shift)
        model = {"type": "model/xgboost+json", "definition": json.dumps({"objective": "reg:linear", "splits": splits})}
    else:
        means, widths, weights = normalized(form, shift)
        model["feature_normalizers"] = {
            n: {"standard": {"mean": single(means[n]), "standard_deviation": single(widths[n])}} for n in means
        }
        model["definition"] = weights
    featureset = {"featureset": {"name": f"{name}_features", "features": features}}
    made = {"model": {"name": name, "model": model}}
    return [json.dumps(made, indent=1), json.dumps(featureset, indent=1) if features else ""]


def shift_for(form: Form, scores: np.ndarray | None, given: str) -> float:
    """A constant that makes scores non-negative: of any row for trees, else with room for half the scores' range.

    given: how a user gives the rows of the scores.
    """
    body = form.body
    if isinstance(body, Trees):
        bounds = np.append(body.roots, len(body.number))
        leaves = np.where(body.feature < 0, body.number, np.inf)
        least = body.start + sum(leaves[a:b].min() for a, b in pairwise(bounds))
        return max(0.0, float(-least) * (1 + 1e-5))
    if scores is None:
        raise ExportError(f"shift='auto' is computed from scores of rows: pass {given}, or give a number")
    return max(0.0, float(np.ptp(scores) / 2 - scores.min()))


def normalized(form: Form, shift: float) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Means and widths of the features that have them, and weights, by name: an offset moves one mean."""
    body, used = form.body, form.used()
    assert isinstance(body, Affine)
    constant = float(body.offset) + float(shift)
    weights = {form.names[j]: single(body.weights[j]) for j in used} or {form.names[0]: 0.0}
    means: dict[str, float] = {}
    widths: dict[str, float] = {}
    scaling = form.scaling
    if isinstance(scaling, ColumnScaler):
        means = {form.names[j]: float(scaling.centre_[j]) for j in used}
        widths = {form.names[j]: float(scaling.width_[j]) for j in used}
    if constant:
        if not len(used):
            raise ExportError("all weights of the model are 0, so no feature can carry a shift: leave shift out")
        j = used[np.argmax(np.abs(body.weights[used]))]
        n = form.names[j]
        widths.setdefault(n, 1.0)
        means[n] = means.get(n, 0.0) - constant * widths[n] / float(body.weights[j])
    return means, widths, weights


def solr_trees(form: Form, shift: float, missing: bool) -> list[Facts]:
    """Trees whose thresholds, after Solr has added its slack, are the largest singles that go left."""
    body = form.body
    assert isinstance(body, Trees)
    limit = before_slack(largest_single(body.number))

    def node(k: int) -> Facts:
        if body.feature[k] < 0:
            return {"value": text(body.number[k])}
        first, way = int(body.child[k]), "left" if body.missing[k] & MISSING_LEFT else "right"
        found = {"feature": form.names[body.feature[k]], "threshold": text(limit[k])}
        found |= {"missing": way} if missing else {}
        return found | {"left": node(first), "right": node(first + 1)}

    trees = [{"weight": "1", "root": node(root)} for root in body.roots.tolist()]
    start = body.start + shift
    return trees + ([{"weight": "1", "root": {"value": text(start)}}] if start else [])


def plugin_trees(form: Form, shift: float) -> list[Facts]:
    """Trees in the form of XGBoost's dump, where a row goes to `yes` if it is below the condition."""
    body = form.body
    assert isinstance(body, Trees)
    # the next single; nothing follows the largest one, since JSON has no infinity
    limit = np.nextafter(largest_single(body.number), np.finfo(np.float32).max)

    def node(k: int, root: int) -> Facts:
        if body.feature[k] < 0:
            return {"nodeid": k - root, "leaf": single(body.number[k])}
        first = int(body.child[k])
        yes, no = first - root, first + 1 - root
        missing = yes if body.missing[k] & MISSING_LEFT else no
        found = {"nodeid": k - root, "split": form.names[body.feature[k]], "split_condition": float(limit[k])}
        found |= {"yes": yes, "no": no, "missing": missing}
        return found | {"children": [node(first, root), node(first + 1, root)]}

    start = body.start + shift
    return [node(k, k) for k in body.roots.tolist()] + ([{"nodeid": 0, "leaf": single(start)}] if start else [])


def ranklib_text(form: Form, shift: float, order: Sequence[str] | None) -> str:
    """A model in RankLib's own format, with features numbered from 1 in the order of the feature set.

    Linear models are sums in double precision with an offset; trees send a row left if it is at most the threshold.
    """
    if order is None:
        raise ExportError(
            "model/ranklib numbers features by their order in the feature set: give the engine's own set by features=, "
            "or pass define=True to write one"
        )
    place = {name: k for k, name in enumerate(order, 1)}
    body = form.body
    number = {int(j): place[form.names[j]] for j in (form.used() if len(form.used()) else [0])}
    if isinstance(body, Affine):
        numbers = [(0, body.offset + shift), *((k, body.weights[j]) for j, k in number.items())]
        said = " ".join(f"{k}:{float(value)!r}" for k, value in numbers)
        return f"## Linear Regression\n## Lambda = 0.0\n{said}"
    assert isinstance(body, Trees)
    if missing_matters(body):
        raise ExportError("RankLib treats missing values as zeros, but these trees do not: leave ranklib out")
    limit = largest_single(body.number)

    def node(k: int, way: str = "") -> str:
        if body.feature[k] < 0:
            inside = f"<output> {text(body.number[k])} </output>"
        else:
            first, j = int(body.child[k]), number[int(body.feature[k])]
            inside = f"<feature> {j} </feature>\n<threshold> {text(limit[k])} </threshold>\n"
            inside += node(first, ' pos="left"') + node(first + 1, ' pos="right"')
        return f"<split{way}>\n{inside}\n</split>\n"

    start = body.start + shift
    trees = [node(root) for root in body.roots.tolist()]
    trees += [f"<split>\n<output> {text(start)} </output>\n</split>\n"] if start else []
    listed = "".join(f'<tree id="{k}" weight="1.0">\n{tree}</tree>\n' for k, tree in enumerate(trees, 1))
    return f"## LambdaMART\n\n<ensemble>\n{listed}</ensemble>\n"


def before_slack(limit: np.ndarray) -> np.ndarray:
    """The singles t with t + SLACK, in single precision, at the limit, or else just above: rows may have the limit as a
    value. A negative limit is never raised to 0, which is an even more frequent value."""
    t = largest_single(largest_below(limit, lambda x: x.astype(np.float32) + SLACK))
    with np.errstate(over="ignore"):
        above = np.nextafter(t, np.float32(np.inf))
        return np.where((t + SLACK < limit) & ~((limit < 0) & (above + SLACK >= 0)), above, t)


def single(value: SupportsFloat) -> float:
    with np.errstate(over="ignore"):
        found = float(np.float32(value))
    if not np.isfinite(found):
        raise ExportError(
            f"the model has the number {float(value)!r}, beyond this engine's single precision: rescale the features"
        )
    return found


def text(value: SupportsFloat) -> str:
    return repr(single(value))


def run_solr(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Scores by Solr's arithmetic."""
    model = json.loads(files[0].read_text("utf-8"))
    rows = dict(zip(form.names, X.astype(np.float32).T, strict=True))
    if model["class"] == LINEAR:
        norms = {f["name"]: f["norm"]["params"] for f in model["features"] if "norm" in f}
        scales = {n: (np.float32(p["avg"]), np.float32(p["std"])) for n, p in norms.items()}
        return _sum(rows, model["params"]["weights"], scales)
    total = np.zeros(len(X), np.float32)
    for tree in model["params"]["trees"]:
        total += np.float32(tree["weight"]) * _solr_tree(tree["root"], rows, len(X))
    return total.astype(np.float64)


def _solr_tree(node: Facts, rows: dict[str, np.ndarray], count: int) -> np.ndarray:
    if "value" in node:
        return np.full(count, np.float32(node["value"]))
    x, limit = rows[node["feature"]], np.float32(node["threshold"]) + SLACK
    x = np.nan_to_num(x, nan=0.0) if "missing" not in node else x
    left = np.where(np.isnan(x), node.get("missing") == "left", x <= limit)
    return np.where(left, _solr_tree(node["left"], rows, count), _solr_tree(node["right"], rows, count))


def run_plugin(files: list[Path], form: Form, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Scores by the arithmetic of the plugins of Elasticsearch and OpenSearch."""
    model = json.loads(files[0].read_text("utf-8"))["model"]["model"]
    rows = dict(zip(form.names, X.astype(np.float32).T, strict=True))
    if model["type"] == "model/linear":
        norms = {n: v["standard"] for n, v in model["feature_normalizers"].items()}
        scales = {n: (np.float32(v["mean"]), np.float32(v["standard_deviation"])) for n, v in norms.items()}
        return _sum(rows, model["definition"], scales)
    if model["type"] == "model/ranklib":
        order = json.loads(files[-1].read_text("utf-8"))["set"]
        absent = np.zeros(len(X), np.float32)
        return _run_ranklib(model["definition"], np.array([rows.get(n, absent) for n in order]))
    total = np.zeros(len(X), np.float32)
    for tree in json.loads(model["definition"])["splits"]:
        total += _plugin_tree(tree, rows, len(X))
    return total.astype(np.float64)


def _plugin_tree(node: Facts, rows: dict[str, np.ndarray], count: int) -> np.ndarray:
    if "leaf" in node:
        return np.full(count, np.float32(node["leaf"]))
    x, (yes, no) = rows[node["split"]], node["children"]
    left = np.where(np.isnan(x), node["missing"] == node["yes"], x < np.float32(node["split_condition"]))
    return np.where(left, _plugin_tree(yes, rows, count), _plugin_tree(no, rows, count))


def _run_ranklib(definition: str, columns: np.ndarray) -> np.ndarray:
    """Scores by RankLib's arithmetic: linear models in double precision, trees in single; missing values are zeros."""
    columns = np.nan_to_num(columns, nan=0.0)
    *_, last = definition.splitlines()
    if definition.startswith("## Linear Regression"):
        (_, offset), *weights = (pair.split(":") for pair in last.split())
        places = [int(place) - 1 for place, _ in weights]
        return float(offset) + np.array([float(w) for _, w in weights]) @ columns[places].astype(np.float64)
    total = np.zeros(columns.shape[1], np.float32)
    for tree in ElementTree.fromstring(definition.partition("\n")[2]).iter("tree"):
        total += _ranklib_tree(tree[0], columns)
    return total.astype(np.float64)


def _ranklib_tree(node: ElementTree.Element, columns: np.ndarray) -> np.ndarray:
    said = [str(part.text) for part in node if part.tag != "split"]
    if len(said) == 1:
        return np.full(columns.shape[1], np.float32(said[0]))
    left, right = node.findall("split")
    below = columns[int(said[0]) - 1] <= np.float32(said[1])
    return np.where(below, _ranklib_tree(left, columns), _ranklib_tree(right, columns))


def _sum(rows: dict[str, np.ndarray], weights: dict[str, float], scales: Facts) -> np.ndarray:
    """Weights times scaled features, a missing one being 0, summed in single precision one after another."""
    total = np.zeros(len(next(iter(rows.values()))), np.float32)
    for name, weight in weights.items():
        mean, width = scales.get(name, (np.float32(0), np.float32(1)))
        x = np.where(np.isnan(rows[name]), np.float32(0), rows[name])
        total += np.float32(weight) * ((x - mean) / width)
    return total.astype(np.float64)
