"""Diversified rankings compared as in the R-LTR and PAMM papers: a table of ERR-IA@20 and alpha-NDCG@20.

    python benchmarks/diversity.py generated [--queries 150] [--seeds 1] [--methods pamm,r-ltr]
    python benchmarks/diversity.py measures  [--queries 150] [--seeds 1]
    python benchmarks/diversity.py clueweb   [--data FOLDER]
    python benchmarks/diversity.py indri     [--data FOLDER]

generated: queries of `make_diverse`, known subtopics, five folds.
measures: PAMM for measures that disagree, intent-aware precision and subtopic recall, on the same generated queries: is
    each best on its own measure? (ERR-IA and alpha-NDCG hardly disagree.) Same settings for all.
clueweb: the 42 Webis features of judged ClueWeb09 documents joined with the subtopic judgments of TREC's Web Tracks, 61
    topics, their five folds. There is no text and there are no URLs. Relations: cosine distance of all features,
    Euclidean distances of the features of each of four fields and of the six web-graph features, and whether two
    documents lie in the same part of the crawl (ClueWeb ids number pages in crawl order, so neighbours are often
    of one site). Aspects: eight clusters of the feature vectors. "Words" for SVM-DIV: which quarter of its range each
    feature is in.
indri: the first 100 documents of the Indri baseline runs reranked with aspects from query suggestions, for the 13
    topics whose suggestions have scores in the data; then with the true subtopics as aspects, for all 198 topics, as
    the limit of what guessing aspects could bring. Not learned: λ of a topic is chosen on the other topics.

In the first two, every method's settings are chosen on the validation fold alone, by the measure it is named after
(alpha-NDCG@20 if it names none). MMR, xQuAD and PM-2 rerank what ListMLE learned, as do the structural SVMs, whose
candidates are its best 20 or 50. p values: randomisation tests over all test queries against the best PAMM, Holm.
"""

import argparse
import lzma
import os
import time
import warnings
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from hingerank.data.aspects import aspects_from_clusters, aspects_from_scores, aspects_from_subtopics, unit_scores
from hingerank.data.diverse import DiverseData, DiverseQuery
from hingerank.data.diverse_generator import make_diverse
from hingerank.data.relations import Relations, category_relation, cosine_relation, euclidean_relation
from hingerank.data.trec import read_diversity_qrels, read_run
from hingerank.evaluation.significance import holm, p_values
from hingerank.metrics.diversity import evaluate_diversity, parse_diversity_measure
from hingerank.rankers.baselines.listmle import ListMLE
from hingerank.rankers.diverse.mmr import MMR
from hingerank.rankers.diverse.pamm import PAMM
from hingerank.rankers.diverse.pm2 import PM2
from hingerank.rankers.diverse.rltr import RLTR
from hingerank.rankers.diverse.structsvmdiv import StructSVMDiv
from hingerank.rankers.diverse.svmdiv import SVMDiv
from hingerank.rankers.diverse.xquad import XQuAD

ERR, NDCG = "err-ia@20", "alpha-ndcg@20"
Scorer = Callable[[DiverseData, Any], dict[str, dict[str, float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["generated", "measures", "clueweb", "indri"])
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", default="", help="only methods whose names contain one of these, comma separated")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HINGERANK_DATA", "../shared/data")))
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if asked.task == "indri":
        indri(asked.data)
        return
    if asked.task == "measures":
        own_measures(asked.queries, asked.seeds)
        return
    wanted = [part for part in asked.methods.lower().split(",") if part]
    if asked.task == "generated":
        values: dict[str, dict[str, dict[str, float]]] = {}
        for seed in range(asked.seeds):
            data = make_diverse(asked.queries, seed=seed)
            folds = [data[k::5] for k in range(5)]
            merge(values, compare(folds, by_candidates, wanted, learning_rates=(0.03, 0.1)), f"{seed}-")
        show(values)
    else:
        folds, qrels = clueweb(asked.data)
        by_qrels = lambda queries, run: evaluate_diversity(qrels, run, [ERR, NDCG], per_query=True)  # noqa: E731
        show(compare(folds, by_qrels, wanted, learning_rates=(0.003, 0.01)))


# --- methods ---------------------------------------------------------------------------------------------------------


