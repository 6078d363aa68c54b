"""Arguments and groups of options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hingerank.cli.options import REQUIRED, Group, choice, completing, option, switch, target
from hingerank.registry import RANKERS

Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="LETOR/SVMlight text (also compressed), a binary folder, CSV or Parquet.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that fit or tune saved: a folder or a file.")]
PersonalModel = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model that fit or tune learned from ratings of users.")
]
MODEL_PLACE = target(
    "PATH", "Where to save the model: folder/ or file.safetensors.", REQUIRED, short="-o", writes="model"
)
RANKER_NAMES = completing(lambda: RANKERS)  # what a shell offers for --model and the like


class Rows(
    Group,
    panel="Data",
    kinds=("rows", "parts", "run"),
    fits={
        "missing": ("rows", "parts", "run", "topics", "clicks"),
        "features": ("rows", "parts", "run", "topics", "clicks"),
        "qid": ("rows", "parts", "run", "clicks"),
        "docid": ("rows", "run", "clicks"),
    },
):
    """How to read rows."""

    missing: str = choice("error|zero|nan", "How to read missing values and NULL.", "error")
    label: str | None = option("COLUMN", "Column of grades (CSV/Parquet only). Default: label.")
    qid: str | None = option("COLUMN", "Column of query ids (CSV/Parquet only). Default: qid, query_id or query.")
    docid: str | None = option(
        "COLUMN", "Column of document ids (CSV/Parquet only). Default: docid, docno or document, if there."
    )
    features: str | None = option(
        "A,B,…", "Feature columns, comma-separated (CSV/Parquet only). Default: every other column."
    )
    one_query: bool = switch("Accept rows without query ids as one query.")


LOGGED = option(
    "A,B,…|FILE",
    "Feature columns, comma-separated (CSV/Parquet only). Default: every other column. Or a file of rows with features "
    "and document ids: DATA is then a click log.",
)  # --features of commands that also read click logs


class ModelRows(Rows, fits={"pad": ("rows",)}):
    """How to read rows for a model."""

    pad: bool = switch("Read the last features of the model as zeros, if DATA is text without them.")


class RatingColumns(Group, panel="Ratings of users", kinds=("ratings", "lists", "rated", "pairs")):
    """How to read files of ratings, and of pairs of a user and an item."""

    user_column: str | None = option("COLUMN", "Column of users: a name, or a number counted from 1. Default: user.")
    item_column: str | None = option("COLUMN", "Column of items. Default: item.")
    rating_column: str | None = option("COLUMN", "Column of ratings. Default: rating.")
    separator: str | None = option("TEXT", "Separator of columns, such as :: or tab. Default: detected.")

    def reading(self) -> dict[str, Any]:
        """Return the arguments of `read_ratings`."""
        between = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";"}
        return {
            "user": column_of(self.user_column or "user"),
            "item": column_of(self.item_column or "item"),
            "rating": column_of(self.rating_column or "rating"),
            "delimiter": between.get(str(self.separator), self.separator),
        }


class ExcludedColumns(RatingColumns, panel="File of --exclude", needs="--exclude"):
    """How to read the file of --exclude."""


def column_of(text: str) -> str | int:
    """Return a column as `read_ratings` takes it: a name, or a number from 0 (the command line counts from 1)."""
    from hingerank.data.checks import whole_decimal

    number = whole_decimal(text)
    if number == 0:
        raise ValueError("column 0: columns are counted from 1")
    return text if number is None else number - 1


ITEMS = option("TABLE", "Table of items: ids first, then features. Default: those saved with MODEL.")


class ListedItems(Group, panel="Lists"):
    """The items of lists, and those that lists leave out."""

    exclude: Path | None = option("RATINGS", "More ratings whose items are left out of lists.")
    include_rated: bool = switch("Lists may have items that the user rated in training.")
    items: Path | None = ITEMS


class RatingOptions(RatingColumns, kinds=("ratings",)):
    """How to read ratings and the rated items."""

    items: Path | None = option(
        "TABLE", "DATA holds ratings; this table holds the items: ids first, then features. Default: ids alone."
    )
    item_columns: bool = switch("Add an indicator feature for each item.")


class TopicParts(Group, panel="Topics"):
    """Data about the documents of topics."""

    aspects: Path | None = option("FILE", "Lines of topic, aspect, document, probability.")
    texts: Path | None = option("FILE", "Lines of document, tab, text (svm-div covers the words).")
    clusters: int | None = option("N", "Use N clusters of a topic's features as its aspects.", min=1)
    depth: int | None = option("N", "Use the first N documents of each topic.", min=1)
    incomplete: str = choice(
        "error|keep|skip",
        "Documents without features or text, and topics without aspects or judgments: fail, keep them "
        "(documents at the end of the ranking), or leave them out.",
        "error",
    )
