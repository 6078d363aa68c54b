"""read_clicks: every kind of file gives the same log; what is wrong in a file is counted and never a showing."""

import json
import lzma
import re
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hingerank as hr
from hingerank.clicks.ubi import moment_of
from hingerank.data import tables
from hingerank.data.tables import write_table

LISTS = [("shoes", ["a", "b", "c"], ["b"]), ("shoes", ["b", "a", "c"], []), ("hats", ["x", "y"], ["x", "y"])]
ROWS = [
    (f"l{number}", query, document, place, int(document in clicked))
    for number, (query, documents, clicked) in enumerate(LISTS)
    for place, document in enumerate(documents, 1)
]


def counts(log):
    cells = log.cells()
    names = zip(log.query_names[cells.query], log.document_names[cells.document], cells.place.tolist())
    return {(str(q), str(d), k): (n, c) for (q, d, k), n, c in zip(names, cells.showings, cells.clicks)}


def expected():
    found = {}
    for _, query, document, place, clicked in ROWS:
        n, c = found.get((query, document, place), (0, 0))
        found[query, document, place] = n + 1, c + clicked
    return found


def frame():
    return pd.DataFrame(ROWS, columns=["session", "query", "document", "place", "clicked"])


def event(action, list_id, document, ordinal, **more):
    return {
        "application": "shop", "action_name": action, "query_id": list_id, "timestamp": "2025-01-22T14:57:25.099Z",
        "event_attributes": {"object": {"object_id": document}, "position": {"ordinal": ordinal}},
    } | more  # fmt: skip


def ubi(first=1):
    queries = [{"query_id": f"l{n}", "user_query": query, "timestamp": "2025-01-22T14:57:20.1+0000"}
               for n, (query, _, _) in enumerate(LISTS)]  # fmt: skip
    events = [event("impression", *row[:1], row[2], row[3] - 1 + first) for row in ROWS]
    events += [event("click", row[0], row[2], row[3] - 1 + first) for row in ROWS if row[4]]
    return queries, events


def lines(path, records, text=None):
    path.write_text("".join(json.dumps(record) + "\n" for record in records) if text is None else text, "utf-8")
    return path


def bulk(kind, records):
    return [line for record in records for line in ({"index": {"_index": f"ubi_{kind}"}}, record)]


def test_tables_of_every_kind_give_the_same_log(tmp_path):
    table = frame()
    for name in ("log.csv", "log.parquet", "log.feather", "log.tsv", "log.csv.gz"):
        write_table(pa.Table.from_pandas(table), tmp_path / name)
        for keep in ("showings", "cells"):
            log = hr.read_clicks(tmp_path / name, keep=keep)
            assert counts(log) == expected()
            assert (log.session is None) == (keep == "cells")
    for given in (table, pl.from_pandas(table), pa.Table.from_pandas(table), pa.Table.from_pandas(table).to_batches()):
        if isinstance(given, list):
            continue
        log = hr.read_clicks(given)
        assert counts(log) == expected() and not log.notes and log.session_names.tolist() == ["l0", "l1", "l2"]
    renamed = table.rename(columns={"query": "text", "clicked": "taken"})
    assert counts(hr.read_clicks(renamed, query="text", clicked="taken")) == expected()


def test_a_table_is_counted_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("hingerank.clicks.reading._ROWS", 3)
    more = {"propensity": [0.5, 0.25] * 4, "context": list("xyxyxyxy"), "weight": [1, 2] * 4}
    for table in (frame(), frame().assign(clicked=[0, 2, 0, 5, 0, 0, 1, 1]), frame().assign(**more)):
        write_table(pa.Table.from_pandas(table), tmp_path / "log.parquet")
        counted, kept = (hr.read_clicks(tmp_path / "log.parquet", keep=keep) for keep in ("cells", "showings"))
        for name in ("query", "document", "place", "showings", "clicks", "context", "propensity"):
            np.testing.assert_array_equal(getattr(counted.cells(), name), getattr(kept.cells(), name))


