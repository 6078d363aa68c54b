"""Diversifying rerankers compared as in the R-LTR and PAMM papers, on TREC's Web Tracks and on generated queries.

Every method's settings are chosen only on the validation fold, by the measure it is named after (α-NDCG@20 if it names
none). MMR, xQuAD and PM-2 rerank the results of ListMLE, and the structural SVMs choose among its best.

Runners return {row: Ours}; columns are a measure's title, alone, with ", all" or with the year of a track.
"""

import csv
import lzma
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

import hingerank
from hingerank.arrays import Facts, Given, Ranker
from hingerank.data.files import COMPRESSIONS, DataError
from hingerank.data.ranking_data import turns
from hingerank.diversity.generate import make_diverse
from hingerank.diversity.measures import evaluate_diversity, parse_diversity_measure
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
from hingerank.diversity.selection import MMR, PM2, XQuAD
from hingerank.diversity.trec import Qrels, Run, TopicJudgments, read_diversity_qrels, read_run
from hingerank.lab.comparison import compare, scored_folds
from hingerank.lab.folds import FoldLike
from hingerank.lab.methods import Method
from hingerank.lab.statistics import holm, paired_tests
from hingerank.papers.engine import Ours, Place, Recipe, Section, kept
from hingerank.search.proposals import NearestFirst

ERR, NDCG = "err-ia@20", "alpha-ndcg@20"
MEASURES = {"ERR-IA@20": ERR, "α-NDCG@20": NDCG}
YEARS = (2009, 2010, 2011, 2012)
LAMBDAS = [lam / 10 for lam in range(11)]
Values = dict[str, dict[str, float]]  # measure -> query -> value
Scorer = Callable[[Run], Values]
Found = Mapping[str, Given]  # row -> {"values": Values, "chosen": settings, "tried": settings}
Methods = Mapping[str, Recipe]


# The sections of the table.


def query_likelihood(section: Section, place: Place) -> dict[str, Ours]:
    """Indri's runs unchanged."""
    folder = place.find(section.study.data)
    values = evaluate_diversity(web_track_qrels(folder), indri_runs(folder), MEASURES.values(), per_query=True)
    return _rows({"QL": {"values": values}}, section)


def own_runs(section: Section, place: Place) -> dict[str, Ours]:
    """A user's runs, one row for each file of `runs/`, named after it: QL.txt, "PAMM(ERR-IA).run.gz", …"""
    folder = place.find(section.study.data)
    files = {name_of_run(path): path for path in sorted((folder / "runs").glob("*")) if path.is_file()}
    if not files:
        raise DataError(f"{folder / 'runs'}: no runs here, expected TREC run files named after the rows of the table")
    qrels = web_track_qrels(folder)
    found = {}
    for name, path in files.items():
        values = evaluate_diversity(qrels, read_run(path), MEASURES.values(), per_query=True)
        years = {track_year(topic) for topic in next(iter(values.values()))}
        titles = [title for title in section.columns if int(title[-4:]) in years]
        found[name] = Ours({title: _mean_of(values, title) for title in titles})
    return found


def name_of_run(path: Path) -> str:
    """The name of a file without its endings."""
    name = path.name
    for endings in (COMPRESSIONS, (".txt", ".run")):
        name = next((name.removesuffix(ending) for ending in endings if name.endswith(ending)), name)
    return name


def judged_documents(section: Section, place: Place) -> dict[str, Ours]:
    """Every method over five folds of topics. Option features: a data set."""
    qrels = web_track_qrels(place.find(section.study.data))

    def folds() -> list[DiverseData]:
        return clueweb_folds(place.find(section.options["features"]), qrels)

    return _rows(_each_method(section, place, "judged", folds), section)


def _each_method(section: Section, place: Place, label: str, folds: Callable[[], Sequence[DiverseData]]) -> Found:
    """By row what `fold_values` finds over these folds, or found before under this label."""
    once = cache(folds)

    def compute(name: str) -> Facts:
        return fold_values(name, section.methods, once())

    names = ("One feature", *section.methods)
    return {name: kept(place, section.study.run, f"{label} {name}", partial(compute, name)) for name in names}


def reranked_runs(section: Section, place: Place) -> dict[str, Ours]:
    """QL and the classics; λ of a topic is chosen on the other topics. Option aspects: as in `indri_queries`."""
    folder = place.find(section.study.data)
    qrels = web_track_qrels(folder)
    score = partial(evaluate_diversity, qrels, measures=tuple(MEASURES.values()), per_query=True)
    queries = indri_queries(folder, qrels, section.options["aspects"])
    found: dict[str, Given] = {"QL": {"values": score({query.qid: list(query.docids) for query in queries})}}
    for name, ranker in (("MMR", MMR), ("xQuAD", XQuAD), ("PM-2", PM2)):
        if name != "MMR" or queries[0].relations is not None:
            found[name] = leave_one_out(queries, score, [ranker(lam) for lam in LAMBDAS])
    return _rows(found, section)


