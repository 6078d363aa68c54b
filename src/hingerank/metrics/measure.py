"""Measures as values, parsed from names such as "ndcg@10" or "map:lightgbm"::

    name    = kind [ "@" cutoff ] { ":" setting }
    setting = preset | option "=" value

Kinds are in the registry ``MEASURES``; ``register`` adds one, whose names then follow the same grammar. A ``Preset``
records every choice in which named tools differ: the same ranking scores 0.131 to 0.728 NDCG@10 under ten of them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from hingerank.data.checks import decimal
from hingerank.registry import did_you_mean


def _above(x: float) -> float:
    """The threshold t for which  grade >= t  means  grade > x."""
    return float(np.nextafter(x, np.inf))


@dataclass(frozen=True)
class Preset:
    """The choices in which the tools differ.

    Parameters
    ----------
    gain : "exponential" 2^g - 1, or "linear" g
        Grades below 0 gain 0.
    discount : at rank r, "log2" 1/log2(r+1), or "letor" 1, 1, then 1/log2(r)
    ndcg_empty, map_empty, recall_empty : NDCG, AP and recall of a query without a relevant item
    empty : the same for every measure, overriding the three above
        nan leaves such a query out of the mean. None: as above, and 0 for the other measures.
    short : NDCG@k of a query with fewer than k items
        "truncate" uses the items there are, "zero" gives 0.
    precision : P@k of such a query
        Divide by "k" or by the "list" length, or "zero".
    relevant : the least grade that is relevant, for P, recall, MAP and MRR
    map_divisor : what AP@k divides by
        All "relevant" items, "cutoff" for min(relevant, k), or "whole", which ignores k.
    ties : the order of equal scores
        "average" is the expected value over all their orders, "stable" keeps row order, "worst" ranks the lowest grade
        first, "docid" compares scores in single precision and ranks the larger docid first (row order without docids).
    grades : which grades a gain is defined for
        "any", "nonnegative", or "label_gain" (whole, 0 to 30).
    max_grade : the top of the scale in ERR
        None takes the largest grade of the call.
    """

    gain: str = "exponential"
    discount: str = "log2"
    ndcg_empty: float = 0.0
    map_empty: float = 0.0
    recall_empty: float = 0.0
    empty: float | None = None
    short: str = "truncate"
    precision: str = "k"
    relevant: float = _above(0.0)
    map_divisor: str = "relevant"
    ties: str = "average"
    grades: str = "any"
    max_grade: float | None = None


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "default": Preset(),
        "letor3": Preset(discount="letor", short="zero", ties="stable", precision="zero", relevant=1.0),
        "letor4": Preset(discount="letor", short="zero", ties="stable", relevant=1.0),
        "mslr": Preset(discount="letor", short="zero", ties="stable", relevant=2.0),
        "trec": Preset(gain="linear", relevant=1.0, ties="docid", max_grade=4.0),
        "sklearn": Preset(gain="linear", grades="nonnegative"),
        "lightgbm": Preset(
            ndcg_empty=1.0,
            map_empty=1.0,
            relevant=_above(0.5),
            map_divisor="cutoff",
            ties="stable",
            grades="label_gain",
        ),
        "xgboost": Preset(ndcg_empty=1.0, map_empty=1.0, map_divisor="cutoff", ties="stable", grades="nonnegative"),
        "catboost": Preset(
            gain="linear",
            ndcg_empty=1.0,
            recall_empty=1.0,
            precision="list",
            relevant=_above(0.5),
            map_divisor="cutoff",
            ties="worst",
            grades="nonnegative",
        ),
        "ranklib": Preset(precision="list", map_divisor="whole", ties="stable", max_grade=4.0),
    }
)

PRESET_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "letor3.0": "letor3",
        "letor4.0": "letor4",
        "mslrweb10k": "mslr",
        "mslrweb30k": "mslr",
        "treceval": "trec",
        "pytreceval": "trec",
        "irmeasures": "trec",
        "scikitlearn": "sklearn",
        "lgbm": "lightgbm",
        "lgb": "lightgbm",
        "xgb": "xgboost",
    }
)


EMPTY = {"0": 0.0, "1": 1.0, "skip": np.nan}
OPTIONS: Mapping[str, Sequence[str] | None] = {  # option in a measure's name -> its values; None: a number
    "gain": ("exponential", "linear"),
    "discount": ("log2", "letor"),
    "empty": tuple(EMPTY),
    "short": ("truncate", "zero"),
    "precision": ("k", "list", "zero"),
    "relevant": None,
    "map_divisor": ("relevant", "cutoff", "whole"),
    "ties": ("stable", "average", "worst", "docid"),
    "grades": ("any", "nonnegative", "label_gain"),
    "max_grade": None,
}


@dataclass(frozen=True)
class MeasureKind:
    """One entry of the registry of measures.

    Parameters
    ----------
    name : canonical name
    formula : one line for the documentation
    values : function (RankedLists, Measure) -> one value per query
    aliases : other names
        Case, "-", "_" and spaces are ignored.
    cutoff : "optional", "required" or "none"
    options : the options of presets that affect this kind
    top : whether only the first k ranks are read
    """

    name: str
    formula: str
    values: Callable[..., np.ndarray]
    aliases: tuple[str, ...] = ()
    cutoff: str = "optional"
    options: tuple[str, ...] = ()
    top: bool = True


MEASURES: dict[str, MeasureKind] = {}
_KIND_OF: dict[str, str] = {}  # squeezed name or alias -> canonical name


def register(kind: MeasureKind) -> MeasureKind:
    """Add a kind of measure to ``MEASURES``; its names must be new."""
    names = (kind.name, *kind.aliases)
    for name in names:
        if _KIND_OF.get(squeeze(name), kind.name) != kind.name:
            raise ValueError(
                f"the measure name {name!r} already means {_KIND_OF[squeeze(name)]!r}: register it under another name"
            )
    _KIND_OF.update({squeeze(name): kind.name for name in names})
    MEASURES[kind.name] = kind
    return kind


@dataclass(frozen=True)
class Measure:
    """What to compute: a kind, a cutoff, a preset and options that override it.

    Examples
    --------
    >>> parse_measure("NDCG@10:letor4")
    Measure(kind='ndcg', k=10, preset='letor4', options=())
    >>> str(parse_measure("Precision@5: ties=average"))
    'p@5:ties=average'
    """

    kind: str
    k: int | None = None
    preset: str | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def conventions(self) -> Preset:
        """The preset (default if none was named) with the options applied."""
        return replace(PRESETS[self.preset or "default"], **dict(self.options))

    def with_preset(self, preset: str | None) -> "Measure":
        """The same measure under this preset, unless its name already has one."""
        return self if self.preset or preset is None else replace(self, preset=preset_name(preset))

    def on_scale(self, top: float) -> "Measure":
        """The same measure, with the top of the scale of grades if it needs one and its name and preset have none.

        Code that measures parts of data one by one sets it from all grades, as `evaluate` does from those of a call.

        >>> str(parse_measure("err@10").on_scale(2.0)), str(parse_measure("err@10:trec").on_scale(2.0))
        ('err@10:max_grade=2', 'err@10:trec')
        """
        if "max_grade" not in MEASURES[self.kind].options or self.conventions.max_grade is not None:
            return self
        return replace(self, options=(*self.options, ("max_grade", max(float(top), 0.0))))

    def __str__(self) -> str:
        cutoff = "" if self.k is None else f"@{self.k}"
        settings = [self.preset] if self.preset else []
        settings += [f"{name}={_option_text(value)}" for name, value in self.options]
        return ":".join([self.kind + cutoff, *settings])


def parse_measure(name: "str | Measure") -> Measure:
    """The measure with this name; a ValueError says what is wrong with the name and suggests a close one.

    Examples
    --------
    >>> parse_measure("mean-NDCG").kind, parse_measure("ap@100").kind, parse_measure("rr").kind
    ('mean_ndcg', 'map', 'mrr')
    """
    if isinstance(name, Measure):
        parse_measure(str(name))  # kernels would read and write outside their arrays at rank 0
        return name
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"a measure is a name such as 'ndcg@10' or 'map:letor4', not {name!r}")
    head, *settings = name.split(":")
    word = squeeze(head.partition("@")[0])
    if word not in _KIND_OF:
        raise ValueError(_unknown(word, name))
    kind = MEASURES[_KIND_OF[word]]
    k, preset, options = cutoff_of(head, kind.name, kind.cutoff), None, {}
    for setting in settings:
        option, equals, value = (part.strip().lower() for part in setting.partition("="))
        if equals and option in options:
            raise ValueError(f"{name!r} sets {option} twice: keep one")
        if equals:
            options[option] = _option(kind, option, value, name)
        elif preset is None:
            preset = preset_name(setting)
        else:
            raise ValueError(f"{name!r} names two presets, {preset!r} and {setting.strip()!r}: keep one")
    return Measure(kind.name, k, preset, tuple(options.items()))


def kind_and_cutoff(name: str, rules: Mapping[str, str], what: str) -> tuple[str, int | None]:
    """The kind and the cutoff in a name such as "err-ia@10"; rules: by kind whether there is a cutoff.

    >>> kind_and_cutoff("ERR_IA@10", {"err-ia": "required", "nrbp": "none"}, "diversity measure")
    ('err-ia', 10)
    """
    word = squeeze(name.partition("@")[0])
    kind = next((kind for kind in rules if squeeze(kind) == word), None)
    if kind is None:
        known = ", ".join(kind + "@10" * (rule != "none") for kind, rule in rules.items())
        raise ValueError(f"{name!r} is no {what}; known: {known}{did_you_mean(word, rules)}")
    return kind, cutoff_of(name, kind, rules[kind])


def cutoff_of(name: str, kind: str, rule: str) -> int | None:
    """The cutoff after "@" in a name of this kind of measure, which by the rule is "optional", "required" or "none"."""
    _, at, cutoff = name.partition("@")
    if at and rule == "none":
        raise ValueError(f"{name!r}: {kind} is taken over the whole list and has no cutoff; write {kind!r}")
    if rule == "required" and not at:
        raise ValueError(f"{name!r} needs a cutoff, such as '{kind}@10'")
    cutoff = cutoff.strip()
    if at and (not re.fullmatch(r"[0-9]+", cutoff) or int(cutoff) < 1):
        raise ValueError(f"{name!r}: the cutoff must be a whole number from 1, as in '{kind}@10', got {cutoff!r}")
    return int(cutoff) if at else None


def is_measure(name: str) -> bool:
    """Whether a string is the name of a measure."""
    try:
        parse_measure(name)
    except ValueError:
        return False
    return True


def preset_name(text: str) -> str:
    """The canonical name of a preset."""
    squeezed = squeeze(text) if isinstance(text, str) else ""
    squeezed = PRESET_ALIASES.get(squeezed, squeezed)
    if squeezed in PRESETS:
        return squeezed
    hint = did_you_mean(squeezed, [*PRESETS, *PRESET_ALIASES], PRESET_ALIASES)
    raise ValueError(f"there is no preset {text!r}; presets: {', '.join(PRESETS)}{hint}")


# measures of hingerank.diversity.measures, listed here for the error message
OF_SUBTOPICS = ("alpha-dcg", "alpha-ndcg", "err-ia", "nerr-ia", "nrbp", "nnrbp", "strec", "p-ia", "map-ia")


def _unknown(squeezed: str, name: str) -> str:
    """What is wrong with a measure's name."""
    glued = re.fullmatch(r"([a-z]+?)(?:cut)?\.?(\d+)", squeezed)  # ndcg10, P_5, map_cut.100
    if glued and glued[1] in _KIND_OF:
        return f"unknown measure {name!r}; did you mean '{_KIND_OF[glued[1]]}@{glued[2]}'?"
    if squeezed in map(squeeze, OF_SUBTOPICS):
        instead = "use hingerank.diversity.measures, or hingerank evaluate --diversity"
        return f"{name!r} needs judgments of subtopics, not one grade per row: {instead}"
    if squeezed.startswith("list"):
        return f"{name!r} is of lists over all items: use hingerank.evaluate_top, or compare over folds of list_folds"
    hint = did_you_mean(squeezed, _KIND_OF, _KIND_OF)
    return f"unknown measure {name!r}; measures: {', '.join(MEASURES)}{hint}"