@pytest.mark.parametrize("first", [0, 1])
def test_ubi_in_every_form_gives_the_same_log(tmp_path, first):
    queries, events = ubi(first)
    files = [
        [lines(tmp_path / "bulk", bulk("queries", queries) + bulk("events", events))],
        [lines(tmp_path / "lines", [*events, *queries])],
        [lines(tmp_path / "list", [], json.dumps([*queries, *events], indent=1))],
        [lines(tmp_path / "queries.json", [], json.dumps(queries)), lines(tmp_path / "events.ndjson", events)],
        [lines(tmp_path / "source", [{"_index": "ubi", "_source": record} for record in [*queries, *events]])],
        [lines(tmp_path / "hits", [{"hits": {"hits": [{"_source": r} for r in [*queries, *events]]}}])],
    ]
    for paths in files:
        log = hr.read_clicks(paths)
        assert counts(log) == expected(), paths
        assert log.session_names.tolist() == ["l0", "l1", "l2"]
        assert any("counted from 0" in note for note in log.notes) == (first == 0)
        assert counts(hr.read_clicks(paths, first_place=first)) == expected()
    with pytest.raises(hr.DataError, match=r"clicks is for responses with logged features, and .*bulk has none"):
        hr.read_clicks(files[0], clicks=[("shoes", "a")])
    packed = tmp_path / "log.xz"
    packed.write_bytes(lzma.compress(files[0][0].read_bytes()))
    assert counts(hr.read_clicks(packed)) == expected()


def test_session_lines_and_feature_logs(tmp_path):
    text = ";  ".join(f"{query}\t{','.join(shown)} : {' , '.join(clicked)}" for query, shown, clicked in LISTS)
    assert counts(hr.read_clicks(lines(tmp_path / "sessions.txt", [], text + "\n"))) == expected()
    assert counts(hr.read_clicks(lines(tmp_path / "more.txt", [], text.replace(";", "\n")), keep="cells")) == expected()
    logged = [
        {"qid": query, "response": {"docs": [{"id": d, "[features]": "t=1"} for d in shown]}}
        for query, shown, _ in LISTS
    ]
    clicks = [(query, document) for query, _, clicked in LISTS for document in clicked]
    log = hr.read_clicks(lines(tmp_path / "features.jsonl", logged), clicks=[*clicks, ("hats", "z")])
    assert counts(log) == expected()
    assert log.notes == {"clicks without a response that shows the document: left out": 1}
    with pytest.raises(hr.DataError, match="give clicks="):
        hr.read_clicks(tmp_path / "features.jsonl")
    assert counts(hr.read_clicks(tmp_path / "sessions.txt", first_place=0)) == expected()  # which name no places
    for idle in ({"context": "device"}, {"actions": {"buy": 1}}, {"clicks": clicks}):
        with pytest.raises(hr.DataError, match=f"^{next(iter(idle))} .*sessions.txt has n.*: leave it out"):
            hr.read_clicks(tmp_path / "sessions.txt", **idle)


def test_lists_of_several_files_are_different_sessions(tmp_path):
    """The first list of each file had the number 0, and so they were one list: with one showing instead of two."""
    files = [lines(tmp_path / name, [], f"q\ta,b : {clicked}") for name, clicked in (("1.txt", "a"), ("2.txt", "b"))]
    log = hr.read_clicks(files)
    assert counts(log) == {("q", "a", 1): (2, 1), ("q", "b", 2): (2, 1)} and len(log.session_names) == 2


def test_session_lines_of_ids_with_colons(tmp_path):
    text = "q\tshop:1,shop:2 : shop:2; q\tshop:2,shop:1 :"
    found = counts(hr.read_clicks(lines(tmp_path / "sessions.txt", [], text)))
    assert {(d, k): c for (_, d, k), (_, c) in found.items()} == {
        ("shop:1", 1): 0, ("shop:2", 2): 1, ("shop:2", 1): 0, ("shop:1", 2): 0,
    }  # fmt: skip


