"""Every command: its help page, --json, suggestions for wrong words, and options that do not fit the kind of data."""

import ast
import inspect
import json
import re
import shlex
import warnings
from pathlib import Path

import pytest

from hingerank.cli import main
from hingerank.cli.app import PANELS
from hingerank.cli.help import CommandPage, example, wrapped
from hingerank.cli.messages import VERBS, in_options
from hingerank.cli.options import check_kind
from hingerank.cli.options import command as as_command
from hingerank.cli.train_commands import FitRows
from hingerank.registry import RANKERS, SUMMARIES, did_you_mean

COMMANDS = {name: function for commands in PANELS.values() for name, function in commands.items()}
ROWS = "".join(
    f"{(q + d) % 3} qid:{q} 1:{d / 5} 2:{(q * d) % 4 / 4} #docid = d{q}-{d}\n" for q in range(6) for d in range(5)
)
RUN = "".join(f"{q} Q0 d{q}-{d} {d + 1} {9 - d} x\n" for q in range(6) for d in range(5))


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """call("words of a command line") -> (status, stdout, stderr), run in a folder with a file of each kind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("rows.txt").write_text(ROWS)
    Path("run.txt").write_text(RUN)
    Path("scores.txt").write_text("".join(f"{n % 7}\n" for n in range(30)))
    Path("subtopics.txt").write_text("".join(f"{q} {d % 2 + 1} d{q}-{d} 1\n" for q in range(6) for d in range(5)))
    Path("aspects.txt").write_text("".join(f"{q} s{d % 2} d{q}-{d} 0.5\n" for q in range(6) for d in range(5)))
    shown = [(n, "abc"[(n + k) % 3], k + 1, int((n * 7 + k) % 4 == 0)) for n in range(30) for k in range(3)]
    lines = "".join(f"q,{session},{document},{place},{clicked}\n" for session, document, place, clicked in shown)
    Path("log.csv").write_text("query,session,document,place,clicked\n" + lines)
    rated = "".join(f"u{u},i{i},{(u * i + u) % 5}\n" for u in range(6) for i in range(8))
    Path("ratings.csv").write_text("user,item,rating\n" + rated)
    Path("items.csv").write_text("item,a,b\n" + "".join(f"i{i},{i / 8},{(i * 3) % 8 / 8}\n" for i in range(8)))

    def run(line):
        capsys.readouterr()
        status = main(shlex.split(line))
        written = capsys.readouterr()
        return status, written.out, written.err

    return run


# Help pages.

OPTION = re.compile(r"^  (?:-\w, )?(--[\w-]+)", re.MULTILINE)
EXAMPLE = re.compile(r"^  (hingerank (?:.*\\\n)*.*[^\\\n])$", re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_page_has_panels_and_breaks_no_word(call, name):
    status, out, err = call(f"{name} --help all")
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= 80
    assert f"Examples:\n  hingerank {name}" in out and "\nOutput:\n" in out and "--json" in out and "\\[" not in out
    said = " ".join(re.sub(r" \\$", "", line, flags=re.MULTILINE).strip() for line in out.splitlines())
    for word in " ".join(inspect.getdoc(COMMANDS[name]).replace("Example: ", "").split()).split(" "):
        assert f" {word} " in f" {said} ", f"{word} is cut"
    for line in EXAMPLE.findall(out.partition("\nOther")[0]):
        assert shlex.split(line.replace("\\\n", " "))[1] == name


def test_the_root_page_lists_every_command_in_one_line_and_in_its_panel(call):
    status, out, _ = call("")
    assert status == 0 and re.findall(r"^(\S+):$", out, re.MULTILINE) == ["Options", *PANELS]
    for panel, commands in PANELS.items():
        page = out.partition(f"\n{panel}:\n")[2].partition("\n\n")[0].splitlines()
        summaries = [inspect.getdoc(function).partition("\n")[0] for function in commands.values()]
        assert [line.split(maxsplit=1) for line in page] == [[n, s] for n, s in zip(commands, summaries)]


def test_options_of_kinds_of_data_are_in_panels_of_their_own(call):
    for name, panels in {
        "fit": ["Arguments", "Train", "Data", "Clicks", "Dask cluster", "Ratings of users", "Output"],
        "compare": ["Arguments", "Train", "Experiment", "Data", "Ratings of users", "Topics", "Output"],
        "evaluate": ["Arguments", "Measures", "Data", "Clicks", "Lists for users", "Ratings of users", "Output"],
    }.items():
        assert re.findall(r"^(\S[^:]*):$", call(f"{name} -h all")[1], re.MULTILINE)[1:-1] == panels


def test_pages_of_help_are_short_and_together_have_all_options_and_examples(call):
    for name, function in COMMANDS.items():
        usual, _, others = call(f"{name} --help")[1].partition("\nOther pages of help:\n")
        assert usual.count("\n") <= 80, name
        further = [call(line)[1].partition("\nOther")[0] for line in re.findall(r"hingerank (\S+ --help \w+) ", others)]
        *pages, whole = [usual, *further] if further else [usual, usual]
        assert set(OPTION.findall(whole)) == {flag for page in pages for flag in OPTION.findall(page)}, name
        assert sorted(EXAMPLE.findall(whole)) == sorted(text for page in pages for text in EXAMPLE.findall(page)), name
        assert all(EXAMPLE.search(page) for page in pages), name
        grouped = {one.flag for group in function.groups.values() for one in group.options}
        assert grouped - {"--table"} <= set(OPTION.findall(whole)), name  # --table is hidden
    assert call("fit -h")[1] == call("fit --help rows")[1] == call("fit x.txt --help -o m/")[1]
    assert call("clicks judgments --help")[1] == call("clicks --help judgments")[1]


def test_a_page_of_help_has_the_options_of_its_kind_of_data(call):
    clicks, ratings = call("fit --help clicks")[1], call("fit --help ratings")[1]
    assert "--propensities" in clicks and "--features" in clicks and "--C " in clicks and "--validation" not in clicks
    assert "--half-life" in ratings and "--C " in ratings and "--label" not in ratings and "--around" not in ratings
    assert "fit ratings.csv" in ratings and "fit train.txt" not in ratings


def test_an_unknown_page_of_help_is_an_error_that_names_the_pages(call):
    status, out, err = call("fit --help rating")
    pages = "choose one of rows, clicks, ratings, cluster, all; did you mean 'ratings'? (see hingerank fit --help)"
    assert (status, out, err) == (2, "", f"hingerank: there is no help page 'rating': {pages}\n")
    assert "choose one of all" in call("doctor --help me")[2]


def test_every_option_of_version_0_2_is_still_there():
    before = {
        "info": "missing label qid features one-query columns verify json",
        "convert": "missing label qid features one-query dtype force json",
        "fetch": "list from cache checksum json",
        "fit": "output model C loss tol seed scale set validation missing label qid features one-query dask parts "
        "items clicks item-columns half-life time json",
        "tune": "output model measure folds validation set one-standard-error top seed missing label qid features "
        "one-query items hold-out item-columns json",
        "rank": "output top trec-run pad missing label qid features one-query json",
        "recommend": "user all exclude items top output json",
        "add-users": "output items replace json",
        "explain": "query pair top documents page pad missing label qid features one-query json",
        "rerank": "output method model features aspects texts clusters fit save set top depth order tag missing "
        "incomplete",
        "evaluate": "measure preset per-query complete diversity top exclude relevant items pad missing label qid "
        "features one-query json",
        "export": "to output check features set missing json",
        "compare": "output methods measure folds set search trials baseline test seed seeds sizes workers retry-failed "
        "missing items hold-out item-columns qrels aspects texts clusters depth first incomplete keep label qid "
        "features one-query json",
        "report": "output baseline test latex csv trec-runs table user exclude items",
        "cite": "",
        "reproduce": "list data output folds row on workers device check write-docs json",
        "analyse": "output share json",
        "warmup": "json",
        "demo": "output queries seed json",
    }
    from typer.main import get_command

    from hingerank.cli.app import app

    for name, options in before.items():
        command = get_command(app).commands[name]
        assert isinstance(command, CommandPage)
        assert {f"--{option}" for option in options.split()} <= {word for p in command.params for word in p.opts}, name


def test_texts_break_at_spaces_only():
    assert wrapped("a squared-hinge loss", 12) == ["a", "squared-hinge", "loss"]


def test_long_examples_go_on_after_a_backslash_and_options_keep_their_values():
    lines = example("hingerank fit ratings.csv --model personal-rank-svm --half-life 365 -o model/", 60)
    assert lines == ["  hingerank fit ratings.csv --model personal-rank-svm \\", "      --half-life 365 -o model/"]


# Answers as JSON.

JSON = {  # command -> what it is asked, after the commands of MADE
    "info": "info rows.txt",
    "convert": "convert rows.txt copy/",
    "fetch": "fetch --list",
    "clicks": "clicks propensities log.csv",
    "models": "models",
    "doctor": "doctor",
    "fit": "fit rows.txt -o other/",
    "tune": "tune rows.txt -o other/ --set C=1 --folds 2",
    "add-users": "add-users personal/ ratings.csv --replace",
    "rank": "rank model/ rows.txt",
    "recommend": "recommend personal/ --user u1",
    "similar": "similar personal/ --item i1",
    "rerank": "rerank run.txt --method xquad --aspects aspects.txt -o out.txt",
    "explain": "explain model/ rows.txt --query 1",
    "export": "export model/ --to sql -o model.sql",
    "upload": "upload model/ --to solr --url http://localhost:8983/solr/rows --dry-run",
    "evaluate": "evaluate rows.txt model/",
    "compare": "compare rows.txt -o run/ --set C=1 --folds 3 --workers 1",
    "report": "report run/ --latex",
    "cite": "cite run/",
    "reproduce": "reproduce --list",
    "analyse": "analyse interactions dual/",
}
MADE = {
    "model/": "fit rows.txt -o model/ --C 1",
    "dual/": "fit rows.txt -o dual/ --loss hinge --set solver=dual",
    "personal/": "fit ratings.csv --items items.csv --model personal-rank-svm --set rank=1 -o personal/",
    "run/": "compare rows.txt -o run/ --set C=1 --folds 3 --workers 1",
}


def test_all_commands_are_asked_for_json():
    assert {*JSON, "warmup", "demo"} == set(COMMANDS)  # those two are slow, and in tests/test_cli.py


@pytest.mark.parametrize("name", JSON)
def test_json_is_one_document(call, name):
    for made, line in MADE.items():
        if made in JSON[name] and name != "compare":
            assert call(line)[0] == 0
    status, out, err = call(f"{JSON[name]} --json")
    assert status == 0, err
    assert json.loads(out)


# Nothing is replaced without --force.

WRITES = {  # command -> a line that writes a file or folder, and what it writes
    "convert": ("convert rows.txt rows.csv", "rows.csv"),
    "clicks": ("clicks propensities log.csv -o p.json", "p.json"),
    "fit": ("fit rows.txt -o other.safetensors", "other.safetensors"),
    "tune": ("tune rows.txt -o other.safetensors --set C=1 --folds 2", "other.safetensors"),
    "add-users": ("add-users personal/ new.csv -o more/", "more/model.safetensors"),
    "rank": ("rank model/ rows.txt -o out.txt", "out.txt"),
    "recommend": ("recommend personal/ --user u1 -o out.txt", "out.txt"),
    "similar": ("similar personal/ --item i1 -o out.txt", "out.txt"),
    "rerank": ("rerank run.txt --method xquad --aspects aspects.txt -o out.txt", "out.txt"),
    "explain": ("explain model/ rows.txt --query 1 --page out.html", "out.html"),
    "export": ("export model/ --to sql -o out.sql", "out.sql"),
    "compare": ("compare rows.txt -o run/ --set C=1 --folds 3 --workers 1 --keep kept.safetensors", "kept.safetensors"),
    "report": ("report run/ -o out.html", "out.html"),
    "analyse": ("analyse interactions dual/ -o out.svg", "out.svg"),
}
RESUME = {"demo", "reproduce"}  # their own folders, which they use again; demo refuses others


def test_every_command_that_writes_takes_force():
    from typer.main import get_command

    from hingerank.cli.app import app

    for name, command in get_command(app).commands.items():
        flags = {word for parameter in command.params for word in parameter.opts}
        writes = bool(flags & {"--output", "--page", "--save", "--keep"}) or name == "convert"
        assert ("--force" in flags) == (writes and name not in RESUME), name
        assert (name in WRITES) == ("--force" in flags), f"try {name} in WRITES"


@pytest.mark.parametrize("name", WRITES)
def test_what_is_there_is_replaced_only_with_force(call, name):
    Path("new.csv").write_text("user,item,rating\nnew,i1,3\nnew,i2,1\n")
    line, written = WRITES[name]
    for made, before in MADE.items():
        if made in line and name != "compare":
            assert call(before)[0] == 0
    Path(written).parent.mkdir(exist_ok=True)
    Path(written).write_text("precious")
    status, out, err = call(line)
    assert (status, out) == (1, "") and "pass --force" in err and Path(written).read_text() == "precious"
    status, _, err = call(f"{line} --force")
    assert status == 0, err
    assert Path(written).read_bytes() != b"precious"


def test_an_empty_file_and_a_pipe_are_free(call):
    assert call(MADE["model/"])[0] == 0
    Path("out.txt").touch()
    assert call("rank model/ rows.txt -o out.txt")[0] == 0 and Path("out.txt").read_text().count("\n") == 30


def test_a_model_and_data_may_be_given_in_either_order(call):
    assert call(MADE["model/"])[0] == 0 and call(MADE["personal/"])[0] == 0
    for name, model, data, more in (
        ("rank", "model/", "rows.txt", ""),
        ("evaluate", "model/", "rows.txt", ""),
        ("explain", "model/", "rows.txt", "--query 1"),
        ("add-users", "personal/", "ratings.csv", "--replace"),
    ):
        first, second = call(f"{name} {model} {data} {more}"), call(f"{name} {data} {model} {more}")
        assert first[0] == 0 and first == second, name


# What a shell completes.


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("fi", ["fit"]),
        ("fit --mod", ["--model"]),
        ("fit --model listn", ["listnet"]),
        ("tune --model listnet,xgb", ["listnet,xgboost"]),
        ("rank --missing z", ["zero"]),
        ("export --to vec", ["vectors"]),
        ("fetch ml-100", ["ml-100k"]),
    ],
)
def test_a_shell_completes_commands_options_and_names(capsys, monkeypatch, words, offered):
    monkeypatch.setenv("_HINGERANK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"hingerank {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    with pytest.raises(SystemExit) as end:
        main([])
    assert not end.value.code and capsys.readouterr().out.split() == offered


# Words that are nearly right.


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("predict model/ rows.txt", "rank"),
        ("train rows.txt", "fit"),
        ("evalute rows.txt model/", "evaluate"),
        ("fit rows.txt -o m/ --modle rank-svm", "--model"),
        ("fit rows.txt -o m/ --model rank-svn", "rank-svm"),
        ("fit rows.txt -o m/ --model LambdaMARTT", "lightgbm"),
        ("fit rows.txt -o m/ --loss hing", "hinge"),
        ("fit rows.txt -o m/ --scale standrd", "standard"),
        ("fit rows.txt -o m/ --set max_itr=3", "max_iter"),
        ("fit rows.txt -o m/ --missing zro", "zero"),
        ("evaluate rows.txt scores.txt --measure ndgc@10", "ndcg"),
        ("evaluate rows.txt scores.txt --preset lettor4", "letor4"),
        ("compare rows.txt -o r/ --search gird", "grid"),
        ("rerank run.txt --method mrm -o out.txt", "mmr"),
        ("convert rows.txt rows.parket", ".parquet"),
        ("fetch ml-100", "ml-100k"),
        ("reproduce lai2013-tabel2", "lai2013-table2"),
        ("cite listnett", "listnet"),
        ("clicks propensity log.csv", "propensities"),
        ("info row.txt", "rows.txt"),
        ("fit rows.text -o m/", "rows.txt"),
        ("rank modle/ rows.txt", "model"),
        ("evaluate rows.txt score.txt", "scores.txt"),
        ("clicks info logs.csv", "log.csv"),
        ("rerank runs.txt --method xquad --aspects aspects.txt -o out.txt", "run.txt"),
        ("rerank run.txt --method xquad --aspects aspect.txt -o out.txt", "aspects.txt"),
        ("fit ratings.csv --items item.csv -o m/", "items.csv"),
        ("explain models/ rows.txt --query 1", "model"),
        ("report modl/", "model"),
        ("export mode/ --to sql -o m.sql", "model"),
        ("clicks judgments log.csv --model umb", "ubm"),
    ],
)
def test_a_word_that_is_nearly_right_gets_a_suggestion(call, line, meant):
    Path("model").mkdir()
    status, out, err = call(line)
    assert status in (1, 2) and out == "" and err.count("\n") == 1
    assert err.partition(" (see ")[0].rstrip().endswith(f"did you mean {meant!r}?")


def test_formats_of_exports_are_suggested(call):
    call(MADE["model/"])
    assert "did you mean 'onnx'?" in call("export model/ --to onx -o m.onnx")[2]


def test_engines_of_uploads_are_suggested(call):
    call(MADE["model/"])
    status, out, err = call("upload model/ --to slor --url http://localhost:1/products")
    assert (status, out) == (1, "") and "onnx" not in err
    assert "there is no upload to 'slor': choose solr, elasticsearch, opensearch; did you mean 'solr'?" in err


def test_suggestions_are_few_and_near():
    assert did_you_mean("rank-svn", RANKERS) == "; did you mean 'rank-svm'?"
    assert did_you_mean("nonsense", RANKERS) == "" == did_you_mean("x", [])


def test_models_have_a_line_each(call):
    assert set(SUMMARIES) == set(RANKERS) and max(map(len, SUMMARIES.values())) <= 70
    status, out, _ = call("models --json")
    kinds = {row["name"]: row["data"] for row in json.loads(out)}
    assert status == 0 and list(kinds) == list(SUMMARIES)
    assert (kinds["rank-svm"], kinds["joint"], kinds["mmr"]) == ("rows", "ratings", "topics")


# Errors name options.


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit rows.txt -o m/ --C -1", "--C must be a positive number"),
        ("fit rows.txt -o m/ --seed 1", "rank-svm does not take --seed"),
        ("fit rows.txt -o m/ --model listnet --loss hinge", "listnet does not take --loss"),
        (
            "rerank run.txt --method xquad --clusters 2 -o out.txt",
            "--clusters makes aspects from features: give --features",
        ),
        ("tune ratings.csv --items items.csv --hold-out all -o m/", "--hold-out all: choose one of ratings, items"),
        ("clicks info log.csv --model ubm", "--model is for clicks judgments, not for clicks info"),
        ("clicks judgments log.csv --method all-pairs --level 0.9", "--level is for clicks propensities, not for"),
        ("clicks info log.csv --query x", "--query x names no column; the table has"),
        ("clicks info events.txt --query foo", "--query foo names a column of a table, but events.txt is not a table"),
        ("tune rows.txt --blend -o m/", "rank-svm is one: name more, or leave out --blend"),
        ("tune rows.txt --serve-only -o m/", "--serve-only needs a target: pass a format too, as in --serve solr"),
        ("fit ratings.csv -o m/", "if you name the items with --items, or a ranker of ratings"),
        ("fit log.csv -o m/", "this looks like a click log: name the file of its documents' features with --features"),
        ("info u.data", "this looks like ratings of users: fit, tune and compare"),
        ("info events.txt", "this looks like JSON: hingerank clicks reads clicks"),
        (
            "info rows.txt --label grade",
            "--label names a column of a table (.csv, .tsv, .parquet, .feather), and this is",
        ),
        ("evaluate rows.txt empty.txt", "empty.txt has 0 scores, expected one for each of the 30 rows of rows.txt"),
        ("convert rows.txt copy/ --dtype int", "--dtype int: choose one of float64, float32"),
        ("compare ratings.csv --items items.csv --methods mmr -o r/", "mmr reorders documents of topics"),
        ("fit . --items items.csv -o m/", ". is a folder: name a file of ratings"),
        ("info model/", "model holds a model, not data (hingerank info --verify checks it)"),
        ("rank model/ model/model.safetensors", "model.safetensors holds a model, not data"),
        ("fit done -o m/", "done holds results of hingerank compare, not data (hingerank report shows them)"),
    ],
)
def test_errors_name_the_option(call, line, words):
    if "model" in line:
        call("fit rows.txt -o model/")
    Path("done").mkdir()
    Path("done/run.json").write_text("{}")
    Path("empty.txt").touch()
    Path("u.data").write_text("1\t1193\t5\t978300760\n")
    Path("events.txt").write_text('{"action_name": "click"}\n')
    status, _, err = call(line)
    assert status == 1 and words in err and "random_state" not in err.partition(";")[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("info rows.txt --verify --columns", "--columns does nothing with --verify: leave out one of them"),
        ("rank model/ rows.txt --json --trec-run", "--trec-run does nothing with --json"),
        ("tune rows.txt --validation rows.txt --folds 3 -o m/", "--folds does nothing with --validation"),
        ("explain model/ rows.txt --query 1 --documents 2 --json", "--documents does nothing with --json"),
        ("explain model/ rows.txt --query 1 --documents 2 --pair 1 2", "--documents does nothing with --pair"),
        ("info model/ --verify --one-query", "--one-query says how to read rows, and model is a model: leave it out"),
        ("info done/ --verify --label grade", "--label says how to read rows, and done is the folder of a comparison"),
        ("fit log.csv --features of-log.csv --propensities 1,0.5,0.3 --correction naive -o m/", "--propensities does"),
        ("fetch --list mq2008", "--list lists every set: leave out mq2008"),
        ("fetch --list --from rows.txt", "--from does nothing with --list"),
        ("evaluate rows.txt scores.txt --pad", "--pad is about the features of a model, and scores.txt holds scores"),
        ("rank model/ rows.csv --pad", "--pad fills the last features of text, and this is a table: leave it out"),
        ("rank model/ rows.bin --pad", "and this is a binary folder: leave it out"),
        ("recommend lists/ --user u1 --item-column x", "--item-column does nothing without --exclude"),
        ("rerank run.txt --missing zero -o out.txt", "--missing does nothing without --features"),
        ("upload model/ --to solr --url http://localhost:1 --query q", "--query does nothing without --log"),
        ("compare rows.txt --trials 5 -o run/", "--trials does nothing without --search random or --search optuna"),
        ("compare rows.txt --force -o run/", "--force does nothing without --keep"),
        (
            "compare ratings.csv --items items.csv --time-column when -o run/",
            "--time-column does nothing without --hold-out time",
        ),
        (
            "fit ratings.csv --items items.csv --time-column when -o m/",
            "--time-column does nothing without --half-life",
        ),
        ("convert rows.txt copy/ --query q", "--query does nothing without --judgments or --clicks"),
        ("export model/ --to sql -o m.sql --missing zero", "--missing does nothing without --check"),
        ("clicks judgments log.csv --to table", "--to does nothing without --output"),
        ("rerank run.txt --method pamm --features rows.txt --fit subtopics.txt --save m/ --tag mine", "--tag does"),
        ("rerank run.txt --method pm2 --model model/ -o out.txt", "--method and --set change no saved model"),
        (
            "evaluate subtopics.txt run.txt --label grade",
            "--label is for graded rows, not for a TREC run and judgments",
        ),
        ("report log.csv --features rows.txt --measure dcg@3", "--measure is for the value of a model: name one with"),
        ("clicks propensities log.csv -o p.json --picture model/", "--picture model is a folder: name a file"),
        ("rank model/ rows.txt -o -", "--output -: name a file, or /dev/stdout"),
        ("compare rows.txt -o rows.txt", "--output rows.txt is a file: name a folder"),
        ("clicks judgments log.csv --topics topics.txt", "give --to qrels and --output"),
        ("clicks propensities log.csv --features rows.txt", "--features does nothing without --method regression-em"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(call, line, words):
    call("fit rows.txt -o model/")
    Path("of-log.csv").write_text("qid,docid,f\nq,a,1\nq,b,2\nq,c,3\n")
    Path("done").mkdir()
    Path("done/run.json").write_text("{}")
    for name in [name for name in ("rows.csv", "rows.bin") if name in line]:
        call(f"convert rows.txt {name}" + "/" * name.endswith("bin"))
    status, out, err = call(line)
    assert (status, out, err.count("\n")) == (1, "", 1) and words in err and not Path("run").exists()


def test_measures_may_be_given_one_by_one_or_with_commas(call):
    with_commas = call("evaluate rows.txt scores.txt -m ndcg@5,map --json")
    assert with_commas == call("evaluate rows.txt scores.txt -m ndcg@5 -m map --json")
    assert list(json.loads(with_commas[1])["means"]) == ["ndcg@5", "map"]


def test_a_setting_that_was_stopped_has_an_empty_cell_or_null(call, monkeypatch):
    monkeypatch.setattr("hingerank.search.tuning.Study._hopeless", lambda self, found, k: set(list(found)[1:]))
    line = "tune rows.txt --set C=0.01,0.1 --set scale=standard --folds 3 -o m/"
    status, out, _ = call(line)
    assert status == 0 and "stopped after 2 of 3 folds" in out and "nan" not in out
    found = json.loads(call(f"{line} --force --json")[1])
    assert any(trial["mean"] is None and "stopped after 2" in trial["problem"] for trial in found["trials"])


def test_arguments_of_python_become_options():
    flags = {"hold_out": "--hold-out", "one_query": "--one-query", "C": "--C", "seed": "--seed"}
    for text, said in {
        "pass one_query=True, or hold_out='items'": "pass --one-query, or --hold-out items",
        "C must be positive; MyC must not": "--C must be positive; MyC must not",
        "random_state is None": "--seed is None",
        "there is no parameter 'C' in LibC=3": "there is no parameter 'C' in LibC=3",
        "the smallest C is 3, and no seed is random": "the smallest C is 3, and no seed is random",
    }.items():
        assert in_options(text, flags) == said


SOURCE = Path(inspect.getfile(main)).parents[1]
ABOUT_ARGUMENTS = {  # messages of functions that check the argument of another
    ("missing.py", "missing"),
    ("maps.py", "features"),
    ("folds.py", "sizes"),
    ("trec_evaluation.py", "judgments"),
    ("corrections.py", "propensities"),
    ("winners.py", "around"),
}


def first_words(nodes):
    """The first words of texts that are passed to a call and go on with a verb."""
    for call in nodes:
        first = call.args[0] if isinstance(call, ast.Call) and call.args else None
        first = first.values[0] if isinstance(first, ast.JoinedStr) and first.values else first
        found = re.match(rf"(\w+) (?:{VERBS})\b", str(first.value)) if isinstance(first, ast.Constant) else None
        if found:
            yield found[1]


def named(nodes):
    """Arguments and attributes."""
    return {n.arg for n in nodes if isinstance(n, ast.arg)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}


def test_messages_begin_with_the_name_of_an_option_only_if_they_are_about_it():
    """Others would be taken for it: "blend has …" becomes "--blend has …"."""
    options = {name for command in COMMANDS.values() for name in inspect.signature(command).parameters}
    odd, begins = set(), re.compile(rf"""["'](?:{"|".join(options)}) (?:{VERBS})\b""")
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        nodes = ast.walk(ast.parse(text)) if begins.search(text) else ()  # parsing every file takes seconds
        for function in (node for node in nodes if isinstance(node, ast.FunctionDef)):
            inside = [*ast.walk(function)]
            said = options.intersection(first_words(inside))
            odd |= {(path.name, word) for word in said - named(inside)}
    assert odd == ABOUT_ARGUMENTS