def generated_queries(section: Section, place: Place) -> dict[str, Ours]:
    """Every method over five folds of generated queries.

    Options name: of the results; queries: number in a set; seeds: of the sets; data: options of `make_diverse`;
    vectors: length of the documents' vectors, if they have any.
    """
    options = section.options

    def folds(seed: int) -> list[DiverseData]:
        queries = make_diverse(options["queries"], seed=seed, **options["data"])
        queries = with_vectors(queries, options["vectors"]) if "vectors" in options else queries
        return [queries[k::5] for k in range(5)]

    parts = {s: _each_method(section, place, f"{options['name']} {s}", partial(folds, s)) for s in options["seeds"]}
    pooled: dict[str, Facts] = {}
    for seed, rows in parts.items():  # numbers of queries repeat in each set
        for name, row in rows.items():
            whole = pooled.setdefault(name, {"values": {}, "chosen": [], "tried": []})
            for measure, by_query in row["values"].items():
                numbered = {f"{seed}-{query}": value for query, value in by_query.items()}
                whole["values"].setdefault(measure, {}).update(numbered)
            whole["chosen"] += row["chosen"]
            whole["tried"] += row["tried"]
    return _rows(pooled, section)


def with_vectors(queries: DiverseData, length: int) -> DiverseData:
    """The queries with vectors: tf-idf weights of the words in a query, scaled to unit length, then projected.

    The projection is random and the same for all queries. Products of vectors are close to cosines of texts.
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    projection = np.random.default_rng(0).standard_normal((queries[0].words.shape[1], length)) / np.sqrt(length)

    def change(query: DiverseQuery) -> DiverseQuery:
        return query.with_parts(vectors=TfidfTransformer(sublinear_tf=True).fit_transform(query.words) @ projection)

    return queries.map(change)


def _rows(found: Found, section: Section) -> dict[str, Ours]:
    """Means over topics, with marks in the columns of all topics. Option against: the rows to compare with."""
    whole = [title for title in section.columns if not title[-4:].isdecimal()]
    compared = {
        title: (MEASURES[title.partition(",")[0]], row) for title, row in zip(whole, section.options.get("against", ()))
    }
    signs = marks({row: cell["values"] for row, cell in found.items()}, compared)
    return {
        row: Ours(
            {title: _mean_of(cell["values"], title) for title in section.columns},
            signs[row] if compared else None,
            chosen=cell.get("chosen", ()),
            widened=section.methods[row].grown(cell["tried"]) if row in section.methods else None,
        )
        for row, cell in found.items()
    }


def _mean_of(values: Values, title: str) -> float:
    """The mean of a column; the Web Tracks number topics consecutively: 1 to 50 in 2009, 51 to 100 in 2010, ..."""
    name, _, year = title.partition(", ")
    topics = values[MEASURES[name]].items()
    return _mean({t: v for t, v in topics if not year.isdecimal() or track_year(t) == int(year)})


def track_year(topic: str) -> int:
    """The year of a topic."""
    return 2009 + (int(topic) - 1) // 50


# One method: rotating folds, and choices on validation, by `compare`.


def fold_values(name: str, methods: Methods, folds: Sequence[DiverseData]) -> Facts:
    """{"values": {measure: {query: value}} over all test folds, "chosen": the setting in each, "tried": all settings}.

    Three folds to train, one to choose, one to test, rotating.
    """

    def method(row: str) -> Method:
        """Every setting is fitted from scratch, not from the solution of the one before."""
        return replace(methods[row], path="").method(row, NearestFirst)

    turned = [(DiverseData([q for part in train for q in part]), *others) for train, *others in turns(folds)]
    parts: Iterable[FoldLike] = turned
    if name in ("MMR", "xQuAD", "PM-2", "SVM-DIV") or name.startswith("StructSVM"):
        parts = scored_folds(turned, method("ListMLE"), NDCG)
    tested = Method(name, OneFeature) if name == "One feature" else method(name)
    results = compare([tested], parts, ERR if "ERR" in name else NDCG, [ERR, NDCG], workers=1)
    if results.failures():
        raise ValueError(f"{name}: {results.failures()[0]['error']}")
    tried = [record["setting"] for record in results.validations(name)]
    values = {measure: dict(results.per_query(name, measure)) for measure in (ERR, NDCG)}
    chosen = [record["setting"] for record in results.tests(name)]
    return {"values": values, "chosen": chosen, "tried": [s for k, s in enumerate(tried) if s not in tried[:k]]}


class OneFeature:
    """Ranks by a single feature, the one with the best α-NDCG@20 on the training queries."""

    def fit(self, queries: Sequence[DiverseQuery]) -> "OneFeature":
        measure = parse_diversity_measure(NDCG)

        def mean(j: int) -> float:
            return float(np.mean([measure(q.judgments, np.argsort(-q.X[:, j], kind="stable")) for q in queries]))

        self.feature_ = int(np.argmax([mean(j) for j in range(queries[0].n_features)]))
        return self

    def rerank(self, query: DiverseQuery, top: int = 20) -> np.ndarray:
        return np.argsort(-query.X[:, self.feature_], kind="stable")[:top]


def leave_one_out(queries: Sequence[DiverseQuery], score: Scorer, rankers: Sequence[Ranker]) -> Facts:
    """For every query the ranker that is best on all the others, by α-NDCG@20: for few queries and nothing to fit."""
    tried = [score(ranker.rerank_run(queries)) for ranker in rankers]
    values: Values = {ERR: {}, NDCG: {}}
    chosen = []
    for query in queries:
        others = [_mean({k: v for k, v in found[NDCG].items() if k != query.qid}) for found in tried]
        best = int(np.argmax(others))
        chosen.append({"lam": rankers[best].lam})
        for measure in (ERR, NDCG):
            values[measure][query.qid] = tried[best][measure][query.qid]
    return {"values": values, "chosen": chosen}


def marks(values: Mapping[str, Values], columns: Mapping[str, tuple[str, str]]) -> dict[str, dict[str, str]]:
    """row -> column -> sign. columns: column -> (measure, row that others are compared with).

    ▼: significantly below that row, ▲: significantly above (randomisation test over queries, 5 %, Holm).
    """
    signs: dict[str, dict[str, str]] = {row: {} for row in values}
    for column, (measure, reference) in columns.items():
        queries = list(values[reference][measure])
        cells = {row: np.array([found[measure][query] for query in queries]) for row, found in values.items()}
        others = [row for row in values if row != reference]
        pairs = [(cells[row], cells[reference]) for row in others]
        found = holm([one.p for one in paired_tests("randomisation", pairs, rounds=10_000)])
        for row, p in zip(others, found):
            if p < 0.05:
                signs[row][column] = "▲" if cells[row].mean() > cells[reference].mean() else "▼"
    return signs


def _mean(values: Mapping[str, float]) -> float:
    return float(np.mean(list(values.values())))


# Queries of TREC's Web Tracks: judged ClueWeb09 documents with features, and Indri's runs.


def web_track_qrels(folder: Path) -> Qrels:
    """Subtopic judgments of the years that are available: topics are numbered consecutively over the years.

    Either in one folder, qrels.diversity.2009 and so on, or as on TREC's server, a folder per year: 09/qrels.diversity,
    10/10.diversity-qrels.final, 11/qrels.diversity, 12/qrels.diversity. Any of them may be compressed.
    """
    found: Qrels = {}
    for year in YEARS:
        short = f"{year % 100:02d}"
        names = (f"qrels.diversity.{year}", f"{short}/qrels.diversity", f"{short}/{short}.diversity-qrels.final")
        paths = (folder / (name + packed) for name in names for packed in ("", *COMPRESSIONS))
        path = next((path for path in paths if path.is_file()), None)
        found |= {} if path is None else read_diversity_qrels(path)
    if not found:
        raise DataError(f"{folder}: no judgments here, expected 09/qrels.diversity.gz or qrels.diversity.2009, …")
    return found


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
        data = hingerank.read(folder / f"Fold{number}.test.txt.xz")
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


def _clueweb_query(topic: str, docids: list[str], X: np.ndarray, judged: TopicJudgments) -> DiverseQuery:
    """A query without text or URLs: relations and aspects come from features and document ids.

    Relations: cosine distance of all features, Euclidean distances of the features of each of four fields and of the
    six of the web graph, and whether two documents are in the same part of the crawl (ids number pages in crawl order,
    so neighbours are often from one site). Aspects: eight clusters of the feature vectors. "Words" for SVM-DIV: the
    quarter of its range that each feature is in.
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
        judged=judged,
    )