def test_actions_weigh_and_the_largest_counts(tmp_path):
    queries, events = ubi()
    events += [event("purchase", "l0", "b", 2), event("purchase", "l2", "y", 2), event("hover", "l2", "y", 2)]
    path = lines(tmp_path / "log", [*queries, *events])
    log = hr.read_clicks(path, actions={"click": 1, "purchase": 5})
    assert counts(log)["shoes", "b", 2] == (1, 5) and counts(log)["hats", "x", 1] == (1, 1)
    assert log.notes["events of action 'hover': not counted"] == 1
    assert counts(hr.read_clicks(path, actions={"purchase": 2}))["hats", "x", 1] == (1, 0)
    table = frame().assign(clicked=["view", "click", "view", "view", "buy", "view", "click", "click"])
    with pytest.raises(hr.DataError, match="actions needs a column with names of actions, and 'n' holds numbers"):
        hr.read_clicks(table.assign(n=1), clicked="n", actions={"buy": 3})
    log = hr.read_clicks(table, actions={"click": 1, "buy": 3})
    assert counts(log)["shoes", "a", 2] == (1, 3)
    assert log.notes["rows of action 'view': shown, not clicked"] == 4
    for keep in ("showings", "cells"):
        with pytest.warns(UserWarning, match=r"no action is a click; the actions are 'no', 'yes': name what"):
            assert not hr.read_clicks(table.assign(clicked=["no", "yes", *["no"] * 6]), keep=keep).clicks.any()


def test_columns_that_need_not_be_there():
    more = {"propensity": [0.5] * 8, "team": ["A", "B", None] + ["A"] * 5, "context": ["phone"] * 4 + ["desk"] * 4}
    log = hr.read_clicks(frame().assign(**more, time=pd.date_range("2025-01-01", periods=8)))
    assert log.propensities.tolist() == [0.5] * 8 and log.team.tolist()[:3] == [0, 1, -1]
    assert log.context_names.tolist() == ["phone", "desk"] and log.times.dtype.kind == "M"
    log = hr.read_clicks(frame().assign(weight=[2] * 8).drop(columns="session"))
    assert log.n_showings == 16


def test_traps_of_ubi_are_counted(tmp_path):
    queries, events = ubi()
    odd = [
        event("click", "l0", "q", 4),  # a clicked document that no impression has
        event("click", "l0", "r", None),
        event("impression", "l0", "s", 2.5),
        event("impression", "l0", "t", None),
        event("impression", "l0", "u", -1),
        event("impression", "l0", "a", 3),  # again, elsewhere
        event("click", "l0", "b", 2),  # again
        event("click", "unseen", "b", 2, user_query="shoes"),
        event("impression", "lost", "b", 2),
        event("impression", "found", "b", 2, user_query="shoes"),
        event("impression", "l0", "v", 5) | {"event_attributes": None},
        event("impression", None, "v", 5),
        event("impression", "l0", None, 5),
        {"action_name": 3},
        {"neither": 1},
        {"query_id": "l7", "user_query": None},
        {"query_id": "l8", "user_query": "boots", "query_response_hit_ids": ["m", 7], "timestamp": 1737557845099},
        {"query_id": "l9", "user_query": "boots"},
    ]
    path = lines(tmp_path / "log", [*queries, *events, *odd])
    path.write_text(path.read_text() + "{broken\n[1]\nnull\n\n")
    log = hr.read_clicks(path)
    wanted = expected() | {
        ("shoes", "q", 4): (1, 1), ("shoes", "b", 2): (2, 1), ("boots", "m", 1): (1, 0), ("boots", "7", 2): (1, 0)
    }  # fmt: skip
    assert counts(log) == wanted
    assert {text: n for text, n in log.notes.items() if not text.startswith("times")} == {
        "lines that are not JSON: left out": 1,
        "records that are not objects: left out": 2,
        "records that are neither queries nor events: left out": 1,
        "events of action '3': not counted": 1,
        "queries without query_id or user_query: left out": 1,
        "events without query_id: left out": 1,
        "events without event_attributes: left out": 1,
        "events without an object_id: left out": 1,
        "impressions without an ordinal: left out": 1,
        "impressions without an ordinal that is a whole number: left out": 2,
        "query ids of events that no query has: the event's own user_query counts": 2,
        "query ids of events that no query has, and no user_query: left out": 1,
        "events without their query: left out": 1,
        "queries without impressions whose hits count as shown": 1,
        "queries without impressions and without hits: nothing was shown": 1,
        "clicks in lists without a showing: left out": 1,
        "repeated impressions of a document in a list: the first counts": 1,
        "repeated clicks on a document in a list: the largest weight counts": 1,
        "clicked documents without a showing and without a place: left out": 1,
        "clicked documents without a showing: counted as shown at their place": 1,
    }


