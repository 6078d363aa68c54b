"""`hingerank demo`: a small shop from its click log to propensities, a ranker, a page and an export."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from hingerank.arrays import Ranker
from hingerank.clicks.log import ClickLog
from hingerank.clicks.propensities import Propensities, propensities
from hingerank.clicks.simulation import Shop, make_shop
from hingerank.clicks.value import ClickValues, evaluate_clicks
from hingerank.data.files import write_whole
from hingerank.data.read_write import write
from hingerank.export.exporting import Exported
from hingerank.lab.report.clicks import places_part
from hingerank.lab.report.plain import bars, curve_panels, html_table, part, table, whole_page
from hingerank.metrics import evaluate
from hingerank.rankers.explanation import Explanation
from hingerank.rankers.linear import RankSVM
from hingerank.search.tuning import tune

PLAIN, CORRECTED, CURVES = "clicks as they are, linear", "corrected clicks, linear", "corrected clicks, curves"
PAGE, LOG, PRODUCTS = "report.html", "log.txt", "products"  # files of the demo
PLACES, MODEL, EXPORT = "propensities.json", "model", "model.sql"
SHOWN = ("price", "rating", "margin")  # of each product in the lists
LISTED = 7  # products of a list
TRAINED = 2 / 3  # of the searches: rankers learn from these, and the others measure them
OURS = {PAGE, LOG, PRODUCTS, PLACES, MODEL, EXPORT, "model.examples.json"}


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found.

    places: propensities of positions. rankers: by name; the last one was kept. ndcg, values: of each ranking on
    held-out searches, by judgments and by clicks. query, before, after, explained: a search, its rows in the order of
    today and of the last ranker, and why.
    """

    folder: Path
    shop: Shop
    places: Propensities
    rankers: dict[str, Ranker]
    ndcg: dict[str, float]
    values: ClickValues
    query: object
    before: np.ndarray
    after: np.ndarray
    explained: Explanation
    exported: Exported

    @property
    def ranker(self) -> Ranker:
        return self.rankers[CURVES]

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

    def table(self) -> tuple[list[str], list[list[object]]]:
        """A row for each ranking: NDCG@10 by judgments, by clicks with the interval, the part of margin in effects."""
        rows: list[list[object]] = []
        margin = self.shop.rows.names.index("margin")
        for name, value in self.values.items():
            (low, high), share = value.interval, None
            if (ranker := self.rankers.get(name)) is not None:
                effects = ranker.deviations_ if name == CURVES else np.abs(ranker.coef_)
                share = float(effects[margin] / effects.sum())
            rows.append([name, self.ndcg[name], value.value, f"{low:.3f} to {high:.3f}", share])
        return ["ranking", "NDCG@10", "DCG@10 by clicks", "95 % interval", "effect of margin"], rows


def run_demo(folder: Path, n_queries: int = 120, seed: int = 0, step: Callable[[str], None] | None = None) -> Demo:
    """Make a shop, estimate propensities from its clicks, learn rankers, and write a page, a model and an export.

    An earlier demo in the folder is replaced; step: called with what is done next.
    """

    def say(text: str) -> None:
        if step is not None:
            step(text)

    say("making a shop and its click log")
    shop = make_shop(n_queries, seed=seed)
    run = _emptied(Path(folder))
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
    return folder


# The page of what the demo found.


def shop_page(found: Demo) -> str:
    """The page of what the demo found."""
    ranker, certificate, check = found.ranker, found.ranker.certificate_, found.exported.check or {}
    order = np.argsort(-ranker.deviations_, kind="stable")
    panels = curve_panels([ranker.curves_[j] for j in order], [ranker.rug_[j] for j in order])
    learned = (
        "A score is the sum of these curves. Customers want a fitting title, a good rating and a price near 60. "
        "Margin, which today's ranking pushes, is almost flat. Ticks show where the products are."
    )
    corrected = (
        "All were learned from the clicks of some searches and measured on the others. Clicks as they are repeat the "
        "ranking that was shown: margin seems to matter."
    )
    first, second = found.explained.documents[:2]
    titles = dict(zip(np.asarray(found.shop.rows.docid).tolist(), found.shop.titles.tolist()))
    columns, rows = found.explained.pair(first, second)
    why = f"<h2>Why “{escape(titles[first])}” is above “{escape(titles[second])}”</h2>"
    proof = (
        "Training minimises a convex function. The certificate bounds how much lower it could be: the "
        f"{certificate.kind} is {certificate.value:.2g}, found in {certificate.n_iter} iterations."
    )
    shipped = (
        f"{found.exported.files[0].name} holds the ranker as {found.exported.to.upper()}. It was run by "
        f"{check['consumer']} on {check['rows']:,} products; the largest difference of a score is "
        f"{check['largest_difference']:.1g}. The same steps on files of your own:"
    )
    parts = [
        *_summary(found),
        _search(found),
        part("What it learned", learned, panels),
        part("What the correction does", corrected, table(*found.table())),
        places_part(found.shop.log, found.places),
        why + bars([columns[0], "first", "second", "contribution"], rows),
        part("Certificate", proof),
        part("Ship it", shipped, f"<pre>{escape(chr(10).join(found.commands))}</pre>"),
    ]
    return whole_page("hingerank demo", "A small shop: from clicks to a ranking", parts)


def _summary(found: Demo) -> list[str]:
    """What the demo did, and three figures."""
    log, value = found.shop.log, found.values[CURVES]
    story = (
        f'<p class="note">{len(np.asarray(log.session_names)):,} searches in a generated shop, '
        f"{float(log.clicks.sum()):,.0f} clicks, no judgments. The shop puts products of high margin first, and "
        "customers mostly see the top of the page. hingerank estimated how often each position is seen, corrected the "
        "clicks for it, and learned one curve per feature.</p>"
    )
    change = f"{100 * float(value.difference) / value.logged:+.0f} %"
    cards = {
        f"{found.ndcg['today']:.2f} → {found.ndcg[CURVES]:.2f}": "NDCG@10 by judgments that training never saw",
        change: f"{value.measure.upper()} by clicks, before any A/B test",
        f"{found.ranker.certificate_.value:.1g}": "duality gap: how far from the optimum, at most",
    }
    drawn = "".join(f'<div class="card"><b>{a}</b>{escape(b)}</div>' for a, b in cards.items())
    return [story, f'<div class="panels">{drawn}</div>']


def _search(found: Demo) -> str:
    """One search as the shop ranks it and as the ranker does."""
    rows = found.shop.rows
    columns, halves = [rows.names.index(name) for name in SHOWN], ""
    for title, order in (("Today", found.before), ("Learned from clicks", found.after)):
        lines = []
        for number, row in enumerate(order[:LISTED], 1):
            product, liked = escape(str(found.shop.titles[row])), "●" * int(rows.y[row])
            values = [f"{rows.X[row, j]:.4g}" for j in columns]
            lines.append([f'{number}. {product} <span class="full">{liked}</span>', *values])
        listing = html_table(["", *SHOWN], ["", *["number"] * len(SHOWN)], lines)
        halves += f"<div><h3>{title}</h3>{listing}</div>"
    stars = "● marks how well customers like a product here: none to ●●●. The ranker never saw these grades."
    return part(f"A search for “{found.query}”", stars, f'<div class="beside">{halves}</div>')
