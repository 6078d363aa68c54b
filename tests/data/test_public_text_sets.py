"""Real LETOR files, where they are at hand: their published figures."""

import os
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.data.read_write import read_folds

DATA = Path(os.environ.get("HINGERANK_DATA", Path(__file__).parents[3] / "shared" / "data"))

# queries, rows, features, rows per grade, the first document
SETS = {
    "OHSUMED/QueryLevelNorm": (106, 16_140, 45, [11_303, 2_585, 2_252], "244338"),
    "OHSUMED/Feature-null": (106, 16_140, 45, [11_303, 2_585, 2_252], "244338"),
    "MQ2008": (784, 15_211, 46, [12_279, 2_001, 931], "GX008-86-4444840"),
    "MQ2007-partial": (1_692, 59_290, 46, None, "GX000-00-0000000"),
    "ClueWeb09-webis-ltr": (61, 26_646, 42, None, None),
}


@pytest.mark.parametrize("name", SETS)
def test_figures(name):
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not in {DATA}; set HINGERANK_DATA")
    queries, rows, features, grades, first = SETS[name]
    data = hr.read(folder, missing="zero" if "null" in name else "error")
    assert (data.n_queries, data.n_rows, data.n_features) == (queries, rows, features)
    assert isinstance(data.X, np.ndarray) and len(data.docid) == rows and (data.docid != "").all()
    assert grades is None or np.bincount(data.y.astype(int)).tolist() == grades
    assert first is None or data.docid[0] == first
    folds = read_folds(folder, missing="zero" if "null" in name else "error")
    assert len(folds) == 5 and sum(fold.test.n_rows for fold in folds) == rows
    assert all(fold.train.n_rows + fold.validation.n_rows + fold.test.n_rows == rows for fold in folds)


def test_null_values_are_refused_unless_named():
    path = DATA / "OHSUMED/Feature-null/S1.txt.xz"
    if not path.is_file():
        pytest.skip(f"OHSUMED/Feature-null is not in {DATA}; set HINGERANK_DATA")
    with pytest.raises(hr.DataError, match="line 5, column 126: found 'NULL'"):
        hr.read(path)
    assert np.isnan(hr.read(path, missing="nan").X).any()