def test_the_real_ubi_file(chorus_path):
    log = hr.read_clicks(chorus_path, actions={"click": 1, "add_to_cart": 2}, context="application")
    assert log.place.min() == 1 and len(log.context_names) == 2
    assert log.notes["ordinals counted from 0 (application 'esci_ubi_sample'): 1 was added"] == 1060
    assert log.notes["events of action 'search': not counted"] == 506
    assert {text for text in log.notes if text.startswith("times as")} == {
        "times as ISO 8601 with Z: read", "times as ISO 8601 with an offset: read",
        "times as milliseconds since 1970: read",
    }  # fmt: skip


def test_ordinals_are_counted_by_application(tmp_path):
    queries, events = ubi(0)
    others = [event("impression", "m", d, k, application="other", user_query="caps") for k, d in enumerate("ab", 1)]
    log = hr.read_clicks(lines(tmp_path / "log", [*queries, *events, *others]))
    assert counts(log) == expected() | {("caps", "a", 1): (1, 0), ("caps", "b", 2): (1, 0)}
    assert log.notes["ordinals counted from 1 (application 'other'): kept"] == 2


def test_a_column_of_actions_may_begin_with_empty_ones():
    actions = [""] * 100 + ["click", "view"]
    table = pd.DataFrame({"query": "q", "document": "a", "place": 1, "session": range(102), "clicked": actions})
    log = hr.read_clicks(table)
    assert log.clicks.tolist() == [1, 0] and log.notes["rows without a number of clicks: left out"] == 100


def test_hits_of_ubi_keep_their_places(tmp_path):
    """A hit without an id moved all below it one place up; a null list of hits hid the older field."""
    queries = [
        {"query_id": "1", "user_query": "q", "query_response_hit_ids": ["a", None, "b"]},
        {"query_id": "2", "user_query": "q", "query_response_hit_ids": None, "query_response_object_ids": ["b"]},
    ]
    log = hr.read_clicks(lines(tmp_path / "log.json", queries))
    assert counts(log) == {("q", "a", 1): (1, 0), ("q", "b", 3): (1, 0), ("q", "b", 1): (1, 0)}
    assert log.notes["hits of queries without an id: left out"] == 1


def test_teams_and_contexts_of_ubi(tmp_path):
    queries, events = ubi()
    for number, record in enumerate(events):
        record["event_attributes"]["object"]["search_config"] = "AB"[number % 2]
        record["event_attributes"]["device"] = "phone"
    log = hr.read_clicks(lines(tmp_path / "log", [*queries, *events]), context="event_attributes.device")
    assert set(log.team_names) == {"A", "B"} and log.context_names.tolist() == ["phone"]
    result = hr.interleaving_test(log)  # l0: b of team B was clicked; l2: x of A and y of B
    assert (result.teams, result.wins, result.ties, result.without_clicks) == (("A", "B"), (0, 1), 1, 1)


def test_contexts_of_ubi_are_those_of_the_query_where_events_have_none(tmp_path):
    """They were "(none)" for impressions, whatever the query had."""
    queries, events = ubi()
    for query, device in zip(queries, ("phone", "desk", "desk")):
        query["device"] = device
    events[0]["device"] = "watch"
    log = hr.read_clicks(lines(tmp_path / "log", [*events, *queries]), context="device")
    assert log.context_names[log.context].tolist() == ["watch", *["phone"] * 2, *["desk"] * 5]


def test_numbers_of_ubi_match_however_they_are_written(tmp_path):
    queries = [{"query_id": 1, "user_query": "q", "query_response_hit_ids": [7, 8]}]
    log = hr.read_clicks(lines(tmp_path / "log", [*queries, event("click", 1.0, 8.0, 2)]))
    assert counts(log) == {("q", "7", 1): (1, 0), ("q", "8", 2): (1, 1)}


