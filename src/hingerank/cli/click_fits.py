"""Click logs with the features of their documents, as `fit`, `tune`, `evaluate` and `report` take them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hingerank.cli.files import open_data
from hingerank.cli.groups import Rows
from hingerank.cli.options import Group, choice, option
from hingerank.cli.output import working

if TYPE_CHECKING:
    from hingerank.clicks.log import ClickData, ClickLog
    from hingerank.clicks.propensities import Propensities
    from hingerank.clicks.value import ClickValues
    from hingerank.data.ranking_data import RankingData


class ClickOptions(
    Group,
    panel="Clicks",
    kinds=("clicks",),
):
    """How to correct clicks for the positions at which documents were shown."""

    propensities: str | None = option(
        "FILE|P,P,…",
        "A file that hingerank clicks propensities wrote, or numbers, position 1 first. Default: the log's.",
    )
    clip: float | None = option("P", "Raise smaller propensities to this. Default: min(10/√lists, 1).")

    def check_clip(self, option: str, chosen: str, robust: str) -> None:
        """Refuse --clip for estimates that raise no propensities: others than "clipped" and the doubly robust one."""
        if self.clip is not None and chosen not in ("clipped", robust):
            raise ValueError(f"--clip is for {option} clipped or {robust}, not for {option} {chosen}")

    def given_propensities(self, log: "ClickLog") -> "Propensities | list[float] | None":
        """Return the value of --propensities as the library takes it."""
        from hingerank.clicks.propensities import propensities

        text = self.propensities
        if text is None:
            return None
        path = Path(text)
        if path.exists():
            return propensities(log, "given", values=path)
        try:
            return [float(word) for word in text.split(",")]
        except ValueError:
            raise ValueError(f"--propensities {text}: neither a file nor numbers, such as 1,0.5,0.3") from None


class ClickTraining(ClickOptions):
    """How a ranker learns from clicks."""

    correction: str = choice(
        "ips|clipped|affine|doubly-robust|naive", "How clicks are corrected for position bias.", "ips"
    )
    around: Path | None = option("MODEL", "Linear model in production: stay near its weights.")

    def settings(self, log: "ClickLog") -> dict[str, Any]:
        """Return the keyword arguments of `fit_clicks`."""
        from hingerank.export.model_file import load

        self.check_clip("--correction", self.correction, "doubly-robust")
        return {
            "propensities": self.given_propensities(log),
            "correction": self.correction,
            "clip": self.clip,
            "around": None if self.around is None else load(self.around),
        }


class ClickMeasuring(ClickOptions):
    """How the value of a ranking is estimated from clicks."""

    estimator: str = choice("ips|snips|clipped|dr", "Estimator of the value.", "ips")
    also: list[Path] | None = option("MODEL", "Further model to compare; repeatable.")


def is_log(rows: Rows) -> bool:
    """Whether --features names a file, so that DATA is a click log."""
    return rows.features is not None and Path(rows.features).exists()


def open_clicks(data: Path, rows: Rows) -> "tuple[ClickLog, ClickData]":
    """Return the log, and its clicks joined with the features that --features names."""
    from hingerank.clicks.reading import read_clicks

    features = open_features(Path(str(rows.features)), rows)
    with working(f"reading {data.name}"):
        log = read_clicks(data)
        return log, log.join(features)


def open_features(path: Path, rows: Rows) -> "RankingData":
    """Return rows with features of documents. A table of them needs no column of grades."""
    from hingerank.data.files import kind_to_read

    label = "" if kind_to_read(path) == "table" else None
    named = Rows(missing=rows.missing, qid=rows.qid, docid=rows.docid, label=label)
    return open_data(path, named)


def value_of_models(
    data: Path, models: list[Path], rows: Rows, how: ClickMeasuring, measure: str
) -> "tuple[ClickLog, ClickData, ClickValues]":
    """Return the log, the joined clicks, and the estimated value of each model by name."""
    from hingerank.clicks.value import evaluate_clicks
    from hingerank.export.model_file import load

    how.check_clip("--estimator", how.estimator, "dr")
    log, joined = open_clicks(data, rows)
    names = [str(path) for path in models]
    with working("evaluating"):
        values = evaluate_clicks(
            joined, {name: load(path) for name, path in zip(names, models)},
            propensities=how.given_propensities(log), estimator=how.estimator, measure=measure, clip=how.clip,
        )  # fmt: skip
    return log, joined, cast("ClickValues", values)  # a mapping, since a mapping of models was given