def test_no_ordinary_word_of_a_message_becomes_an_option():
    """Whatever the option: a word within a sentence is a word."""
    for command in COMMANDS.values():
        for name in inspect.signature(command).parameters:
            for verb in VERBS.split("|"):
                text = f"no {name} {verb} saved; two {name} {verb} there: {name} {verb} not"
                assert in_options(text, {name: f"--{name}"}) == text


def test_parameters_given_by_set_are_named_so(call):
    line = "fit ratings.csv --items items.csv --model personal-rank-svm -o m/ --set"
    assert "--set n_jobs must be" in call(f"{line} n_jobs=half")[2]
    assert "--set C must be a positive number" in call(f"{line} C=-1")[2]


def test_an_unknown_item_is_left_out_or_named_where_a_table_of_items_can_be(call):
    assert call(MADE["personal/"])[0] == 0
    Path("pairs.csv").write_text("user,item\nu1,nothing\n")
    said = "item 'nothing' is not in the catalogue of the model; leave it out"
    assert call("rank personal/ pairs.csv")[2] == f"hingerank: {said}\n"
    assert call("similar personal/ --item nothing")[2] == (
        f"hingerank: {said}, or name a table that has it with --items\n"
    )


def test_a_model_of_other_data_is_named_with_the_commands_that_take_it(call):
    assert call(MADE["model/"])[0] == 0 and call(MADE["personal/"])[0] == 0
    assert call("rerank run.txt --method pamm --features rows.txt --fit subtopics.txt --save diverse/")[0] == 0
    for line, words in {
        "rank diverse/ rows.txt": "diverse has the ranker PAMM, which learns from topics to diversify: use hingerank",
        "explain personal/ rows.txt --query 1": "personal has the ranker PersonalRankSVM, which learns from ratings",
        "evaluate log.csv personal/ --features rows.txt": "personal has the ranker PersonalRankSVM, which learns from",
        "rerank run.txt --model model/ -o out.txt": "model has the ranker RankSVM, which learns from graded rows: use",
    }.items():
        status, out, err = call(line)
        assert (status, out) == (1, "") and err.startswith(f"hingerank: {words}")