def test_clicks_that_look_like_counts_are_called_out():
    """30 clicks of 100 showings would be 3,000 clicks; 30 may be the weight of an action, too."""
    table = pd.DataFrame({"query": ["q"] * 2, "document": ["a", "b"], "position": [1, 2], "clicks": [30, 0]})
    hr.read_clicks(table)
    hr.read_clicks(table.assign(showings=[10, 100]))
    with pytest.warns(UserWarning, match="stands for 100 showings with 30 clicks each.*70 with 0"):
        hr.read_clicks(table.assign(showings=[100, 100]))
    actions = table.assign(clicks=["buy", "view"], showings=[100, 100])
    assert hr.read_clicks(actions, actions={"buy": 30}).clicks.tolist() == [30, 0]


def test_a_log_of_clicks_alone_is_called_out(tmp_path):
    """Its propensities were 1 at every place, without a word."""
    table = frame()
    with pytest.warns(UserWarning, match="the table: every showing was clicked"):
        hr.read_clicks(table[table.clicked == 1])


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.uint32(), pa.uint64()], ids=str)
def test_ids_by_number_may_be_missing(index):
    """Numbers below 0 did not fit into unsigned ones, which polars writes."""
    query = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1, None], index), ["q", "r"])
    rest = {"document": list("abab"), "place": [1, 2, 1, 2], "click": [1, 0, 1, 0]}
    log = hr.read_clicks(pa.table({"query": query, **rest}))
    assert log.notes == {"rows without a query: left out": 1} and len(log) == 3


def test_an_infinite_place_and_a_time_of_day_say_nothing():
    table = pa.table({
        "query": ["q"] * 2, "document": ["a"] * 2, "place": [1.0, np.inf], "click": [1] * 2,
        "time": pa.array([1, 2], pa.time32("s")),
    })  # fmt: skip
    log = hr.read_clicks(table)
    assert len(log) == 1 and np.isnat(log.times).all()


def test_rows_that_cannot_count_are_noted():
    table = pd.concat([frame()] * 2, ignore_index=True).astype(object)
    table.loc[8:, "session"] = [f"m{n}" for n in range(8)]
    table.loc[8, "query"] = None
    table.loc[9, "document"] = np.nan
    table.loc[10, "place"] = -1
    table.loc[11, "place"] = 1.5
    table.loc[12, "clicked"] = np.nan
    table.loc[13, "clicked"] = -2
    table.loc[14:, ["session"]] = ["l2", "l2"]  # repeated showings
    log = hr.read_clicks(table)
    assert counts(log) == expected()
    assert log.notes == {
        "rows without a query: left out": 1,
        "rows without a document: left out": 1,
        "rows without a place that is a whole number from 0 or 1: left out": 2,
        "rows without a number of clicks: left out": 2,
        "repeated showings of a document at its place in a list: one is counted": 2,
    }


def test_places_from_0_become_places_from_1():
    table = frame().assign(place=frame().place - 1)
    log = hr.read_clicks(table)
    assert counts(log) == expected() and list(log.notes.values()) == [8]
    mixed = table.assign(place=np.where(table.session == "l2", table.place + 1, table.place))
    notes = hr.read_clicks(mixed).notes
    assert (
        notes["lists that begin at place 1 in a log with a place 0: they now begin at 2 (or give first_place=1)"] == 1
    )
    assert hr.read_clicks(table, first_place=1).notes["rows at place 0, before the first: left out"] == 3


@pytest.mark.parametrize(
    ("value", "iso"),
    [
        ("2025-01-22T14:57:25.099Z", "2025-01-22T14:57:25.099"),
        ("2025-01-22T15:57:25.099+0100", "2025-01-22T14:57:25.099"),
        (1737557845099, "2025-01-22T14:57:25.099"),
        ("1737557845.099", "2025-01-22T14:57:25.099"),
        (1737557845099000, "2025-01-22T14:57:25.099"),
        (None, None), ("tomorrow", None), (True, None), (10**40, None), ({}, None), (float("nan"), None),
    ],
)  # fmt: skip
def test_times(value, iso):
    found = moment_of(value)[0]
    assert (None if found is None else found.isoformat(timespec="milliseconds")) == iso
    assert moment_of("2025-01-22T09:57:25-0500")[1] == "ISO 8601 with an offset"


