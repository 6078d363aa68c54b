"""Judgments from a click model: graded rows, TREC's qrels, OpenSearch's import."""

import json
import os
from dataclasses import dataclass

import numpy as np

from hingerank.arrays import Frame
from hingerank.clicks.log import Documents, coded, documents_of, find_documents
from hingerank.clicks.models import ClickModel
from hingerank.data.blocks import as_text
from hingerank.data.checks import positive, whole
from hingerank.data.files import DataError, write_together, write_whole
from hingerank.data.frames import frame_from_rows
from hingerank.data.ranking_data import RankingData
from hingerank.rankers.corrections import count_of


@dataclass(frozen=True, eq=False)
class Judgments:
    """Grades of the documents of each query, from clicks.

    Parameters
    ----------
    query, document : arrays of names
    relevance : float array
        The model's relevance of the document, from 0 to 1.
    grade : int array
        Relevance divided by the largest one, as a grade 0, 1, … `n_grades` − 1.
    showings : float array
        How often the document was shown for the query.
    """

    query: np.ndarray
    document: np.ndarray
    relevance: np.ndarray
    grade: np.ndarray
    showings: np.ndarray

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        grades = ", ".join(f"{grade}: {count:,}" for grade, count in zip(*np.unique(self.grade, return_counts=True)))
        documents, queries = count_of(len(self), "document"), count_of(len(set(self.query.tolist())), "query")
        return f"Judgments({documents} of {queries}, grades {grades})"

    def grades_of(self, data: RankingData, unjudged: float = 0.0) -> np.ndarray:
        """A grade for each row of `data`, for `hr.evaluate` or a fit; `unjudged` for documents never shown."""
        n = len(self)
        judged = Documents(coded(self.query, n, "query"), coded(self.document, n, "document"))
        at = find_documents(documents_of(data), judged, "no row has a judgment")
        return np.where(at >= 0, self.grade[at], float(unjudged))

    def to_frame(self, backend: str = "pandas") -> Frame:
        """A table with the columns query, document, relevance, grade and showings."""
        return frame_from_rows(
            {"query": self.query, "document": self.document, "relevance": self.relevance, "grade": self.grade,
             "showings": self.showings}, backend,
        )  # fmt: skip

    def to_qrels(self, path: str | os.PathLike[str], topics: str | os.PathLike[str] | None = None) -> None:
        """Write TREC's lines (query, 0, document, grade).

        Parameters
        ----------
        path : path
        topics : path, optional
            A file for the queries, with a line (number, tab, query) for each. The numbers, from 1, then replace the
            queries in `path`, whose lines cannot hold queries with blanks.
        """
        queries, documents = as_text(self.query).tolist(), as_text(self.document).tolist()
        odd = next((name for name in documents if len(name.split()) != 1), None)
        if odd is not None:
            raise DataError(f"document {odd!r} has blanks, which separate columns of qrels: use to_frame")
        odd = next((name for name in queries if len(name.split()) != 1), None)
        if topics is None and odd is not None:
            raise DataError(f"query {odd!r} has blanks, which separate columns of qrels: give topics=FILE")
        names = {name: name if topics is None else str(number) for number, name in enumerate(dict.fromkeys(queries), 1)}
        rows = zip(queries, documents, self.grade.tolist())
        files = {path: "".join(f"{names[q]} 0 {d} {grade}\n" for q, d, grade in rows).encode()}
        if topics is not None:
            lines = (f"{number}\t{' '.join(name.split())}\n" for name, number in names.items())
            files[topics] = "".join(lines).encode()
        write_together(files)

    def to_opensearch(
        self, path: str | os.PathLike[str], name: str = "clicks", description: str = "from a click model"
    ) -> None:
        """Write the body of a request that imports judgments into OpenSearch's Search Relevance Workbench.

        PUT it to ``_plugins/_search_relevance/judgments``. Ratings are the relevance, with three digits.
        """
        queries, documents = as_text(self.query).tolist(), as_text(self.document).tolist()
        by_query: dict[str, list[dict[str, str]]] = {query: [] for query in sorted(queries)}
        for row in np.argsort(-self.relevance, kind="stable").tolist():
            by_query[queries[row]].append({"docId": documents[row], "rating": f"{self.relevance[row]:.3f}"})
        ratings = [{"query": query, "ratings": found} for query, found in by_query.items()]
        body = {"name": name, "description": description, "type": "IMPORT_JUDGMENT", "judgmentRatings": ratings}
        write_whole(path, (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode())


def judgments(model: ClickModel, n_grades: int = 5, least_showings: float = 1.0) -> Judgments:
    """The relevance of each document of each query by a click model, without place bias, and grades.

    Parameters
    ----------
    model : ClickModel
        A fitted model. Relevance is its attraction, or attraction times satisfaction for SDBN and DBN.
    n_grades : int
        Grades are relevance divided by the largest one, times n_grades − 1, and rounded.
    least_showings : float
        Documents that were shown less often are left out.

    Examples
    --------
    >>> from hingerank.clicks.log import ClickLog
    >>> from hingerank.clicks.models import click_model
    >>> shown = {"queries": ["q"] * 4, "documents": list("abba"), "places": [1, 2, 1, 2], "sessions": [0, 0, 1, 1]}
    >>> judgments(click_model(ClickLog(**shown, clicks=[1, 0, 1, 1]), "pbm"))
    Judgments(2 documents of 1 query, grades 3: 1, 4: 1)
    """
    if not isinstance(model, ClickModel):
        raise ValueError(f"expected a fitted click model (hingerank.click_model(log)), got {type(model).__name__}")
    whole("n_grades", n_grades, 2)
    positive("least_showings", least_showings, 0.0)
    relevance = model.relevance()
    kept = model.showings_ >= least_showings
    if not kept.any():
        raise DataError(
            f"no document was shown {least_showings:g} times: least_showings={least_showings:g} is too high"
        )
    largest = float(relevance[kept].max())
    grade = np.round(relevance[kept] / (largest if largest > 0 else 1.0) * (n_grades - 1)).astype(np.int64)
    queries, documents = model.query_names_[model.query_[kept]], model.document_names_[model.document_[kept]]
    return Judgments(queries, documents, relevance[kept], grade, model.showings_[kept])