def test_a_warning_is_shown_once():
    """The intervals of propensities warn of the same for the table, for the file and for the picture."""

    @as_command
    def warn_twice() -> None:
        for _ in range(2):
            warnings.warn("the same", stacklevel=1)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        warn_twice()
    assert [str(one.message) for one in shown] == ["the same"]


def test_a_file_may_have_the_name_of_an_argument(call):
    assert call(MADE["model/"])[0] == 0
    assert call("report model/")[2].startswith(
        "hingerank: model has the ranker RankSVM, which learns from graded rows: use"
    )
    status, out, err = call("explain model/ rows.txt --query 1 --pair d1-0 d1-9")
    assert (status, out) == (1, "") and "no documents are called 'd1-9'" in err


# Options and kinds of data. Of every command: its line for each kind, and the options that do not fit it.

TABLE = "label=x qid=x docid=x features=x one-query"
OF_RATINGS = "item-columns"
OF_TOPICS = "aspects=aspects.txt texts=aspects.txt clusters=2 depth=3 incomplete=keep first=listmle"
OF_CLICKS = "query=x document=x place=x clicked=x session=x weight=x context=x propensities=1,0.5 clip=0.1"
LEARNT, VALUED = "correction=naive around=m/", "estimator=snips also=m/"
MISFITS = {
    "fit rows.txt -o m/": f"{OF_RATINGS} clicks half-life=3 time-column=when parts=2 {OF_CLICKS} {LEARNT}",
    "fit rows.txt -o m/ --dask local:1": f"validation=rows.txt {OF_RATINGS} clicks half-life=3 time-column=when",
    "fit ratings.csv --items items.csv -o m/": f"{TABLE} missing=zero validation=rows.txt dask=local:1 parts=2",
    "tune rows.txt -o m/": f"{OF_RATINGS} hold-out=items {OF_CLICKS} {LEARNT}",
    "tune ratings.csv --items items.csv -o m/": f"{TABLE} missing=zero validation=rows.txt serve=solr serve-only blend",
    "compare rows.txt -o r/": f"{OF_RATINGS} hold-out=ratings time-column=when relevant=3 {OF_TOPICS}",
    "compare ratings.csv --items items.csv -o r/": f"{TABLE} missing=zero keep=m/ force {OF_TOPICS}",
    "compare run.txt --qrels subtopics.txt -o r/": "label=x qid=x docid=x one-query keep=m/ force "
    "items=items.csv item-columns hold-out=ratings relevant=3",
    "evaluate rows.txt scores.txt": "complete exclude=ratings.csv include-rated relevant=3 items=items.csv "
    f"{OF_CLICKS} {VALUED}",
    "evaluate rows.txt run.txt": "pad user-column=u separator=tab exclude=ratings.csv relevant=3 items=items.csv",
    "evaluate subtopics.txt run.txt": f"{TABLE} missing=zero pad exclude=ratings.csv relevant=3",
    "evaluate subtopics.txt run.txt --diversity": f"{TABLE} missing=zero pad preset=trec exclude=ratings.csv "
    "relevant=3 items=items.csv",
    "evaluate ratings.csv personal/ --top 3": f"{TABLE} missing=zero pad preset=trec measure=map per-query complete "
    "diversity",
    "rank personal/ ratings.csv": f"{TABLE} missing=zero pad top=3 trec-run",
    "report run/": "user=u1 exclude=ratings.csv include-rated items=items.csv model=m/ measure=dcg@3 "
    f"{OF_CLICKS} {VALUED}",
    "report personal/": "baseline=a test=t latex csv trec-runs table=t.csv",
}