def test_a_time_may_be_missing_and_a_day():
    found = hr.read_clicks(frame().assign(time=[5.0, np.nan, -1.0] + [6.0] * 5)).times
    np.testing.assert_array_equal(found, [5, np.nan, np.nan, 6, 6, 6, 6, 6])
    assert (
        hr.ClickLog(queries=["q"], documents=["d"], places=[1], clicks=[1], times=[np.nan])
        .describe()
        .findings[-1]
        .count
    )
    assert str(hr.read_clicks(frame().assign(time=date(2025, 1, 22))).times[0]) == "2025-01-22T00:00:00.000000"


@pytest.mark.parametrize("keep", ["showings", "cells"])
def test_files_of_one_log_fit_each_other(tmp_path, keep):
    """Columns that only some files had were left out, or a KeyError; 7 in one file was not "7" in another."""
    table = pd.DataFrame({"query": ["q", "q"], "document": [1, 2], "place": [1, 2], "click": [1, 0]})
    table.to_csv(tmp_path / "numbers.csv", index=False)
    texts = table.assign(document=["2", "1"]), table.assign(document=["x9", "x"])
    pd.concat(texts).to_csv(tmp_path / "texts.csv", index=False)
    table.assign(context="phone").to_csv(tmp_path / "contexts.csv", index=False)
    log = hr.read_clicks([tmp_path / "numbers.csv", tmp_path / "texts.csv"], keep=keep)
    assert log.document_names.tolist() == ["1", "2", "x9", "x"] and log.describe().findings[0].count == 2
    for names in (["numbers", "contexts"], ["contexts", "numbers"]):
        with pytest.raises(hr.DataError, match="only some files of the log have a column of context"):
            hr.read_clicks([tmp_path / f"{name}.csv" for name in names], keep=keep)


def test_times_of_several_files_are_alike(tmp_path):
    frame().assign(time=1737557845099).to_csv(tmp_path / "numbers.csv", index=False)
    frame().assign(time="2025-01-22").to_csv(tmp_path / "dates.csv", index=False)
    with pytest.raises(hr.DataError, match="times as numbers, others as dates"):
        hr.read_clicks([tmp_path / "numbers.csv", tmp_path / "dates.csv"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": "nowhere.csv"}, "there is no such file"),
        ({"path": []}, "the list is empty"),
        ({"path": [frame(), frame()]}, "a list holds paths, not a DataFrame"),
        (
            {"path": frame().drop(columns="place")},
            "no column is called place, position, rank, ordinal: name that",
        ),
        ({"query": "nothing"}, "query='nothing' names no column"),
        ({"first_place": 2}, "first_place is 2"),
        ({"clicks": [("q", "d")]}, "clicks is for responses with logged features, and this is a table"),
        ({"actions": {"click": -1}}, "action 'click' has the weight -1"),
        ({"actions": {}}, "nothing is a click"),
        ({"path": frame().assign(place=None)}, "there is no showing that counts .found: 8 rows without a place"),
    ],
)
def test_mistakes_are_named(change, words):
    with pytest.raises(hr.DataError, match=words):
        hr.read_clicks(**({"path": frame()} | change))


def test_a_misspelt_keep_is_named():
    with pytest.raises(ValueError, match="keep must be 'showings' or 'cells', not 'cell'; did you mean 'cells'"):
        hr.read_clicks(frame(), keep="cell")


def test_a_text_that_is_no_log(tmp_path):
    with pytest.raises(hr.DataError, match="expected session lines"):
        hr.read_clicks(lines(tmp_path / "x.txt", [], "2 qid:1 1:0.5\n"))
    with pytest.raises(hr.DataError, match=r"there is no showing that counts .found: 1 records that are neither"):
        hr.read_clicks(lines(tmp_path / "x.json", [{"a": 1}]))
    with pytest.raises(hr.DataError, match=r"query='a' names a column of a table, but .* is not a table"):
        hr.read_clicks(lines(tmp_path / "x.json", [{"a": 1}]), query="a")