def settings(learning_rates: Iterable[float]) -> dict[str, tuple[str, str, list[Any]]]:
    """name -> measure to select by, which queries it gets ("plain" or "reranked"), rankers to choose from."""
    shares, prices = (0.1, 0.3, 0.5, 0.7, 0.9), (0.1, 1.0, 10.0)
    relations = (None, 0, 1, 2)
    pamm = [{"top": top, "learning_rate": rate} for top, rate in product((5, 10), learning_rates)]
    struct = [{"C": C, "candidates": n} for C, n in product((1.0, 10.0), (20, 50))]
    return {
        "MMR": (NDCG, "reranked", [MMR(lam, relation) for lam, relation in product(shares, relations)]),
        "xQuAD": (NDCG, "reranked", [XQuAD(lam) for lam in shares]),
        "PM-2": (NDCG, "reranked", [PM2(lam) for lam in shares]),
        "SVM-DIV": (NDCG, "reranked", [SVMDiv(**how) for how in struct]),
        "StructSVM(ERR-IA)": (ERR, "reranked", [StructSVMDiv(ERR, **how) for how in struct]),
        "StructSVM(alpha-NDCG)": (NDCG, "reranked", [StructSVMDiv(NDCG, **how) for how in struct]),
        "R-LTR": (NDCG, "plain", [RLTR(*how, tol=1e-3) for how in product(prices, ("mean", "all"), (3, 5, 10))]),
        "PAMM(ERR-IA)": (ERR, "plain", [PAMM(ERR, **how) for how in pamm]),
        "PAMM(alpha-NDCG)": (NDCG, "plain", [PAMM(NDCG, **how) for how in pamm]),
    }


def compare(folds: list[Any], score: Scorer, wanted: list[str], learning_rates: Iterable[float]) -> dict:
    """{method: {measure: {query: value}}} over all test folds: three to train, one to choose, one to test, rotating."""
    values: dict[str, dict[str, dict[str, float]]] = {}
    for k in range(5):
        train = DiverseData([q for j in range(3) for q in folds[(k + j) % 5]])
        parts = {"train": train, "validation": folds[(k + 3) % 5], "test": folds[(k + 4) % 5]}
        merge(values, {"one feature": score(parts["test"], one_feature(train, parts["test"]))})
        relevance = best_listmle(parts, score)
        reranked = {name: rescored(queries, relevance) for name, queries in parts.items()}
        run = {q.qid: list(q.docids[np.argsort(-q.relevance, kind="stable")]) for q in reranked["test"]}
        merge(values, {"ListMLE": score(parts["test"], run)})
        for name, (measure, kind, rankers) in settings(learning_rates).items():
            if wanted and not any(part in name.lower() for part in wanted):
                continue
            began = time.perf_counter()
            queries = reranked if kind == "reranked" else parts
            chosen = best_of(rankers, queries, score, measure)
            merge(values, {name: score(queries["test"], chosen.rerank_run(queries["test"]))})
            seconds = time.perf_counter() - began
            print(f"fold {k + 1} {name:<22} {seconds:6.1f} s  {' '.join(str(chosen).split())}", flush=True)
    return values


def best_of(rankers: list[Any], queries: dict[str, DiverseData], score: Scorer, measure: str) -> Any:
    """The ranker, fitted on the training queries, that is best on the validation queries."""
    found = []
    for ranker in rankers:
        ranker.fit(queries["train"])
        found.append(mean(score(queries["validation"], ranker.rerank_run(queries["validation"]))[measure]))
    return rankers[int(np.argmax(found))]


def best_listmle(parts: dict[str, DiverseData], score: Scorer) -> np.ndarray:
    """Weights of ListMLE on the number of subtopics that a document serves, C chosen on the validation queries."""
    train = parts["train"]
    X, qid = np.concatenate([q.X for q in train]), np.repeat(np.arange(len(train)), [q.n for q in train])
    y = np.concatenate([(q.judgments > 0).sum(axis=1) for q in train])
    found = []
    for C in (0.001, 0.01, 0.1, 1.0):
        w = ListMLE(C=C).fit(X, y, qid).coef_
        run = {q.qid: list(q.docids[np.argsort(-(q.X @ w), kind="stable")]) for q in parts["validation"]}
        found.append((mean(score(parts["validation"], run)[NDCG]), C, w))
    return max(found, key=lambda entry: entry[0])[2]


def rescored(queries: DiverseData, w: np.ndarray) -> DiverseData:
    """ListMLE's score as relevance and as one more feature; aspects count more in relevant documents."""

    def change(query: DiverseQuery) -> DiverseQuery:
        s = unit_scores(query.X @ w)
        aspects = None if query.aspects is None else query.aspects * s[:, None]
        return query.with_parts(relevance=s, X=np.column_stack((query.X, s)), aspects=aspects)

    return queries.map(change)


