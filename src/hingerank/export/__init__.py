"""Write a fitted ranker for another program: ``hingerank.export(ranker, path, to="onnx")``, or ``ranker.export(...)``.

Parameters
----------
ranker : a fitted ranker
path : where it goes
    A file, or a folder (existing, or ending in a slash); formats of several files need a folder.
to : the format
    See the page "Exports" for what each carries; a format that cannot carry a ranker says why and names those that can.
features : a mapping from feature names to the other program's names, or to {"name": ..., and what else a format takes}
    For Solr, Elasticsearch and OpenSearch also the engine's own list of features, which the model is then held against.
check : RankingData to score by the export, in a program that is at hand
options : of the format

Returns
-------
An object with ``files``, ``notes`` (what the model expects of its rows) and ``check`` (the largest difference from the
ranker's own scores, reordered queries and negative scores). Beside the export lies a file of examples: rows, their
expected scores, and a line that tests them. An export whose scores are not the ranker's is an ExportError that names
rows, and nothing is written; without `check` a few rows are tried where a program is at hand.

Inside, this package has the project's own model file, the forms that exports start from, and the formats.
"""

import sys
from types import ModuleType
from typing import Any

from hingerank.arrays import Ranker


class _Export(ModuleType):
    """A package that can be called, since the function and the package have the same name."""

    def __call__(
        self, ranker: Ranker, path: object, to: str, *, features: object = None, check: object = None, **options: object
    ) -> Any:
        from hingerank.export.exporting import export as write

        return write(ranker, path, to, features=features, check=check, **options)


export = sys.modules[__name__]
export.__class__ = _Export