def damaged(rng, text):
    """A text with some bytes changed, taken out or put in, and the numbers of the lines that were left alone."""
    pieces = text.split(b"\n")
    touched = rng.choice(len(pieces), 3, replace=False)
    for number in touched:
        line = bytearray(pieces[number])
        if line:
            at = int(rng.integers(len(line)))
            line[at : at + int(rng.integers(0, 3))] = bytes(rng.integers(0, 256, int(rng.integers(0, 4))).tolist())
        pieces[number] = bytes(line)
    return b"\n".join(pieces)


@pytest.mark.parametrize("kind", ["ubi", "sessions", "csv"])
def test_damaged_logs_never_crash(tmp_path, kind):
    rng = np.random.default_rng(0)
    queries, events = ubi()
    text = "".join(f"{q}\t{','.join(shown)} : {','.join(clicked)}\n" for q, shown, clicked in LISTS * 5)
    whole = {
        "ubi": "".join(json.dumps(r) + "\n" for r in [*queries, *events]), "sessions": text,
        "csv": pd.concat([frame()] * 10).to_csv(index=False),
    }[kind].encode()  # fmt: skip
    path = tmp_path / {"ubi": "log.ndjson", "sessions": "log.txt", "csv": "log.csv"}[kind]
    read = 0
    for _ in range(150):
        path.write_bytes(damaged(rng, whole))
        try:
            log = hr.read_clicks(path)
        except hr.DataError:
            continue
        read += 1
        log.describe()
    assert read > 3  # tables are refused as a whole


def places_in(record, at=()):
    """The keys on the way to every value of a record, inner ones too."""
    for key, value in record.items():
        yield (*at, key)
        if isinstance(value, dict):
            yield from places_in(value, (*at, key))


@pytest.mark.parametrize(
    "odd", [None, True, -1, 2.5, 10**400, float("nan"), "", "\ud800", "x", [], [1], {}, {"a": 1}], ids=str
)
def test_any_value_may_stand_anywhere(tmp_path, odd):
    """Every value of a query and of an event is replaced; only what stays whole is counted."""
    queries, events = ubi()
    queries[0] |= {"query_response_hit_ids": ["a"], "query_attributes": {"device": "phone"}}
    records = [*queries, *events]
    for number in (0, 3, len(records) - 1):
        for keys in places_in(records[number]):
            changed = json.loads(json.dumps(records))
            inner = changed[number]
            for key in keys[:-1]:
                inner = inner[key]
            inner[keys[-1]] = odd
            path = lines(tmp_path / "log", changed)
            log = hr.read_clicks(path, context="query_attributes.device")
            assert 1 <= log.n_showings <= 10
            log.describe()


