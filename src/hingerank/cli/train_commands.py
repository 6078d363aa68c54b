"""The commands `fit` and `tune`, which learn a model and save it."""

import warnings
from math import isnan
from pathlib import Path
from typing import Any

from hingerank.cli.click_commands import ClickTraining, is_log, open_clicks
from hingerank.cli.files import keeping_missing, open_data, open_like, open_parts
from hingerank.cli.groups import LOGGED, MODEL_PLACE, RANKER_NAMES, Data, RatingOptions, Rows
from hingerank.cli.options import Group, check_kind, choice, command, option, switch
from hingerank.cli.output import Answer, facts, note, speaking, working
from hingerank.cli.rating_files import is_ratings, read_rated, save_with_items
from hingerank.cli.settings import make_ranker, read_settings

LISTS, CLICKED, ROWS = "list-ranker", "ease", "rank-svm"  # default rankers for ratings, clicks and rows


class Training(Group, panel="Train"):
    """A ranker and its parameters."""

    model: str | None = option(
        "NAME",
        "Ranker; see hingerank models. Default: rank-svm; for ratings, list-ranker.",
        autocompletion=RANKER_NAMES,
    )
    rank: int | None = option("N", "Rank of rankers that have one, such as personal-rank-svm.", min=1)
    C: float | None = option("X", "Weight of the loss relative to the penalty; with --set C=none it follows the data.")
    loss: str | None = option("NAME", "Loss of a pair, such as squared_hinge.")
    tol: float | None = option("X", "Stop at this certified accuracy.")
    seed: int | None = option("N", "Seed of random rankers.")
    scale: str | None = option("NAME", "Feature scaling, such as query-minmax or standard.")
    settings: list[str] | None = option("NAME=VALUE", "Any parameter of the ranker; repeatable.", flag="--set")

    def ranker(self, usual: str) -> tuple[str, Any]:
        """Return the registered name and the ranker; usual: the name of the ranker if --model is not given."""
        from hingerank.registry import ranker_class, registered_name

        options = {"C": self.C, "loss": self.loss, "tol": self.tol, "random_state": self.seed, "scale": self.scale}
        options["rank"] = self.rank
        parameters = {name: value for name, value in options.items() if value is not None}
        flags = {name: f"--{name}" for name in parameters} | {"random_state": "--seed"}
        settings = read_settings(self.settings)
        for name in settings.keys() & parameters:
            raise ValueError(f"{flags[name]} is given twice, also as --set {name}: leave out one")
        name = registered_name(self.model or usual)
        return name, make_ranker(ranker_class(name), name, parameters | settings, flags)


class FitRows(Rows, fits={"validation": ("rows",)}):
    """How to read rows, and rows to validate on."""

    features: str | None = LOGGED
    validation: Path | None = option("DATA", "Measure the fitted model on these rows (mean NDCG@10).")


class Cluster(Group, panel="Dask cluster", kinds=("parts",)):
    """The Dask cluster, and how to cut the rows into parts."""

    dask: str | None = option("CLUSTER", "tcp://HOST:PORT, or local:N for N processes here.")
    parts: int | None = option("N", "Cut a binary folder into N parts.", min=1)


class FitRatings(RatingOptions):
    """How `fit` uses ratings."""

    clicks: bool = switch("Ignore the values of ratings: items chosen beat items not chosen.")
    half_life: float | None = option("DAYS", "Age at which the weight of a rating is one half.", min=0)
    time_column: str = option(
        "COLUMN", "Column of times for --half-life: dates, or (milli)seconds.", "timestamp", short="--time",
        needs="--half-life",
    )  # fmt: skip


