"""`hingerank demo`: a small shop from its click log to propensities, a ranker, a page and an export."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hingerank.clicks.log import ClickLog
from hingerank.clicks.place_bias import Propensities
from hingerank.clicks.propensities import propensities
from hingerank.clicks.shop import Shop, make_shop
from hingerank.clicks.value import ClickValues, evaluate_clicks
from hingerank.data.files import write_whole
from hingerank.data.read_write import write
from hingerank.lab.report.shop import (
    CORRECTED,
    CURVES,
    EXPORT,
    LOG,
    MODEL,
    PAGE,
    PLACES,
    PLAIN,
    PRODUCTS,
    Demo,
    shop_page,
)
from hingerank.metrics import evaluate
from hingerank.rankers.linear import RankSVM
from hingerank.search.tuning import tune

TRAINED = 2 / 3  # of the searches: rankers learn from these, and the others measure them
OURS = {PAGE, LOG, PRODUCTS, PLACES, MODEL, EXPORT, "model.examples.json"}


def run_demo(folder: Path, n_queries: int = 120, seed: int = 0, step: Callable[[str], None] | None = None) -> Demo:
    """Make a shop, estimate propensities from its clicks, learn rankers, and write a page, a model and an export.

    Parameters
    ----------
    folder : where everything goes; an earlier demo there is replaced
    n_queries, seed : of the shop
    step : called with what is done next
    """

    def say(text: str) -> None:
        if step is not None:
            step(text)

    run = _emptied(Path(folder))
    say("making a shop and its click log")
    shop = make_shop(n_queries, seed=seed)
    write_whole(run / LOG, session_lines(shop.log).encode())
    write(shop.rows, f"{run / PRODUCTS}/")
    say("estimating how often each position is seen")
    places = propensities(shop.log, "all-pairs")
    places.save(run / PLACES)
    say("learning from clicks")
    found = learn_and_measure(run, shop, places)
    say("writing the page")
    write_whole(found.page, shop_page(found).encode())
    return found


def learn_and_measure(run: Path, shop: Shop, places: Propensities) -> Demo:
    """Rankers from the clicks of some searches, measured on the others; the best is saved and exported."""
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
    number = {document: row for row, document in enumerate(np.asarray(shop.rows.docid).tolist())}
    held = np.array([number[document] for document in np.asarray(held_out.docid).tolist()])
    scores = {"today": shop.today[held], **{name: ranker.predict(held_out.data) for name, ranker in rankers.items()}}
    values = evaluate_clicks(held_out, scores, propensities=places, estimator="snips")
    assert isinstance(values, ClickValues)  # since there are several rankings
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


def _telling_search(shop: Shop, held: np.ndarray, scores: dict[str, np.ndarray]) -> object:
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


def session_lines(log: ClickLog) -> str:
    """A log as `read_clicks` reads it: ``query<TAB>document,… : clicked document,…`` a line."""
    session = np.asarray(log.session)
    order = np.lexsort((log.place, session))
    cuts: np.ndarray = np.flatnonzero(np.diff(session[order])) + 1
    lines = []
    for entries in np.split(order, cuts):
        documents = log.document_names[log.document[entries]]
        clicked = documents[log.clicks[entries] > 0]
        lines.append(f"{log.query_names[log.query[entries[0]]]}\t{','.join(documents)} : {','.join(clicked)}\n")
    return "".join(lines)


def _emptied(folder: Path) -> Path:
    """A folder without an earlier demo; one with anything else in it is refused."""
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
