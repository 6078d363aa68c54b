"""Tables that a model ranks on the command line: columns by name, no grades needed, missing values as learned."""

import json
import re

import numpy as np
import pytest

from hingerank.cli import main

pd = pytest.importorskip("pandas", reason="pandas is not installed: pip install 'hingerank[frames]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'hingerank[frames]'")
FEATURES = ["price", "age, days", "bm25"]


@pytest.fixture(params=["csv", "parquet"])
def shop(tmp_path, request):
    """A table with a text column, an id that is not called docid, and missing prices; a model of three columns."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"query": np.repeat(np.arange(30), 10), "sku": [f"s{i}" for i in range(300)]})
    table["brand"] = rng.choice(["a", "b"], 300)
    for name in FEATURES:
        table[name] = rng.random(300)
    table["stars"] = np.digitize(table["bm25"] - table["price"], [-0.3, 0.3])
    table.loc[::17, "price"] = np.nan
    path = tmp_path / f"shop.{request.param}"
    write(table, path)
    learned = tmp_path / f"learned.{request.param}"
    write(table[["query", "stars", *FEATURES]], learned)
    assert main(["fit", str(learned), "--label", "stars", "--set", "missing=median", "-o", f"{tmp_path}/model/"]) == 0
    return table, path, f"{tmp_path}/model/"


def write(table, path):
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)


def printed(capsys, *words):
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_a_model_finds_its_columns_and_needs_no_grades(shop, capsys, tmp_path):
    table, path, model = shop
    expected = printed(capsys, "rank", model, path)
    mixed = tmp_path / f"mixed{path.suffix}"
    write(table[["bm25", "brand", "query", "sku", "age, days", "price"]], mixed)
    assert len(expected.split()) == 300
    assert printed(capsys, "rank", model, mixed) == expected


def test_document_ids_are_in_the_column_that_docid_names(shop, capsys):
    table, path, model = shop
    best = json.loads(printed(capsys, "rank", model, path, "--docid", "sku", "--top", "1", "--json"))
    assert {document for query in best for document in query["documents"]} <= {*table["sku"]}
    explained = printed(capsys, "explain", model, path, "--docid", "sku", "--query", "2")
    assert re.search(r"document s2\d\b", explained)


def test_measures_need_grades(shop, capsys):
    _, path, model = shop
    assert main(["evaluate", str(path), model]) != 0
    assert "there is no column 'label'" in capsys.readouterr().err
    assert "ndcg@10" in printed(capsys, "evaluate", path, model, "--label", "stars")


def test_a_named_column_of_grades_is_used(shop, capsys):
    _, path, model = shop
    assert main(["rank", model, str(path), "--label", "nothing"]) != 0
    assert "there is no column 'nothing'" in capsys.readouterr().err


def test_rows_to_validate_on_are_read_by_the_names_of_their_columns(shop, capsys, tmp_path):
    table, path, _ = shop
    learned, other = (tmp_path / f"{name}{path.suffix}" for name in ("learned", "other"))
    write(table[["brand", "stars", *FEATURES[::-1], "query"]], other)
    words = ["--label", "stars", "--set", "missing=median", "--json"]
    for name, key, more in (("fit", "validation ndcg@10", []), ("tune", "value", ["--set", "C=1"])):
        found = []
        for number, rows in enumerate((learned, other)):
            saved = f"{tmp_path}/{name}{number}/"
            out = json.loads(printed(capsys, name, learned, *words, *more, "--validation", rows, "-o", saved))
            found.append(out[key] if key in out else out["trials"])
        assert str(found[0]).split("seconds")[0] == str(found[1]).split("seconds")[0]


def test_missing_values_need_a_rule(shop, capsys, tmp_path):
    _, path, _ = shop
    names = ["--label", "stars", "--docid", "sku", "--features", "price,bm25"]
    assert main(["fit", str(path), *names, "-o", f"{tmp_path}/other/"]) != 0
    problem = capsys.readouterr().err
    assert "column 0 'price'" in problem and "--set missing=median" in problem
    assert main(["fit", str(path), *names, "--missing", "nan", "-o", f"{tmp_path}/other/"]) != 0
    problem = capsys.readouterr().err
    assert "--set missing=median" in problem and "SimpleImputer" not in problem and "--missing nan" not in problem
    assert main(["info", str(path), *names]) != 0
    problem = capsys.readouterr().err
    assert "--missing nan" in problem and "--set" not in problem
    assert main(["tune", str(path), *names, "--set", "missing=zero,median", "-o", f"{tmp_path}/tuned/"]) == 0


def test_a_column_of_text_is_named_with_options(shop, capsys):
    _, path, _ = shop
    assert main(["info", str(path), "--label", "stars"]) != 0
    problem = capsys.readouterr().err
    assert "'sku'" in problem and "--features" in problem and "features=" not in problem
