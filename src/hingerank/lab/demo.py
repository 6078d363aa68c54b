"""`hingerank demo`: a small shop from its click log to propensities, a ranker, a page and an export."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.arrays import Facts

TRAINED = 2 / 3  # of the searches: rankers learn from these, and the others measure them
PLAIN, CORRECTED, CURVES = "clicks as they are, linear", "corrected clicks, linear", "corrected clicks, curves"
PAGE, LOG, PRODUCTS, PLACES, MODEL, EXPORT = (
    "report.html",
    "log.txt",
    "products",
    "propensities.json",
    "model",
    "model.sql",
)
OURS = {PAGE, LOG, PRODUCTS, PLACES, MODEL, EXPORT, "model.examples.json"}


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found.

    Attributes
    ----------
    folder : where everything was written
    shop : the generated shop
    places : propensities of positions, as estimated
    rankers : by name; `best` is the name of the one that was kept
    ndcg : NDCG@10 of each ranking on held-out searches, by judgments
    values : value of each ranking on the same searches, by clicks
    query, before, after : a search, and its rows in the order of today and of the best ranker
    explained : that search explained
    exported : the files of the export, and how they were checked
    """

    folder: Path
    shop: Any
    places: Any
    rankers: Facts
    ndcg: dict[str, float]
    values: Any
    query: Any
    before: np.ndarray
    after: np.ndarray
    explained: Any
    exported: Any
    best: str = CURVES

    @property
    def ranker(self) -> Any:
        return self.rankers[self.best]

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    @property
    def page(self) -> Path:
        return self.folder / PAGE

    @property
    def commands(self) -> list[str]:
        """The demo again, on its files, as commands."""
        log, products, places = (self.folder / name for name in (LOG, PRODUCTS, PLACES))
        clicks = f"{log} --features {products} --propensities {places}"
        return [
            f"hingerank clicks info {log}",
            f"hingerank clicks propensities {log} -o {places} --force",
            f"hingerank tune {clicks} --correction clipped --model additive-rank-svm -o tuned/",
            f"hingerank evaluate {clicks} tuned/ --estimator snips",
            f"hingerank export tuned/ --to sql --check {products} -o ranker.sql",
        ]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """A row for each ranking: NDCG@10 by judgments, DCG@10 by clicks with its interval, the effect of margin."""
        rows = []
        for name, value in self.values.items():
            low, high = value.interval
            rows.append([name, self.ndcg[name], value.value, f"{low:.3f} to {high:.3f}", self._of_margin(name)])
        return ["ranking", "NDCG@10", "DCG@10 by clicks", "95 % interval", "effect of margin"], rows

    def _of_margin(self, name: str) -> float | None:
        """How much the feature moves scores, as a fraction of all features' effects."""
        if name not in self.rankers:
            return None
        ranker, column = self.rankers[name], self.shop.rows.names.index("margin")
        effects = np.abs(ranker.coef_) if name != CURVES else ranker.deviations_
        return float(effects[column] / effects.sum())


def run_demo(folder: Path, n_queries: int = 120, seed: int = 0, step: Callable[[str], None] | None = None) -> Demo:
    """Make a shop, estimate propensities from its clicks, learn rankers, and write a page, a model and an export.

    Parameters
    ----------
    folder : where everything goes; an earlier demo there is replaced
    n_queries, seed : of the shop
    step : called with what is done next
    """
    from hingerank.clicks.propensities import propensities
    from hingerank.clicks.shop import make_shop
    from hingerank.data.files import write_whole
    from hingerank.data.read_write import write
    from hingerank.lab.report.shop import shop_page

    def say(text: str) -> None:
        if step is not None:
            step(text)

    run = _emptied(Path(folder))
    say("making a shop and its click log")
    shop = make_shop(n_queries, seed=seed)
    write_whole(run / LOG, session_lines(shop.log).encode())
    write(shop.rows, f"{run / PRODUCTS}/")
    say("estimating how often each position is seen")
    places = propensities(shop.log, "em")
    places.save(run / PLACES)
    say("learning from clicks")
    found = learn_and_measure(run, shop, places)
    say("writing the page")
    write_whole(found.page, shop_page(found).encode())
    return found