@command
def fit(
    data: Data,
    train: Training,
    rows: FitRows,
    logged: ClickTraining,
    cluster: Cluster,
    ratings: FitRatings,
    output: str = MODEL_PLACE,
) -> Answer:
    """Fit a ranker to graded rows, clicks or ratings, and save it.

    DATA holds ratings of users if it is a MovieLens folder, if --model is a personal ranker, or if options such as
    --items or --user-column are given. DATA is a click log if --features names a file. With --dask, DATA is a file, a
    binary folder, or a folder in which each file is a part.

    Example: hingerank fit train.txt --model rank-svm --C 0.01 -o model/

    Example: hingerank fit parts/ --dask local:4 -o model/

    Example: hingerank fit log.ndjson --features features.parquet --propensities p.json --correction clipped -o model/

    Example: hingerank fit ratings.csv --items items.csv --half-life 365 -o model/

    Example: hingerank fit ratings.dat --separator :: --model personal-rank-svm --rank 20 -o model/

    Example: hingerank fit sales.csv --user-column customer --item-column sku --rating-column stars -o model/
    """
    personal = is_ratings(data, ratings, train.model)
    kind = "clicks" if is_log(rows) else "ratings" if personal else "rows" if cluster.dask is None else "parts"
    check_kind(kind, rows, logged, cluster, ratings)
    name, ranker = train.ranker(CLICKED if ratings.clicks else LISTS if personal else ROWS)
    _check_ranker(name, data, personal)
    try:
        if kind == "clicks":
            saved = _fit_clicks(ranker, data, rows, logged, output)
        elif kind == "ratings":
            saved = _fit_ratings(name, ranker, data, ratings, output)
        elif kind == "parts":
            with open_parts(data, str(cluster.dask), cluster.parts, rows) as spread, working("fitting"):
                ranker.fit(spread)
            saved = ranker.save(output, {"data": data.name})
        else:
            rows = keeping_missing(rows, ranker.missing != "error")
            found, checks = open_data(data, rows), []
            if rows.validation is not None:
                checks = [open_like(found, rows.validation, rows)]
            with working("fitting"):
                ranker.fit(found, eval_set=checks)
            saved = ranker.save(output, {"data": data.name, "index_base": found.index_base})
    except TypeError as error:  # a parameter has a value of a wrong type
        raise ValueError(f"{name} does not accept these settings: {error}") from error
    return _fitted(name, ranker, saved)


def _check_ranker(name: str, data: Path, personal: bool) -> None:
    """Refuse a ranker that does not learn from what `data` holds: ratings of users if `personal`, else rows."""
    from hingerank.registry import RANKERS, learns_from

    kind, called = learns_from(name), RANKERS[name].rpartition(":")[2]
    if personal and kind != "ratings":
        raise ValueError(f"{data} holds ratings: use a personal ranker, such as --model personal-rank-svm")
    if not personal and kind == "ratings":
        raise ValueError(f"{name} learns from ratings: name the items with --items, or use {called} from Python")
    if not personal and kind == "topics":
        raise ValueError(f"{name} reorders the documents of a run: use hingerank rerank, or {called} from Python")


def _fit_clicks(ranker: Any, data: Path, rows: Rows, how: ClickTraining, output: str) -> str:
    from hingerank.rankers.blend import Blend
    from hingerank.rankers.winners import check_winners

    if not isinstance(ranker, Blend):
        check_winners(ranker)
    log, joined = open_clicks(data, rows, how)
    with working("fitting"):
        ranker.fit_clicks(joined, **how.settings(log))
    return str(ranker.save(output, {"data": data.name, "correction": how.correction}))


def _fit_ratings(name: str, ranker: Any, data: Path, ratings: FitRatings, output: str) -> str:
    from hingerank.personal.catalogue import history_of
    from hingerank.personal.factorized import PersonalRankSVM
    from hingerank.personal.item_item import EASE

    if ratings.clicks and not isinstance(ranker, PersonalRankSVM | EASE):
        raise ValueError(f"{type(ranker).__name__} learns from ratings: --clicks is for --model personal-rank-svm")
    days = ratings.half_life
    rated, catalogue = read_rated(data, ratings, [name], None if days is None else ratings.time_column)
    weight = None if days is None else _weights_by_age(rated, days)
    with working("fitting"):
        if ratings.clicks:
            ranker.fit_clicks(rated.item_features, rated.users, rated.items, sample_weight=weight)
        else:
            ranker.fit(rated.item_features, *rated.triples, sample_weight=weight)
    history = history_of(rated.users, rated.items, rated.n_items)
    return save_with_items(ranker, output, data, catalogue, history)


