"""Damage files of every kind that the library reads, by the million: none may crash, hang, be misread or be unclear.

    python benchmarks/fuzz.py --count 1000000
    python benchmarks/fuzz.py --count 10000 --boundscheck
    python benchmarks/fuzz.py --only 1234 --seed 0

A damaged file is either refused, by an error of the documented kind that names it, or read as slow plain parsers read
it (text, `slow_readers.py`) or as it was before (everything that carries checksums).
"""

import argparse
import faulthandler
import hashlib
import json
import mmap
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import slow_readers as slow
from mutations import LETOR, QRELS, RATINGS, RUN, TABLE, damage, mutate

SAVED = Path(__file__).parents[1] / "tests"
SECONDS = 20  # after which a reader counts as hanging
MEMORY = 12 << 30  # address space
SHOWN = 5  # problems of each format

# ---- formats ------------------------------------------------------------------------------------------------------


@dataclass
class Format:
    """`check(chance)` damages one file and reads it: whether it was accepted; an AssertionError says what is wrong."""

    name: str
    weight: int
    check: Callable[[random.Random], bool]


class Unclear(AssertionError):
    """An error of another kind than the documented ones, or one that does not name the file."""


def attempt(read: Callable[[], Any], path: Any) -> Any:
    """What `read` gives, or None if it refuses; any other error is Unclear."""
    from hingerank.data.files import DataError
    from hingerank.export.model_file import ModelFileError

    try:
        return read()
    except (DataError, ModelFileError) as error:
        if str(path) not in str(error):
            raise Unclear(f"does not name {path}: {error}") from error
        return None
    except (AssertionError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise Unclear(f"{type(error).__name__}: {error}") from error


def compare(found: Any, expected: Any, same: Callable[[Any, Any], bool]) -> bool:
    """Whether it was accepted; `expected` None: it should not have been."""
    if found is None:
        assert expected is None, "refused without need"
        return False
    assert expected is not None, f"accepted what the slow reader refuses: {found}"
    assert same(found, expected), f"{found} is not {expected}"
    return True


def slowly(read: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except slow.Refused:
        return None


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal shape, type and bits, any NaN like any other."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    kind = np.int64 if a.dtype == np.float64 else np.int32
    return bool(((a.view(kind) == b.view(kind)) | (np.isnan(a) & np.isnan(b))).all())


def same_rows(data: Any, expected: Any) -> bool:
    X = data.X
    if not isinstance(X, np.ndarray):
        assert X.has_sorted_indices, "columns out of order"
        X = np.where(X.toarray() == 0, 0, X.toarray())
        expected.X = np.where(expected.X == 0, 0, expected.X).astype(X.dtype)
    same_ids = data.qid.dtype.kind == expected.qid.dtype.kind and (data.qid == expected.qid).all()
    same_documents = (data.docid is None) == (expected.docid is None)
    same_documents = same_documents and (data.docid is None or bool((data.docid == expected.docid).all()))
    return (
        same_bits(np.ascontiguousarray(X), expected.X) and same_bits(data.y, expected.y) and same_ids and same_documents
    )


def tiny_windows(chance: random.Random) -> None:
    """Windows and chunks of a few bytes, or the usual ones now and then."""
    from hingerank.data import letor_table

    first, window, chunk = chance.choice(((1 << 17, 1 << 19, 1 << 18), (16, 32, 8), (40, 100, 20), (64, 300, 30)))
    letor_table.FIRST_WINDOW, letor_table.SMALLEST_WINDOW, letor_table.SMALLEST_CHUNK = first, window, chunk


def texts(folder: Path) -> list[Format]:
    """LETOR text, plain and packed, and the numbers beside it."""
    from hingerank.data.files import replace_file
    from hingerank.data.letor import read_counts, read_scores, read_text

    plain, counts = folder / "rows.txt", folder / "counts.query"
    packed, whole = [], {}
    for kind in ("gz", "xz", "bz2", "zst"):
        for number, raw in enumerate(LETOR[:4]):
            with replace_file(folder / f"seed{number}.txt.{kind}") as out:
                out.write(raw)
            packed.append((kind, (folder / f"seed{number}.txt.{kind}").read_bytes(), raw))
            whole[raw] = read_text(folder / f"seed{number}.txt.{kind}")

    def letor(chance: random.Random) -> bool:
        tiny_windows(chance)
        raw, most = mutate(chance.choice(LETOR), chance), 1 << 13  # few enough for the slow reader's dense table
        missing, dtype = chance.choice(("error", "zero", "nan")), chance.choice((np.float64, np.float32))
        sparse = chance.choice((None, True, False))
        plain.write_bytes(raw)
        options = {"missing": missing, "dtype": dtype, "sparse": sparse, "max_features": most}
        found = attempt(lambda: read_text(plain, **options), plain)
        return compare(found, slowly(slow.slow_read, raw, missing, dtype, most), same_rows)

    def compressed(chance: random.Random) -> bool:
        kind, content, raw = chance.choice(packed)
        path, damaged = folder / f"rows.txt.{kind}", damage(content, chance)
        path.write_bytes(damaged)
        found = attempt(lambda: read_text(path), path)
        assert found is None or found == whole[raw], "damage went unnoticed"
        return found is not None

    def numbers(chance: random.Random) -> bool:
        raw = mutate(chance.choice((b"3\n10\n0\n7\n", b"0.5\n-1e-3\r\n12\n\n")), chance)
        counts.write_bytes(raw)
        scores = attempt(lambda: read_scores(counts), counts)
        expected = slowly(slow.slow_numbers, raw)
        accepted = compare(scores, expected, lambda a, b: a.tolist() == b)
        whole_numbers = expected is not None and all(x >= 0 and x == int(x) and x <= 2**53 for x in expected)
        found = attempt(lambda: read_counts(counts), counts)
        compare(found, expected if whole_numbers else None, lambda a, b: a.tolist() == b)
        return accepted

    return [Format("LETOR text", 30, letor), Format("compressed text", 10, compressed), Format("counts", 5, numbers)]


def tables(folder: Path) -> list[Format]:
    """CSV, ratings, Parquet and Feather."""
    from hingerank.data.generate import make_letor
    from hingerank.data.read_write import read, write
    from hingerank.personal.ratings import read_ratings

    def same_table(data: Any, cells: dict[str, list[str]]) -> bool:
        names = [name for name in cells if name not in ("qid", "docid", "label")]
        X = [[float(cells[name][row]) for name in names] for row in range(data.n_rows)]
        ids = {"docid": data.docid, "qid": data.qid}
        for name, found in ids.items():
            written = [re.sub("^'('*[=+@\t\r-])", r"\1", cell) for cell in cells.get(name, [])]
            if found is not None and found.dtype.kind in "if":  # blanks around numbers do not count
                written = [cell.strip(" \t") for cell in written]
            if found is not None and len({*zip(map(str, found.tolist()), written)}) != len({*map(str, found.tolist())}):
                return False
        return bool((np.array(X) == data.X).all()) and data.y.tolist() == [float(cell) for cell in cells["label"]]

    def delimited(chance: random.Random) -> bool:
        kind, delimiter = chance.choice((("csv", ","), ("tsv", "\t")))
        raw = mutate(TABLE.replace(b",", b"\t") if kind == "tsv" else TABLE, chance)
        path = folder / f"table.{kind}"
        path.write_bytes(raw)
        data = attempt(lambda: read(path), path)
        if data is None:
            return False
        cells = slowly(slow.slow_csv, raw, delimiter)
        assert cells is not None, f"accepted what the slow reader refuses: {data.to_frame('pyarrow').to_pydict()}"
        for name, column in cells.items():
            if name not in ("qid", "docid"):
                truth = {"true": "1", "True": "1", "TRUE": "1", "false": "0", "False": "0", "FALSE": "0"}
                truths = all(cell in {*truth, "0", "1"} for cell in column)
                cells[name] = [truth.get(c, c) for c in column] if truths else [c.strip(" \t") for c in column]
                assert all(slowly(slow.slow_decimal, c) is not None for c in cells[name]), f"took {column} for numbers"
        assert same_table(data, cells), f"{data.to_frame('pyarrow').to_pydict()} is not {cells}"
        return True

    def ratings(chance: random.Random) -> bool:
        delimiter = chance.choice((",", "\t", "|"))
        raw = mutate(RATINGS.replace(b",", delimiter.encode()), chance)
        path = folder / "ratings.txt"
        path.write_bytes(raw)
        found = attempt(lambda: read_ratings(path, delimiter=delimiter), path)
        expected = slowly(slow.slow_ratings, raw, delimiter)
        if found is None or expected is None:
            assert expected is None or not expected or found is not None, "refused without need"
            renamed = found is not None and not raw.startswith(RATINGS[:4])
            assert found is None or renamed or b"user" in raw.lower()[:400], f"accepted: {found.triples}"
            return found is not None
        got = (found.users.tolist(), found.item_ids[found.items].tolist(), found.ratings.tolist())
        assert got[2] == [row[2] for row in expected], f"{got} is not {expected}"
        for place in (0, 1):
            for mine, written in zip(got[place], (row[place] for row in expected)):
                number = slowly(slow.slow_decimal, written)
                assert str(mine) == written or (number is not None and mine == number), f"{got} is not {expected}"
        return True

    data, kept = make_letor(3, 4, 2), {}
    for name, layout in (("wide.parquet", "wide"), ("lists.parquet", "list"), ("wide.feather", "wide")):
        write(data, folder / name, layout=layout)
        kept[name] = (folder / name).read_bytes()

    def columns(chance: random.Random) -> bool:
        name = chance.choice(list(kept))
        path = folder / ("damaged-" + name)
        path.write_bytes(damage(kept[name], chance))
        found = attempt(lambda: read(path), path)
        assert found is None or (found == whole[name]), "damage went unnoticed"
        return found is not None

    whole = {name: read(folder / name) for name in kept}
    return [Format("CSV", 10, delimited), Format("ratings", 10, ratings), Format("Parquet, Feather", 10, columns)]


def trec(folder: Path) -> list[Format]:
    """Runs and judgments."""
    from hingerank.diversity.trec import read_diversity_qrels, read_run

    path = folder / "trec.txt"

    def lines(chance: random.Random) -> bool:
        is_run = chance.random() < 0.5
        raw = mutate(RUN if is_run else QRELS, chance)
        path.write_bytes(raw)
        if is_run:
            found, expected = attempt(lambda: read_run(path), path), slowly(slow.slow_run, raw)
            plain = found and {topic: [*zip(ranked.docids, ranked.scores.tolist())] for topic, ranked in found.items()}
            return compare(plain, expected, lambda a, b: a == b)
        found, expected = attempt(lambda: read_diversity_qrels(path), path), slowly(slow.slow_qrels, raw)
        plain = found and {
            (topic, subtopic, document): int(judged.judgments[i, j])
            for topic, judged in found.items()
            for i, document in enumerate(judged.docids)
            for j, subtopic in enumerate(judged.subtopics)
        }
        return compare(plain, expected, lambda a, b: all(a[key] == b.get(key, 0) for key in {*a, *b}))

    return [Format("TREC runs, judgments", 10, lines)]


def folders(folder: Path) -> list[Format]:
    """Binary folders: any of their files damaged, or the header changed and signed again."""
    from hingerank.data.binary import load_binary, save_binary
    from hingerank.data.generate import make_letor

    sets = [make_letor(3, 4, 2), make_letor(3, 4, 30, sparse_density=0.1)]
    places = [save_binary(data, folder / f"binary{number}") for number, data in enumerate(sets)]

    def binary(chance: random.Random) -> bool:
        number = chance.randrange(2)
        place = places[number]
        path = chance.choice(sorted(place.iterdir()))
        kept, signed = path.read_bytes(), path.name == "header.json" and chance.random() < 0.5
        try:
            path.write_bytes(_sign(mutate(kept, chance)) if signed else damage(kept, chance))
            found = attempt(lambda: load_binary(place), place)
            assert found is None or signed or found == sets[number], "damage went unnoticed"
            return found is not None
        finally:
            path.write_bytes(kept)

    return [Format("binary folders", 10, binary)]


def _sign(header: bytes) -> bytes:
    try:
        entries = json.loads(header)
        entries.pop("checksum")
        return json.dumps({**entries, "checksum": zlib.crc32(json.dumps(entries, sort_keys=True).encode())}).encode()
    except (ValueError, AttributeError, KeyError, RecursionError):
        return header


def models(folder: Path) -> list[Format]:
    """One model file of each family, and those of SVMrank and LIBLINEAR."""
    import safetensors.numpy

    from hingerank.export.model_file import _read, load
    from hingerank.export.svmlight import read_linear_model

    saved = {path.name: path.read_bytes() for path in sorted(SAVED.glob("export/saved/*/*.safetensors"))}
    whole = {name: _read(path) for path in SAVED.glob("export/saved/*/*.safetensors") for name in [path.name]}
    linear = [
        b"SVM-light Version V6.20\n0 # kernel type\n3 # d\n1 # g\n1 # s\n1 # r\nempty# u\n3 # highest\n1 # n\n2 # sv\n"
        b"0 # threshold b\n1 1:0.5 3:-2e-3 #\n",
        b"solver_type L2R_L2LOSS_RANKSVM\nnr_class 2\nlabel 1 2\nnr_feature 3\nbias -1\nw\n0.5 \n-1e-3 \n2 \n",
    ]

    def model(chance: random.Random) -> bool:
        name = chance.choice(list(saved))
        path = folder / "model.safetensors"
        path.write_bytes(damage(saved[name], chance))
        found = attempt(lambda: (load(path), _read(path))[1], path)
        if found is not None:
            same = found[0] == whole[name][0] and found[1].keys() == whole[name][1].keys()
            assert same and all((found[1][key] == whole[name][1][key]).all() for key in found[1]), "unnoticed"
        return found is not None

    def forged(chance: random.Random) -> bool:
        header, arrays = whole[chance.choice(list(whole))]
        text = mutate(json.dumps(header).encode(), chance).decode("latin-1")
        digest = hashlib.sha256(text.encode())
        for key in sorted(arrays):
            digest.update(np.ascontiguousarray(arrays[key]).data)
        path = folder / "forged.safetensors"
        path.write_bytes(safetensors.numpy.save(arrays, {"hingerank": text, "sha256": digest.hexdigest()}))
        return attempt(lambda: load(path), path) is not None

    def older(chance: random.Random) -> bool:
        path = folder / "model.txt"
        path.write_bytes(mutate(chance.choice(linear), chance))
        return attempt(lambda: read_linear_model(path), path) is not None

    return [Format("model files", 10, model), Format("forged models", 5, forged), Format("SVMrank models", 5, older)]


# ---- running --------------------------------------------------------------------------------------------------------


def make_formats(folder: Path) -> list[Format]:
    return [format for make in (texts, tables, trec, folders, models) for format in make(folder)]


def one(formats: list[Format], seed: int, number: int) -> tuple[str, bool]:
    """Case `number`: (its format, whether it was accepted)."""
    chance = random.Random(f"{seed} {number}")
    chosen = chance.choices(formats, [format.weight for format in formats])[0]
    try:
        return chosen.name, chosen.check(chance)
    except Exception as error:
        error.add_note(f"case {number} of seed {seed}: {chosen.name}")
        raise


def fuzz(numbers: Any, seed: int, folder: Path, tell: Callable[[int], None] | None = None) -> tuple[Counter, list[str]]:
    """Run the cases; returns counts by (format, outcome) and the problems."""
    counts, problems = Counter(), []
    signal.signal(signal.SIGALRM, _hangs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        formats = make_formats(folder)
        for number in numbers:
            if tell:
                tell(number)
            signal.alarm(SECONDS)
            try:
                name, accepted = one(formats, seed, number)
                counts[name, "accepted" if accepted else "refused"] += 1
            except Exception as error:
                where = error.__notes__[-1]
                counts[where.rpartition(": ")[2], "PROBLEM"] += 1
                problems.append(f"{where}: {type(error).__name__}: {error}"[:2000])
            finally:
                signal.alarm(0)
    return counts, problems


def _hangs(*_: Any) -> None:
    raise AssertionError(f"took more than {SECONDS} s")


def _worker(numbers: range, seed: int, place: str, answer: Any) -> None:
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    folder = Path(place)
    folder.mkdir()
    (folder / "now").write_bytes(bytes(8))
    with open(folder / "now", "r+b") as file, mmap.mmap(file.fileno(), 8) as now:

        def tell(number: int) -> None:
            now[:8] = number.to_bytes(8, "little")

        answer.send(fuzz(numbers, seed, folder, tell))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of the reader, in each process")
    parser.add_argument("--boundscheck", action="store_true", help="compile kernels that check bounds")
    parser.add_argument("--only", type=int, help="this case alone, with its traceback")
    options = parser.parse_args()
    os.environ["HINGERANK_NUM_THREADS"] = str(options.threads)
    if options.boundscheck:
        os.environ["NUMBA_BOUNDSCHECK"] = "1"
        os.environ.setdefault("NUMBA_CACHE_DIR", os.path.join(tempfile.gettempdir(), "hingerank-boundscheck"))
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None))
    try:
        if options.only is not None:
            print(one(make_formats(folder), options.seed, options.only))
        else:
            sys.exit(_run(options, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(options: argparse.Namespace, folder: Path) -> int:
    context = multiprocessing.get_context("spawn")
    started, workers = time.perf_counter(), []
    last = options.first + options.count
    for k in range(options.processes):
        mine, theirs = context.Pipe(duplex=False)
        numbers, place = range(options.first + k, last, options.processes), folder / str(k)
        process = context.Process(target=_worker, args=(numbers, options.seed, str(place), theirs))
        process.start()
        theirs.close()
        workers.append((process, mine, place, numbers))
    counts, problems, shown = Counter(), [], time.perf_counter()
    for process, mine, place, _ in workers:
        while not mine.poll(1.0) and process.is_alive():
            if time.perf_counter() - shown > 30:
                shown, done = time.perf_counter(), sum(_done(w[2], w[3]) for w in workers)
                print(f"{done:>9,} files, {done / (shown - started):,.0f} a second", flush=True)
        try:
            found, wrong = mine.recv()
            counts.update(found)
            problems += wrong
        except EOFError:
            process.join()
            number = int.from_bytes((place / "now").read_bytes(), "little")
            problems.append(f"case {number} of seed {options.seed}: the process died with status {process.exitcode}")
        process.join()
    seconds = time.perf_counter() - started
    for name in sorted({name for name, _ in counts}):
        parts = [f"{counts[name, what]:>9,} {what}" for what in ("accepted", "refused", "PROBLEM")]
        print(f"{name:24}" + "".join(parts))
    for kind in {line.split(": ")[1] for line in problems}:
        print(*[line for line in problems if line.split(": ")[1] == kind][:SHOWN], sep="\n")
    total = sum(counts.values())
    print(f"{total:,} files in {seconds:.0f} s, {total / seconds:,.0f} a second: {len(problems):,} problems")
    return bool(problems)


def _done(place: Path, numbers: range) -> int:
    try:
        return (int.from_bytes((place / "now").read_bytes(), "little") - numbers.start) // numbers.step
    except OSError:
        return 0


if __name__ == "__main__":
    main()