def learn_and_measure(run: Path, shop: Any, places: Any) -> Demo:
    """Rankers from the clicks of some searches, measured on the others; the best is saved and exported."""
    from hingerank.clicks.value import evaluate_clicks
    from hingerank.metrics import evaluate
    from hingerank.rankers.linear import RankSVM
    from hingerank.search.tuning import tune

    joined = shop.log.join(shop.rows)
    queries = np.random.default_rng(0).permutation(joined.data.blocks.ids).tolist()
    cut = round(TRAINED * len(queries))
    train, held_out = joined.subset(queries[:cut]), joined.subset(queries[cut:])
    rankers = {
        name: RankSVM(C=1e-3, scale="standard").fit_clicks(train, propensities=places, correction=correction)
        for name, correction in ((PLAIN, "naive"), (CORRECTED, "clipped"))
    }
    usual = {"smoothness": 10.0, "pair_weight": "uniform", "context": None, "interactions": None, "scale": None}
    rankers[CURVES] = tune("additive-rank-svm", train, propensities=places, correction="clipped", folds=3, params=usual)
    number = {document: row for row, document in enumerate(shop.rows.docid.tolist())}
    held = np.array([number[document] for document in held_out.docid.tolist()])
    scores = {"today": shop.today[held], **{name: ranker.predict(held_out.data) for name, ranker in rankers.items()}}
    values = evaluate_clicks(held_out, scores, propensities=places, estimator="snips")
    ndcg = {
        name: float(evaluate(held_out.data, each, measures=["ndcg@10"])["ndcg@10"]) for name, each in scores.items()
    }
    best = rankers[CURVES]
    query = _telling_search(shop, held, scores)
    mine = np.flatnonzero(shop.rows.qid == query)
    explained = best.explain(shop.rows.take(mine)).query(query)
    after = np.array([number[document] for document in explained.documents.tolist()])
    best.save(f"{run / MODEL}/", {"data": LOG, "correction": "clipped"})
    exported = best.export(run / EXPORT, to="sql", check=shop.rows)
    before = mine[np.argsort(-shop.today[mine], kind="stable")]
    return Demo(run, shop, places, rankers, ndcg, values, query, before, after, explained, exported)


def _telling_search(shop: Any, held: np.ndarray, scores: dict[str, np.ndarray]) -> object:
    """The held-out search whose first products improve most."""

    def first_grades(of: np.ndarray, rows: np.ndarray) -> float:
        return float(shop.rows.y[held[rows[np.argsort(-of[rows], kind="stable")[:5]]]].sum())

    ids = shop.rows.qid[held]
    gains = {
        query: first_grades(scores[CURVES], rows) - first_grades(scores["today"], rows)
        for query in dict.fromkeys(ids.tolist())
        for rows in [np.flatnonzero(ids == query)]
    }
    return max(gains, key=lambda query: gains[query])


def session_lines(log: Any) -> str:
    """A log as `read_clicks` reads it: ``query<TAB>document,… : clicked document,…`` a line."""
    order = np.lexsort((log.place, log.session))
    cuts: np.ndarray = np.flatnonzero(np.diff(log.session[order])) + 1
    lines = []
    for entries in np.split(order, cuts):
        documents = log.document_names[log.document[entries]]
        clicked = documents[log.clicks[entries] > 0]
        lines.append(f"{log.query_names[log.query[entries[0]]]}\t{','.join(documents)} : {','.join(clicked)}\n")
    return "".join(lines)


def _emptied(folder: Path) -> Path:
    """A folder without an earlier demo; one with anything else in it is refused."""
    import shutil

    if folder.exists():
        if not folder.is_dir():
            raise ValueError(f"{folder} is a file: name a new folder with --output")
        others = {path.name for path in folder.iterdir()} - OURS
        if others:
            raise ValueError(f"{folder} holds other files ({min(others)}): name a new folder with --output")
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
