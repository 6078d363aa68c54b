"""The commands `tune`, which chooses settings of rankers, and `explain`, which shows what made a score."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hingerank.cli.click_fits import ClickTraining, is_log, open_clicks
from hingerank.cli.files import check_target, data_and_model, keeping_missing, open_data, open_for
from hingerank.cli.groups import JSON, RANKER_NAMES, Data, Model, ModelOutput, ModelRows, RatingOptions, Rows
from hingerank.cli.options import REQUIRED, Group, check_kind, choice, command, option, switch, target
from hingerank.cli.output import note, print_json, print_table, speaking, working, writing
from hingerank.cli.rating_files import LISTS, ROWS, is_ratings, read_rated, save_with_items

if TYPE_CHECKING:
    import numpy as np

    from hingerank.data.ranking_data import RankingData


class TuneOptions(Group, panel="Train"):
    """The rankers, and how to choose their settings."""

    model: str | None = option(
        "A,B,…",
        "Rankers to try; the best is kept. Default: rank-svm; for ratings, list-ranker.",
        autocompletion=RANKER_NAMES,
    )
    measure: str | None = option("NAME", "Measure to maximise. Default: ndcg@10; clicks dcg@10, lists list_ndcg@10.")
    folds: int = option("N", "Folds over queries, each held out once.", 5, min=2)
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

    def names(self, personal: bool) -> list[str]:
        """Return the registered names of the rankers."""
        from hingerank.lab.methods import not_from_rows
        from hingerank.rankers.base import BaseRanker
        from hingerank.registry import ranker_class, registered_name

        model = self.model or (LISTS if personal else ROWS)
        found = [registered_name(name.strip()) for name in model.split(",") if name.strip()]
        if not found:
            raise ValueError(f"--model {self.model!r} names no ranker: give one, as in --model rank-svm")
        for name in found:
            if not personal and not issubclass(ranker_class(name), BaseRanker):
                raise ValueError(not_from_rows(name, ranker_class(name)))
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

    validation: Path | None = option("DATA", "Choose settings on these rows instead of folds.")


class TunedRatings(RatingOptions):
    """How to read ratings, and which of them to hold out."""

    hold_out: str = choice("ratings|items", "Hold out some ratings of each user, or whole items.", "ratings")


class TunedOutput(ModelOutput):
    """Where to save the model, and the length of the table."""

    top: int = option("N", "Number of settings in the table.", 10, min=1)


@command
def tune(
    data: Data, how: TuneOptions, rows: TunedRows, logged: ClickTraining, ratings: TunedRatings, out: TunedOutput
) -> None:
    """Choose the settings of rankers over folds, fit the best, save it.

    Every ranker has a default grid; --set replaces values. A grid whose best value is at an edge is extended. With a
    file as --features, DATA is a click log, and settings are chosen by the clicks of held-out queries.

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
    check_kind("clicks" if clicked else "ratings" if personal else "rows", rows, logged, ratings)
    names, values = how.names(personal), how.values()
    if rows.validation is not None and "--folds" in how.given():
        raise ValueError("--validation replaces folds: leave out --folds")
    check_target(out.output, data, out.force)
    learned: Any
    catalogue, held, more = None, None, dict[str, Any]()
    if clicked:
        log, learned = open_clicks(data, rows)
        more = logged.settings(log)
    elif personal:
        learned, catalogue = read_rated(data, ratings, names)
    else:
        rows = keeping_missing(rows, "missing" in values)
        learned = open_data(data, rows)
    if rows.validation is not None:
        held = open_data(rows.validation, rows, learned.n_features, index_base=learned.index_base)
    with speaking("tuning") as advance:
        ranker = search(
            names, learned, measure=how.measure, folds=how.folds, validation=held, params=values,
            random_state=how.seed, one_standard_error=how.one_standard_error, hold_out=ratings.hold_out,
            serve=how.serve, serve_only=how.serve_only, blend=how.blend, progress=advance, **more,
        )  # fmt: skip
    if catalogue is not None:
        history = history_of(learned.users, learned.items, learned.n_items)
        saved = save_with_items(ranker, out.output, data, catalogue, history)
    else:
        kept = {"correction": logged.correction} if clicked else {"index_base": learned.index_base}
        saved = ranker.save(out.output, {"data": data.name, **kept})
    found = ranker.tuning_
    if out.json:
        print_json({"saved": saved, **found.to_dict()})
        return
    columns, lines = found.table(out.top)
    shown = [["" if isinstance(cell, float) and isnan(cell) else cell for cell in line] for line in lines]
    print_table(f"the best {min(out.top, len(found.trials))} of {len(found.trials)} settings", columns, shown)
    print(str(found).replace(" serve= ", " --serve "))
    for name, setting in found.members.items():
        print(f"  {name}: {', '.join(f'{key}={value}' for key, value in setting.items())}")
    for name, more in found.widened.items():
        note(f"the best {name} was at the edge of its grid: also tried {', '.join(map(str, more))}")
    print(saved)