def _weights_by_age(ratings: Any, days: float) -> Any:
    """Return 2^(-age/days) for each rating; times are dates, or numbers of seconds or smaller units since 1970."""
    from hingerank.personal.ratings import age_weights, ticks_per_second

    if ratings.times is None:
        raise ValueError("these ratings have no times, which --half-life needs: name their column with --time-column")
    if ratings.times.dtype.kind == "M":
        return age_weights(ratings.times, days)
    ticks = ticks_per_second(ratings.times)
    if ticks > 1:
        unit = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}[ticks]
        warnings.warn(f"times up to {ratings.times.max():.4g} are read as {unit}", stacklevel=2)
    return age_weights(ratings.times, 86_400.0 * ticks * days)


def _fitted(name: str, ranker: Any, saved: str) -> Answer:
    certificate = getattr(ranker, "certificate_", None)
    found: dict[str, object] = {"model": name, "saved": saved, **getattr(ranker, "fingerprint_", {})}
    found.pop("sha256_of_sample", None)
    if certificate is not None:
        found |= {"status": certificate.status, certificate.kind: certificate.value}
        found |= {"iterations": certificate.n_iter, "seconds": certificate.seconds}
    kept, scores = getattr(ranker, "selected_features_", None), getattr(ranker, "validation_scores_", None)
    found |= {} if kept is None else {"features kept": len(kept)}
    found |= {"validation ndcg@10": scores[0]} if scores else {}
    shown = found if certificate is None else found | {certificate.kind: f"{certificate.value:.3g}"}
    return found, facts("fitted", shown)


OF_ROWS = ("rows", "clicks")


class TuneOptions(Group, panel="Train", fits={"serve": OF_ROWS, "serve_only": OF_ROWS, "blend": OF_ROWS}):
    """The rankers, and how to choose their settings."""

    model: str | None = option(
        "A,B,…",
        "Rankers to try; the best is kept. Default: rank-svm; for ratings, list-ranker.",
        autocompletion=RANKER_NAMES,
    )
    measure: str | None = option(
        "NAME", "Measure to maximise. Default: ndcg@10; for clicks, dcg@10; for list-ranker, list_ndcg@10."
    )
    folds: int = option("N", "Folds over queries, each held out once.", 5, min=2, excludes="--validation")
    settings: list[str] | None = option(
        "NAME=V,…", "One value fixes a parameter, several are tried; repeatable.", flag="--set"
    )
    rank: int | None = option("N", "Fix the rank of rankers that have one.", min=1)
    serve: str | None = option(
        "FORMAT", "Choose a setting that this export format can run, such as solr; print its cost."
    )
    serve_only: bool = switch("With --serve, try only what the format can run; the cost stays unknown.")
    blend: bool = switch("Keep a blend of all rankers, each with its best settings, instead of the best one.")
    one_standard_error: bool = switch("Choose the simplest setting within one standard error of the best.")
    seed: int = option("N", "Seed of folds and of random rankers.", 0, min=0)

    def names(self, data: Path, personal: bool) -> list[str]:
        """Return the registered names of the rankers."""
        from hingerank.registry import registered_name

        model = self.model or (LISTS if personal else ROWS)
        found = [registered_name(name.strip()) for name in model.split(",") if name.strip()]
        if not found:
            raise ValueError(f"--model {self.model!r} names no ranker: give one, as in --model rank-svm")
        for name in found:
            _check_ranker(name, data, personal)
        return found

    def values(self) -> dict[str, list[Any]]:
        """Return a mapping from parameters to values."""
        from hingerank.lab.methods import parse_settings

        given = parse_settings(self.settings or [])
        if set(given) - {""}:
            raise ValueError("--set takes NAME=VALUE,… here: tune one ranker at a time to give it values of its own")
        found = given.get("", {})
        if self.rank is not None and "rank" in found:
            raise ValueError("the rank is given twice, by --rank and by --set: leave out one")
        return found | ({} if self.rank is None else {"rank": [self.rank]})