def _option(kind: MeasureKind, option: str, text: str, name: str) -> str | float:
    """The value of an option that a measure's name gives."""
    if option not in kind.options:
        hint, takes = did_you_mean(option, kind.options), ", ".join(kind.options) or "no options"
        raise ValueError(f"{name!r}: no option {option!r}; {kind.name} takes {takes}{hint}")
    choices, value = OPTIONS[option], decimal(text)
    if choices is None and value is not None:
        return value
    if choices is not None and text in choices:
        return EMPTY[text] if option == "empty" else text
    wanted = "a number" if choices is None else "0, 1 or skip" if option == "empty" else f"one of {', '.join(choices)}"
    raise ValueError(f"{name!r}: {option} must be {wanted}, got {text!r}")


def squeeze(name: str) -> str:
    """A name in lower case without "-", "_" and spaces."""
    return re.sub(r"[-_\s]", "", name).lower()


def _option_text(value: object) -> str:
    if isinstance(value, float):
        return "skip" if np.isnan(value) else f"{value:g}"
    return str(value)


def several(measures: Any) -> list[Any]:
    """One measure, or several, as a list.

    >>> several("map"), several(("map", "mrr"))
    (['map'], ['map', 'mrr'])
    """
    alone = isinstance(measures, str | Measure) or callable(measures) or not isinstance(measures, Iterable)
    return [measures] if alone else list(measures)


OwnMeasure = Callable[[np.ndarray, np.ndarray], float]
MeasureLike = str | Measure | OwnMeasure


def measure_name(measure: MeasureLike) -> str:
    """The name of a measure in results: the string itself, or a function's name (its ``name`` or ``__name__``).

    Examples
    --------
    >>> def first_grade(y, scores):
    ...     return float(y[scores.argmax()])
    >>> measure_name("ndcg@10"), measure_name(first_grade)
    ('ndcg@10', 'first_grade')
    """
    if isinstance(measure, str | Measure):
        return str(measure)
    if not callable(measure):
        raise ValueError(f"a measure is a name such as 'ndcg@10' or a function of (y, scores), not {measure!r}")
    name = getattr(measure, "name", None) or getattr(measure, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise ValueError(f"the measure {measure!r} has no name: define it with def, or set its attribute `name`")
    return name
