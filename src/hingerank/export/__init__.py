"""Write a fitted ranker for another program: ``hingerank.export(ranker, path, to="onnx")``, or ``ranker.export(...)``.

Parameters
----------
ranker : a fitted ranker
path : where to write it
    A file, or a folder (existing, or ending in a slash). Formats of several files (Solr, Elasticsearch, OpenSearch,
    Vespa) make a folder, unless the path ends as their first file does (.json, .profile) and the model needs no other.
to : the format
    See the page "Exports" for what each supports; a format that cannot express a ranker says why and names those that
    can.
features : a mapping from feature names to the other program's names, or to {"name": ..., and what else a format takes}
    For Solr, Elasticsearch and OpenSearch also the engine's own list of features, which the model is checked against.
check : RankingData to score with the export, in a program that is installed
options : of the format

Returns
-------
An object with ``files``, ``notes`` (what the model expects of its rows) and ``check`` (the largest difference from the
ranker's own scores, reordered queries and negative scores). A file of examples is written beside the export: rows,
their expected scores, and a command that tests them. An export whose scores differ from the ranker's is an ExportError
that names rows, and nothing is written; without `check` a few rows are tried if a program is installed.

This package also contains the project's own model file, the forms that exports start from, and the formats.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from hingerank.arrays import Ranker

if TYPE_CHECKING:
    from hingerank.data.files import PathLike
    from hingerank.data.ranking_data import RankingData
    from hingerank.export.exporting import Exported


class _Export(ModuleType):
    """A callable package, since the function and the package have the same name."""

    def __call__(
        self, ranker: Ranker, path: "PathLike", to: str, *, features: object = None,
        check: "RankingData | None" = None, **options: object,
    ) -> "Exported":  # fmt: skip
        from hingerank.export.exporting import export as write

        return write(ranker, path, to, features=features, check=check, **options)


export = sys.modules[__name__]
export.__class__ = _Export
