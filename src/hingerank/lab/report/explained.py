"""One page that shows what each feature contributed to the scores of a query: bars, no scripts."""

from collections.abc import Sequence
from html import escape

from hingerank.lab.report.plain import bars, whole_page
from hingerank.rankers.explanation import Explanation

MOST_DOCUMENTS = 50


def explained_page(
    explanation: Explanation, query: str, pair: Sequence[str] | None = None, top: int | None = 10
) -> str:
    """The page of one query's explanation, rows best first; pair: two documents to compare first."""
    parts = [f'<p class="note">What each feature contributed to the score; {escape(explanation.how)}.</p>']
    if pair is not None:
        names = f"{escape(str(pair[0]))} and {escape(str(pair[1]))}"
        parts.append(f"<h2>Why {names} stand apart</h2>" + bars(*explanation.pair(pair[0], pair[1], top)))
    for place in range(min(len(explanation), MOST_DOCUMENTS)):
        name = escape(str(explanation.documents[place]))
        parts.append(f"<h2>{place + 1}. document {name}</h2>" + bars(*explanation.table(place, top)))
    left = len(explanation) - MOST_DOCUMENTS
    if left > 0:
        parts.append(f'<p class="note">{left:,} more documents are not shown.</p>')
    return whole_page(f"query {query} – hingerank explains", f"Query {query}", parts)