class Explaining(Group, panel="Explain"):
    """What to explain."""

    query: str = option("ID", "Query to explain.", REQUIRED)
    pair: tuple[str, str] | None = option(
        "A B", "Explain why A ranks above B: document ids, or row numbers in DATA counted from 1."
    )
    top: int = option("N", "Features to show per document.", 8, min=1)
    documents: int = option("N", "Documents to show, best first.", 3, min=1)


@command
def explain(
    model: Model,
    data: Data,
    what: Explaining,
    how: ModelRows,
    page: Path | None = target("FILE", "Also write an HTML page with a picture."),
    json: bool = JSON,
) -> None:
    """Show what each feature contributes to the scores of a query.

    Contributions are exact for linear, sparse, additive and boosted models and for trees. Other models use the gradient
    of the score; the output states which method was used. MODEL and DATA may be given in either order.

    Example: hingerank explain model/ test.txt --query 17

    Example: hingerank explain model/ test.txt --query 17 --pair 3 5 --page explained.html
    """
    from hingerank.export.model_file import load
    from hingerank.lab.report.plain import explained_page
    from hingerank.personal.rankers import PersonalRanker
    from hingerank.rankers.base import BaseRanker

    data, model = data_and_model(data, model)
    ranker = load(model)
    if isinstance(ranker, PersonalRanker):
        raise ValueError(
            f"{model} is a personal model ({type(ranker).__name__}): hingerank report shows what made the lists of "
            "its users"
        )
    if not isinstance(ranker, BaseRanker):
        raise ValueError(f"{model} is a model ({type(ranker).__name__}) that does not score rows of features")
    rows = open_for(ranker, model, data, how)
    mine = _rows_of(rows, what.query, data)
    pair: Any = None if what.pair is None else [_document(rows, mine, word) for word in what.pair]
    with working("explaining"):
        found = ranker.explain(rows.take(mine))
    if rows.docid is None:
        found = found.renamed(mine + 1)
    found = found.query(what.query)
    if page is not None:
        with writing(page) as stream:
            stream.write(explained_page(found, what.query, pair, what.top))
    if json:
        answer: dict[str, object] = {"query": what.query, **found.to_dict(what.top)}
        print_json(answer | ({} if pair is None else {"pair": found.pair_dict(*pair)}))
        return
    apart = None if pair is None else found.pair(pair[0], pair[1], what.top)
    print(f"query {what.query}: {found.how}")
    if apart is not None:
        print_table(f"why {pair[0]} and {pair[1]} differ in score", *apart)
    else:
        for place in range(min(what.documents, len(found))):
            print_table(f"{place + 1}. document {found.documents[place]}", *found.table(place, what.top))
    if page is not None:
        note(f"wrote {page}")


def _rows_of(rows: "RankingData", query: str, data: Path) -> "np.ndarray":
    import numpy as np

    mine = np.flatnonzero(np.array([str(q) == query for q in rows.qid.tolist()]))
    if not len(mine):
        some = ", ".join(map(str, rows.blocks.ids[:5].tolist()))
        raise ValueError(f"there is no query {query!r} in {data}; the first ones are {some}")
    return mine


def _document(rows: "RankingData", mine: "np.ndarray", word: str) -> str:
    """Return the id of a document of the query; `word` is the id, or the number of its row."""
    from hingerank.data.checks import whole_decimal

    if rows.docid is None or word in map(str, rows.docid[mine].tolist()):
        return word
    row = (whole_decimal(word) or 0) - 1
    return str(rows.docid[row]) if row in mine else word
