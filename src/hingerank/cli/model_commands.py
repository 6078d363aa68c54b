"""The commands `rank` and `explain`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hingerank.cli.files import data_and_model, load_ranker, open_for
from hingerank.cli.groups import Data, Model, ModelRows, RatingColumns
from hingerank.cli.options import JSON, REQUIRED, Group, check_kind, command, option, switch, target
from hingerank.cli.output import Answer, note, print_json, working, writing
from hingerank.cli.rating_files import open_model, read_pairs

if TYPE_CHECKING:
    import numpy as np

    from hingerank.data.ranking_data import RankingData


class Ranking(Group, panel="Output", fits={"top": ("rows",), "trec_run": ("rows",)}):
    """What `rank` writes."""

    top: int | None = option("N", "Keep the top N rows per query, in order.", min=1)
    trec_run: bool = switch("TREC run lines: qid Q0 docid rank score tag.", excludes="--json")
    output: Path | None = target("FILE", "File to write. Default: standard output.", short="-o")


@command
def rank(model: Model, data: Data, rows: ModelRows, columns: RatingColumns, out: Ranking, json: bool = JSON) -> None:
    """Score data with a saved model, one score per line or ranked.

    Scores are in the order of the rows. With --top the lines hold qid, rank, document id (or row number from 1) and
    score, separated by tabs. A TREC run orders documents of equal score by decreasing id, as trec_eval does. For a
    personal model DATA is a table of users and items. MODEL and DATA may be given in either order.

    Example: hingerank rank model/ test.txt -o scores.txt

    Example: hingerank rank model/ test.txt --top 10 --trec-run -o run.txt

    Example: hingerank rank model/ pairs.csv --user-column customer --item-column sku -o scores.txt
    """
    data, model = data_and_model(data, model)
    ranker, kind = load_ranker(model, "rows", "ratings")
    personal = kind == "ratings"
    check_kind("pairs" if personal else "rows", rows, columns, out)
    if personal:
        ranker, catalogue = open_model(model)
        users, items = read_pairs(data, columns, ranker)
        scores = ranker.predict(users, catalogue.X[catalogue.rows(items)])
    else:
        found = open_for(ranker, model, data, rows)
        with working("scoring"):
            scores = ranker.predict(found)
    with writing(out.output) as stream:
        if personal and json:
            print_json(scores, stream)
            return
        if not (json or out.trec_run or out.top):
            stream.writelines(f"{score}\n" for score in scores)
            return
        ranked = _ranked(found, scores, out.top, falling_docid=out.trec_run)
        if json:
            print_json([dict(zip(("qid", "documents", "scores"), item)) for item in ranked], stream)
            return
        line = _trec_line if out.trec_run else "{}\t{}\t{}\t{}\n".format
        for query, documents, best in ranked:
            each = enumerate(zip(documents, best.tolist()), 1)
            stream.writelines(line(query, place, document, score) for place, (document, score) in each)


def _ranked(
    rows: "RankingData", scores: "np.ndarray", top: int | None, falling_docid: bool = False
) -> "Iterator[tuple[object, list, np.ndarray]]":
    """Yield for each query its id, the ids of its best documents (or their row numbers from 1), and their scores.

    Rows of equal score stay in row order, or are ordered by falling document id.
    """
    import numpy as np

    documents = np.arange(1, rows.n_rows + 1) if rows.docid is None else rows.docid
    ties = -np.unique(documents.astype(str), return_inverse=True)[1] if falling_docid else None
    for query, best in zip(rows.blocks.ids.tolist(), rows.blocks.ranked(scores, top, ties)):
        yield query, documents[best].tolist(), scores[best]


def _trec_line(query: object, place: int, document: object, score: float) -> str:
    """Return a line of a run. Scores have all their digits, so equal scores stay equal for programs that read it."""
    if len(f"{query} {document}".split()) != 2:
        raise ValueError(f"a TREC run cannot hold the ids {query!r} and {document!r}: they must be single words")
    return f"{query} Q0 {document} {place} {score!r} hingerank\n"


class Explaining(Group, panel="Explain"):
    """What to explain."""

    query: str = option("ID", "Query to explain.", REQUIRED)
    pair: tuple[str, str] | None = option(
        "A B", "Explain why A ranks above B: document ids, or row numbers in DATA counted from 1."
    )
    top: int = option("N", "Features to show per document.", 8, min=1)
    documents: int = option("N", "Documents to show, best first.", 3, min=1, excludes="--json or --pair")


@command
def explain(
    model: Model,
    data: Data,
    what: Explaining,
    how: ModelRows,
    page: Path | None = target("FILE", "Also write an HTML page with a picture."),
) -> Answer:
    """Show what each feature contributes to the scores of a query.

    Contributions are exact for linear, sparse, additive and boosted models and for trees. Other models use the gradient
    of the score; the output states which method was used. MODEL and DATA may be given in either order.

    Example: hingerank explain model/ test.txt --query 17

    Example: hingerank explain model/ test.txt --query 17 --pair 3 5 --page explained.html
    """
    import numpy as np

    from hingerank.lab.report.plain import explained_page

    data, model = data_and_model(data, model)
    ranker, _ = load_ranker(model, "rows")
    rows = open_for(ranker, model, data, how)
    mine = np.flatnonzero(np.array([str(query) == what.query for query in rows.qid.tolist()]))
    if not len(mine):
        some = ", ".join(map(str, rows.blocks.ids[:5].tolist()))
        raise ValueError(f"there is no query {what.query!r} in {data}; the first ones are {some}")
    pair: Any = None if what.pair is None else [_document(rows, mine, word) for word in what.pair]
    with working("explaining"):
        found = ranker.explain(rows.take(mine))
    if rows.docid is None:
        found = found.renamed(mine + 1)
    found = found.query(what.query)
    if page is not None:
        with writing(page) as stream:
            stream.write(explained_page(found, what.query, pair, what.top))
        note(f"wrote {page}")
    document = {"query": what.query, **found.to_dict(what.top)}
    if pair is None:
        places = range(min(what.documents, len(found)))
        shown = [(f"{k + 1}. document {found.documents[k]}", *found.table(k, what.top)) for k in places]
    else:
        document["pair"] = found.pair_dict(*pair)
        shown = [(f"why {pair[0]} and {pair[1]} differ in score", *found.pair(pair[0], pair[1], what.top))]
    return document, f"query {what.query}: {found.how}", *shown


def _document(rows: "RankingData", mine: "np.ndarray", word: str) -> str:
    """Return the id of a document of the query; `word` is the id, or the number of its row."""
    from hingerank.data.checks import whole_decimal

    if rows.docid is None or word in map(str, rows.docid[mine].tolist()):
        return word
    row = (whole_decimal(word) or 0) - 1
    return str(rows.docid[row]) if row in mine else word