def indri_queries(folder: Path, qrels: Qrels, aspects: str) -> list[DiverseQuery]:
    """The first 100 documents of Indri's runs with aspects.

    "suggestions": BM25 scores of query suggestions, for the topics whose suggestions all have scores in the data;
    their cosine distance is the relation. "subtopics": the true subtopics, as from a perfect guess.
    """
    scores = _suggestion_scores(folder) if aspects == "suggestions" else {}
    queries = []
    for topic, ranked in indri_runs(folder).items():
        if topic not in qrels or (aspects == "suggestions" and topic not in scores):
            continue
        docids = ranked.docids[:100]
        known: Facts = {"relevance": unit_scores(ranked.scores[:100]), "docids": docids, "qid": topic}
        if aspects == "suggestions":
            V = np.array([[of_suggestion.get(docid, 0.0) for of_suggestion in scores[topic]] for docid in docids])
            known |= {"relations": Relations(cosine_relation(V, "suggestions")), "aspects": aspects_from_scores(V)}
        else:
            known["aspects"] = aspects_from_subtopics(qrels[topic].select(docids))
        queries.append(DiverseQuery(np.zeros((len(docids), 0)), **known))
    return queries


def _suggestion_scores(folder: Path) -> dict[str, list[dict[str, float]]]:
    """topic -> for each suggestion {document: BM25 of the whole text}, for topics whose suggestions all have scores."""
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