def one_feature(train: DiverseData, test: DiverseData) -> dict[str, list[str]]:
    """Rank by the single feature that is best on the training queries."""
    measure = parse_diversity_measure(NDCG)
    by = lambda q, j: np.argsort(-q.X[:, j], kind="stable")  # noqa: E731
    means = [np.mean([measure(q.judgments, by(q, j)) for q in train]) for j in range(train[0].n_features)]
    return {q.qid: list(q.docids[by(q, int(np.argmax(means)))]) for q in test}


def by_candidates(queries: DiverseData, run: Any) -> dict[str, dict[str, float]]:
    """Measures with the ideal taken among the candidates."""
    values: dict[str, dict[str, float]] = {ERR: {}, NDCG: {}}
    for q in queries:
        place = {docid: i for i, docid in enumerate(q.docids)}
        docids = run[q.qid] if isinstance(run[q.qid], list) else run[q.qid].docids
        for name in values:
            values[name][q.qid] = parse_diversity_measure(name)(q.judgments, [place[docid] for docid in docids[:20]])
    return values


def own_measures(queries: int, seeds: int) -> None:
    """PAMM for three measures, each measured by all three, and tests of the first against the last."""
    measures = ("p-ia@10", NDCG, "strec@5")
    values: dict[str, dict[str, list[float]]] = {name: {other: [] for other in measures} for name in measures}
    for seed, k in product(range(seeds), range(5)):
        data = make_diverse(queries, seed=seed)
        train, test = data[np.arange(queries) % 5 != k], data[k::5]
        for name in measures:
            model = PAMM(name, top=10).fit(train)
            for other in measures:
                values[name][other] += [parse_diversity_measure(other)(q.judgments, model.rerank(q)) for q in test]
    print(f"{queries * seeds} queries\n{'PAMM for':<16}" + "".join(f"{other:>16}" for other in measures))
    for name in measures:
        print(f"{name:<16}" + "".join(f"{np.mean(values[name][other]):>16.4f}" for other in measures))
    first, last = measures[0], measures[-1]
    for other in (first, last):
        p = p_values("randomisation", [(values[first][other], values[last][other])])[0]
        print(f"{other}: PAMM for {first} against PAMM for {last}, p = {p:.4f}")


# --- data ------------------------------------------------------------------------------------------------------------


def clueweb(folder: Path) -> tuple[list[DiverseData], Any]:
    """Five folds of the 61 topics, and the judgments."""
    qrels = {}
    for year in (2009, 2010, 2011, 2012):
        qrels.update(read_diversity_qrels(folder / f"trec-web-diversity/qrels.diversity.{year}.xz"))
    folds = []
    for number in range(1, 6):
        rows: dict[str, dict[str, list[float]]] = {}
        with lzma.open(folder / f"ClueWeb09-webis-ltr/Fold{number}.test.txt.xz", "rt") as file:
            for line in file:
                fields, _, comment = line.partition("#")
                _, qid, *features = fields.split()
                docid = comment.partition("=")[2].strip()
                rows.setdefault(qid[4:], {})[docid] = [float(f.partition(":")[2]) for f in features]
        folds.append(DiverseData([clueweb_query(topic, rows[topic], qrels[topic]) for topic in rows]))
    return folds, qrels


def clueweb_query(topic: str, documents: dict[str, list[float]], judged: Any) -> DiverseQuery:
    docids, X = list(documents), np.array(list(documents.values()))
    fields = [euclidean_relation(X[:, 6 + field :: 4], f"field{field + 1}") for field in range(4)]
    crawl = category_relation(["/".join(docid.split("-")[1:3]) for docid in docids], "crawl")
    parts = [cosine_relation(X, "features"), crawl, euclidean_relation(X[:, :6], "web"), *fields]
    quarters = np.minimum((4 * X).astype(int), 3) + 4 * np.arange(X.shape[1])
    words = np.zeros((len(X), 4 * X.shape[1]))
    np.put_along_axis(words, quarters, 1.0, axis=1)
    return DiverseQuery(
        X,
        relations=Relations(parts).materialize(),
        judgments=judged.select(docids),
        aspects=aspects_from_clusters(X),
        words=words,
        docids=docids,
        qid=topic,
    )