def test_a_broken_line_is_never_counted(tmp_path):
    queries, events = ubi()
    good = [json.dumps(record) for record in [*queries, *events]]
    for at in range(1, len(good)):
        cut = good[at][: len(good[at]) // 2]
        path = lines(tmp_path / "log", [], "\n".join([*good[:at], cut, *good[at + 1 :]]))
        try:
            log = hr.read_clicks(path)
        except hr.DataError:
            continue
        assert log.notes["lines that are not JSON: left out"] == 1
        without = hr.read_clicks(lines(tmp_path / "log", [], "\n".join([*good[:at], *good[at + 1 :]])))
        assert counts(log) == counts(without)


def test_descriptions_answer_every_question(place_log):
    log = place_log([1, 0.6, 0.3], [0.5, 0.2, 0.1, 0.4], 200)
    found = {finding.question: finding.count for finding in log.describe().findings}
    assert found["documents shown at several places for a query"] == 4
    assert found["groups of places that share documents"] == 1
    drawn = hr.ClickLog(queries=["q"] * 2, documents=list("aa"), places=[1, 1], clicks=[0, 1], propensities=[0.5, 0.2])
    assert drawn.describe().findings[0].count == 0  # two propensities of one place are not two places
    table = pd.DataFrame({
        "session": list("aaabbbccd"), "query": list("qqqqqqrrr"), "document": list("xyzxxzxyz"),
        "place": [1, 2, 3, 1, 2, 2, 1, 2, 5], "clicked": [1, 1, 1, 0, 0, 0, 0, 0, 0],
        "time": [3, 2, 4, 1, 1, 1, 1, 1, 1],
    })  # fmt: skip
    description = hr.read_clicks(table).describe()
    assert [(f.question, f.count) for f in description.findings] == [
        ("documents shown at several places for a query", 2),
        ("groups of places that share documents", 2),
        ("places that cannot be compared with the first", 1),
        ("queries without clicks", 1),
        ("lists of 3 or more documents that were all clicked (bots)", 1),
        ("documents that are in a list twice", 1),
        ("places of a list that hold two documents", 1),
        ("lists that do not begin at place 1", 1),
        ("showings that are earlier than the one before them in their list", 1),
        ("showings without a time", 0),
    ]
    assert description.suspects == ["a"] and description.places["showings"] == [3, 4, 1, 1]
    left = hr.read_clicks(table).without(description.suspects)
    assert len(left) == 6 and left.describe().suspects == []
    assert json.dumps(description.to_dict()) and "click rate" in description._repr_html_()
    assert len(description.tables()) == 2
    unlisted = hr.read_clicks(table.drop(columns="session")).describe()
    assert [f.count for f in unlisted.findings][4:] == [None] * 5 + [0]  # no list has an order, other than once
    cells = hr.read_clicks(table, keep="cells").describe()
    assert [f.count for f in cells.findings][4:] == [None] * 6
    assert cells.places == description.places
    assert re.search("not counted", cells.facts()[-1][2])


def test_counts_of_millions_are_shown_whole():
    weights = [2_012_876, 0.5]
    log = hr.ClickLog(queries=["q", "q"], documents=["a", "b"], places=[1, 2], clicks=[0, 1], weights=weights)
    description = log.describe()
    assert description.facts()[0][:2] == ("showings", "2,012,876.5")
    assert description.rates()[0][1] == "2,012,876"


def test_counting_a_parquet_file_keeps_nothing_of_what_was_read(tmp_path):
    """Arrow's memory stays that of a batch: with buffers of its own the reader held the whole file at the end."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from hingerank.data.tables import read_batches

    path, rng, n = tmp_path / "log.parquet", np.random.default_rng(0), 50_000
    with parquet.ParquetWriter(path, pa.schema([("x", pa.float64())])) as writer:
        for _ in range(10):
            writer.write_table(pa.table({"x": rng.random(n)}))
    held, before = [], pa.total_allocated_bytes()
    for batch in read_batches(path, lambda names: ["x"], size=n):
        del batch
        held.append(pa.total_allocated_bytes() - before)
    assert len(held) == 10 and path.stat().st_size > 8 * n * 10
    assert max(held) < 0.4 * path.stat().st_size


def test_a_large_csv_file_is_counted_in_pieces(tmp_path, monkeypatch):
    """Whatever lines a piece ends with: blank lines first, ids of digits alone in some, a last line without an end."""
    rng = np.random.default_rng(0)
    documents = [f"d{k}" if k > 60 else str(k) for k in rng.integers(0, 90, 400)]
    lines = [f"{q},{d},{p},{c}" for q, d, p, c in zip(
        rng.integers(0, 9, 400), documents, rng.integers(1, 6, 400), rng.integers(0, 2, 400)
    )]  # fmt: skip
    (tmp_path / "log.csv").write_text("\n".join(["", "", "query,document,place,clicked", *lines]))
    whole = hr.read_clicks(tmp_path / "log.csv", keep="cells")
    for size in (40, 101, 1000):
        monkeypatch.setattr(tables, "_PIECE", size)
        log = hr.read_clicks(tmp_path / "log.csv", keep="cells")
        assert cells_of(log) == cells_of(whole)
    (tmp_path / "log.csv").write_text("\n".join(["", "", "query,document,place,clicked", *lines, '1,"d,1,0']))
    with pytest.raises(hr.DataError, match="line 404: a quote"):
        hr.read_clicks(tmp_path / "log.csv", keep="cells")


def cells_of(log):
    """(query, document, place, clicks) -> showings, ids as text."""
    ids = zip(log.query_names[log.query], log.document_names[log.document], log.place, log.clicks, strict=True)
    found = {}
    for (q, d, place, clicks), weight in zip(ids, log.weights, strict=True):
        key = str(q), str(d), int(place), float(clicks)
        found[key] = found.get(key, 0.0) + float(weight)
    return found
