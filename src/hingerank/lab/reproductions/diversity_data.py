"""Queries of TREC's Web Tracks for diversification: judged ClueWeb09 documents with features, and Indri's runs."""

import csv
import lzma
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.read_write import read
from hingerank.diversity.queries import DiverseData, DiverseQuery
from hingerank.diversity.relations import (
    Relations,
    aspects_from_clusters,
    aspects_from_scores,
    aspects_from_subtopics,
    category_relation,
    cosine_relation,
    euclidean_relation,
    unit_scores,
)
from hingerank.diversity.trec import Qrels, Run, read_diversity_qrels, read_run

YEARS = (2009, 2010, 2011, 2012)


def web_track_qrels(folder: Path) -> Qrels:
    """Subtopic judgments of all four years: topics are numbered on."""
    return {
        topic: judged
        for year in YEARS
        for topic, judged in read_diversity_qrels(folder / f"qrels.diversity.{year}.xz").items()
    }


def indri_runs(folder: Path) -> Run:
    """The query likelihood runs of all four years."""
    return {
        topic: ranked
        for year in YEARS
        for topic, ranked in read_run(folder / f"indri_baseline_run.{year}.txt.xz").items()
    }


def clueweb_folds(folder: Path, qrels: Qrels) -> list[DiverseData]:
    """Five folds of the 61 topics with the 42 Webis features of their judged documents."""
    folds = []
    for number in range(1, 6):
        data = read(folder / f"Fold{number}.test.txt.xz")
        documents: dict[str, dict[str, np.ndarray]] = {}
        for topic, docid, x in zip(data.qid, np.asarray(data.docid), data.X):
            documents.setdefault(str(topic), {})[str(docid)] = x
        folds.append(
            DiverseData(
                [
                    _clueweb_query(topic, list(rows), np.array([*rows.values()]), qrels[topic])
                    for topic, rows in documents.items()
                ]
            )
        )
    return folds


def _clueweb_query(topic: str, docids: list[str], X: np.ndarray, judged: Any) -> DiverseQuery:
    """There is no text and there are no URLs: what can be known of two documents comes from features and ids.

    Relations: cosine distance of all features, Euclidean distances of the features of each of four fields and of the
    six of the web graph, and whether two documents lie in the same part of the crawl (ids number pages in crawl order,
    so neighbours are often of one site). Aspects: eight clusters of the feature vectors. "Words" for SVM-DIV: which
    quarter of its range each feature is in.
    """
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


def indri_queries(folder: Path, qrels: Qrels, aspects: str) -> list[DiverseQuery]:
    """The first 100 documents of Indri's runs with aspects.

    "suggestions": BM25 scores of query suggestions, for the topics whose suggestions all have scores in the data;
    their cosine distance is the relation. "subtopics": the true subtopics, what a perfect guess would give.
    """
    scores = _suggestion_scores(folder) if aspects == "suggestions" else {}
    queries = []
    for topic, ranked in indri_runs(folder).items():
        if topic not in qrels or (aspects == "suggestions" and topic not in scores):
            continue
        docids = ranked.docids[:100]
        known: dict[str, Any] = {"relevance": unit_scores(ranked.scores[:100]), "docids": docids, "qid": topic}
        if aspects == "suggestions":
            V = _vectors(scores[topic], docids)
            known |= {"relations": Relations(cosine_relation(V, "suggestions")), "aspects": aspects_from_scores(V)}
        else:
            known["aspects"] = aspects_from_subtopics(qrels[topic].select(docids))
        queries.append(DiverseQuery(np.zeros((len(docids), 0)), **known))
    return queries


def _vectors(scores: list[dict[str, float]], docids: list[str]) -> np.ndarray:
    return np.array([[by_document.get(docid, 0.0) for by_document in scores] for docid in docids])


def _suggestion_scores(folder: Path) -> dict[str, list[dict[str, float]]]:
    """topic -> for each suggestion {document: BM25 of the whole text}, where all suggestions of a topic have scores."""
    from xml.etree import ElementTree

    table: dict[str, dict[str, float]] = {}
    with lzma.open(folder / "dssa_rel_feat.csv.xz", "rt") as file:
        for row in csv.DictReader(file):
            table.setdefault(row["query"], {})[row["doc"]] = float(row["text-bm25"])
    found = {}
    with lzma.open(folder / "dssa_query_suggestion.xml.xz") as file:
        for topic in ElementTree.parse(file).iter("topic"):
            names = [part.findtext("suggestion", "") for part in topic.iter("subtopic1")]
            if names and all(name in table for name in names):
                found[topic.get("number", "")] = [table[name] for name in names]
    return found