def indri(folder: Path) -> None:
    """Rerank the Indri runs with aspects from suggestions (13 topics) and with the true subtopics (all topics)."""
    folder = folder / "trec-web-diversity"
    qrels, run = {}, {}
    for year in (2009, 2010, 2011, 2012):
        qrels.update(read_diversity_qrels(folder / f"qrels.diversity.{year}.xz"))
        run.update(read_run(folder / f"indri_baseline_run.{year}.txt.xz"))
    run = {topic: ranked for topic, ranked in run.items() if topic in qrels}
    guessed, true = [], []
    scores = suggestion_scores(folder)
    for topic, ranked in run.items():
        docids, relevance = ranked.docids[:100], unit_scores(ranked.scores[:100])
        known = {"relevance": relevance, "docids": docids, "qid": topic}
        J = qrels[topic].select(docids)
        true.append(DiverseQuery(np.zeros((len(docids), 0)), aspects=aspects_from_subtopics(J), **known))
        if topic in scores:
            V = np.array([scores[topic].get(docid, np.zeros(scores[topic]["width"])) for docid in docids])
            relations = Relations(cosine_relation(V, "suggestions"))
            guessed.append(DiverseQuery(V, relations=relations, aspects=aspects_from_scores(V), **known))
    for title, queries in (("aspects from query suggestions", guessed), ("the true subtopics as aspects", true)):
        print(f"\n{title}: {len(queries)} topics")
        classics(queries, qrels)


def classics(queries: list[DiverseQuery], qrels: Any) -> None:
    values = {"Indri": evaluate_diversity(qrels, {q.qid: list(q.docids) for q in queries}, [ERR, NDCG], per_query=True)}
    for name, ranker in (("MMR", MMR), ("xQuAD", XQuAD), ("PM-2", PM2)):
        if name == "MMR" and queries[0].relations is None:
            continue
        tried = []
        for lam in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
            tried.append(evaluate_diversity(qrels, ranker(lam).rerank_run(queries), [ERR, NDCG], per_query=True))
        values[name] = {ERR: {}, NDCG: {}}
        for q in queries:  # λ for a topic is the best on all other topics
            best = max(tried, key=lambda t: mean({k: v for k, v in t[NDCG].items() if k != q.qid}))
            for measure in (ERR, NDCG):
                values[name][measure][q.qid] = best[measure][q.qid]
    show(values, reference="Indri")


def suggestion_scores(folder: Path) -> dict[str, dict[str, Any]]:
    """{topic: {document: BM25 of the whole text for each suggestion}}, where all suggestions of a topic have scores."""
    import csv
    from xml.etree import ElementTree

    table: dict[str, dict[str, float]] = {}
    with lzma.open(folder / "dssa_rel_feat.csv.xz", "rt") as file:
        for row in csv.DictReader(file):
            table.setdefault(row["query"], {})[row["doc"]] = float(row["text-bm25"])
    found: dict[str, dict[str, Any]] = {}
    with lzma.open(folder / "dssa_query_suggestion.xml.xz") as file:
        for topic in ElementTree.parse(file).iter("topic"):
            names = [part.findtext("suggestion", "") for part in topic.iter("subtopic1")]
            if names and all(name in table for name in names):
                docids = {docid for name in names for docid in table[name]}
                vectors: dict[str, Any] = {d: np.array([table[n].get(d, 0.0) for n in names]) for d in docids}
                found[topic.get("number", "")] = vectors | {"width": len(names)}
    return found


# --- tables ----------------------------------------------------------------------------------------------------------


def mean(values: dict[str, float]) -> float:
    return float(np.mean(list(values.values())))


def merge(into: dict, new: dict, prefix: str = "") -> None:
    for method, measures in new.items():
        for measure, by_query in measures.items():
            cell = into.setdefault(method, {}).setdefault(measure, {})
            cell.update({prefix + query: value for query, value in by_query.items()})


def show(values: dict, reference: str | None = None) -> None:
    """Means, and p values of the differences to the reference (the best PAMM if there is one)."""
    if reference is None:
        pamm = [name for name in values if name.startswith("PAMM")] or list(values)
        reference = max(pamm, key=lambda name: mean(values[name][NDCG]))
    queries = list(values[reference][NDCG])
    print(f"\n{len(queries)} queries; p: against {reference}, randomisation test, Holm")
    print(f"{'method':<24}{ERR:>12}{'p':>8}{NDCG:>16}{'p':>8}")
    others = [name for name in values if name != reference]
    corrected = {}
    for measure in (ERR, NDCG):
        column = {name: [values[name][measure][query] for query in queries] for name in values}
        found = p_values("randomisation", [(column[name], column[reference]) for name in others])
        corrected[measure] = dict(zip(others, holm(found)))
    for name, by_measure in values.items():
        cells = [(mean(by_measure[m]), corrected[m].get(name)) for m in (ERR, NDCG)]
        marks = ["" if p is None else f"{p:.4f}" for _, p in cells]
        text = [f"{value:>{width}.4f}{p:>8}" for (value, _), p, width in zip(cells, marks, (12, 16))]
        print(f"{name:<24}{''.join(text)}")


if __name__ == "__main__":
    main()