class TunedRows(Rows, fits={"validation": ("rows",)}):
    """How to read rows, and rows to choose settings on."""

    features: str | None = LOGGED
    validation: Path | None = option("DATA", "Choose settings on these rows instead of folds.")


class TunedRatings(RatingOptions):
    """How to read ratings, and which of them to hold out."""

    hold_out: str = choice("ratings|items", "Hold out some ratings of each user, or whole items.", "ratings")


@command
def tune(
    data: Data,
    how: TuneOptions,
    rows: TunedRows,
    logged: ClickTraining,
    ratings: TunedRatings,
    output: str = MODEL_PLACE,
    top: int = option("N", "Number of settings in the table.", 10, min=1, panel="Output"),
) -> Answer:
    """Choose the settings of rankers over folds, fit the best, save it.

    Every ranker has a default grid; --set replaces values. A grid whose best value is at an edge is extended. If
    --features names a file, DATA is a click log, and settings are chosen by the clicks of held-out queries.

    Example: hingerank tune train.txt --model rank-svm,lightgbm -o model/

    Example: hingerank tune train.txt --serve solr -o model/

    Example: hingerank tune train.txt --model rank-svm,additive-rank-svm,lightgbm --blend -o model/

    Example: hingerank tune log.ndjson --features features.parquet --propensities p.json -o model/

    Example: hingerank tune ratings.csv --items items.csv -o model/

    Example: hingerank tune ratings.csv --items items.csv --model personal-rank-svm --measure pair_accuracy -o model/
    """
    from hingerank.personal.catalogue import history_of
    from hingerank.search.tuning import tune as search

    personal = is_ratings(data, ratings, how.model)
    clicked = is_log(rows)
    check_kind("clicks" if clicked else "ratings" if personal else "rows", how, rows, logged, ratings)
    names, values = how.names(data, personal), how.values()
    learned: Any
    catalogue, held, more = None, None, dict[str, Any]()
    if clicked:
        log, learned = open_clicks(data, rows, logged)
        more = logged.settings(log)
    elif personal:
        learned, catalogue = read_rated(data, ratings, names)
    else:
        rows = keeping_missing(rows, "missing" in values)
        learned = open_data(data, rows)
    if rows.validation is not None:
        held = open_like(learned, rows.validation, rows)
    with speaking("tuning") as advance:
        ranker = search(
            names, learned, measure=how.measure, folds=how.folds, validation=held, params=values,
            random_state=how.seed, one_standard_error=how.one_standard_error, hold_out=ratings.hold_out,
            serve=how.serve, serve_only=how.serve_only, blend=how.blend, progress=advance, **more,
        )  # fmt: skip
    if catalogue is not None:
        history = history_of(learned.users, learned.items, learned.n_items)
        saved = save_with_items(ranker, output, data, catalogue, history)
    else:
        kept = {"correction": logged.correction} if clicked else {"index_base": learned.index_base}
        saved = ranker.save(output, {"data": data.name, **kept})
    return _tuned(ranker.tuning_, saved, top)


def _tuned(found: Any, saved: str, top: int) -> Answer:
    """Return what `tune` found, with a table of the best settings."""
    columns, lines = found.table(top)
    shown = [["" if isinstance(cell, float) and isnan(cell) else cell for cell in line] for line in lines]
    best = f"the best {min(top, len(found.trials))} of {len(found.trials)} settings", columns, shown
    members = [f"  {name}: {', '.join(f'{key}={value}' for key, value in setting.items())}"
               for name, setting in found.members.items()]  # fmt: skip
    words = str(found).replace(" serve= ", " --serve ")
    for name, more in found.widened.items():
        note(f"the best {name} was at the edge of its grid: also tried {', '.join(map(str, more))}")
    return {"saved": saved, **found.to_dict()}, best, words, *members, saved