@pytest.mark.parametrize("line", MISFITS)
def test_an_option_that_does_not_fit_the_data_is_one_error_that_names_it(call, line):
    if "personal/" in line:
        assert call(MADE["personal/"])[0] == 0
    before = {path for path in Path().rglob("*") if path.is_file()}
    for word in MISFITS[line].split():
        name, equals, value = word.partition("=")
        status, out, err = call(f"{line} --{name} {value}" if equals else f"{line} --{name}")
        assert status == 1 and out == "" and err.count("\n") == 1
        assert err.startswith(f"hingerank: --{name} is for ") and ", not for " in err, err
        page = re.search(r"\(see (--help \w+)\)", err)
        assert name == "table" or f"--{name}" in call(f"{line.split()[0]} {page[1]}")[1]  # --table is hidden
    assert {path for path in Path().rglob("*") if path.is_file()} == before


def test_the_table_of_misfits_is_whole():
    """Every option of a group that is for some kinds only is tried with a kind that it does not fit."""
    tried = {}
    for line, options in MISFITS.items():
        tried.setdefault(line.split()[0], set()).update(word.partition("=")[0] for word in options.split())
    for name, options in tried.items():
        groups = COMMANDS[name].groups
        bound = {one.flag.removeprefix("--") for group in groups.values() for one in group.options if one.kinds}
        decide = {"items", "dask", "qrels", "diversity", "top", "features"}  # options that make the data what they are
        decide |= {"user-column", "item-column", "rating-column", "separator"}
        assert bound - decide <= options, f"{name}: {bound - decide - options}"


def test_options_at_their_default_fit_everything():
    check_kind("ratings", FitRows())
    with pytest.raises(ValueError, match="--validation is for graded rows, not for ratings of users"):
        check_kind("ratings", FitRows(validation=Path("v.txt")))


def test_what_tune_advises_names_options(call):
    """Only the ranks within a query matter here, and no export carries them."""
    places = [(q, d % 3, d // 3) for q in range(20) for d in range(9)]
    rows = (f"{a + b} qid:{q} 1:{a * 10 ** (q % 4)} 2:{b * 10 ** (3 - q % 4)}\n" for q, a, b in places)
    Path("ranks.txt").write_text("".join(rows))
    status, out, _ = call("tune ranks.txt --set context=none,rank --set C=0.01 --set scale=standard -o m/")
    assert status == 0 and "tune with --serve one of" in " ".join(out.split()) and "serve=" not in out
