"""The folder of a run: what was compared (run.json), the results (results.jsonl) and their arrays.

Results survive a kill at any byte. Their file holds one JSON line for each, ``{"check": "<crc32>", "record": {...}}``,
the checksum being that of the record's own bytes. Lines are only ever added, each batch by one write followed by fsync,
and only by the one process that holds the file's lock. A process killed while writing leaves at most an unfinished last
line; the next one to open the file cuts it off, and the result is computed again.

Only the same data, folds, measures and seed continue a run. A record carries a mark of the code of its method, and
run.json the marks that count: results of code that has changed since stay in the file but no longer count.
"""

import hashlib
import io
import json
import os
import platform
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import numpy as np

from hingerank.arrays import Given, Ranker
from hingerank.data.describe import pairs_per_query
from hingerank.data.files import canonical, naming, plain, sync_folder, write_whole
from hingerank.data.ranking_data import RankingData
from hingerank.data.scaling import ColumnScaler
from hingerank.kernels.threads import thread_count
from hingerank.lab.folds import PARTS, Fold
from hingerank.lab.kinds import kind_of
from hingerank.lab.methods import Method, home_of, without_addresses
from hingerank.metrics.measure import MeasureLike
from hingerank.personal.baselines import BASELINES
from hingerank.rankers.base import BaseRanker, LinearRanker
from hingerank.rankers.inputs import names_of_features
from hingerank.rankers.kernel import MappedRanker
from hingerank.registry import ranker_class
from hingerank.renaming import RENAMED, present_keys, present_names

FORMAT, CHECKSUM, CODE = 1, "checksum", "code"
_ABOUT = ("format", "versions", "machine", "about", "seeds", "sizes")
FIXED = {  # the seed first, because it also cuts the folds
    "seed": "another seed",
    "measure": "another measure for choosing settings",
    "measures": "other test measures",
    "data": "other data or folds",
}
Record = dict[str, Any]


# Results.


class ResultsFile:
    """Records read from `path` and added to it; `path=None` keeps them in memory only.

    >>> results = ResultsFile(None)
    >>> results.append([{"method": "rank-svm", "value": 0.5}])
    >>> results.records
    [{'method': 'rank-svm', 'value': 0.5}]
    """

    def __init__(self, path: Path | str | None) -> None:
        self.path = None if path is None else Path(path)
        self.records: list[Record] = []
        self._file: io.FileIO | None = None
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 (open until close)
        try:
            _lock(self._file, self.path)
            self._file.seek(0)
            self.records, whole = _parse(self._file.read(), self.path)
            self._file.truncate(whole)
            os.fsync(self._file.fileno())
            sync_folder(self.path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, records: Iterable[Record]) -> None:
        """Add records; when this returns they are on the disk, all or none: a part of a line would spoil the next."""
        clean = [plain(record) for record in records]
        if self._file is not None:
            lines = (json.dumps(record, separators=(",", ":"), allow_nan=False).encode() for record in clean)
            data = memoryview(b"".join(map(_framed, lines)))
            before = os.fstat(self._file.fileno()).st_size
            try:
                with naming(self.path or ""):
                    while data:
                        data = data[self._file.write(data) :]
                    os.fsync(self._file.fileno())
            except BaseException:
                self._file.truncate(before)
                raise
        self.records.extend(clean)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> "ResultsFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_results(path: Path | str) -> list[Record]:
    """The whole records of a results file, without locking or changing it (it may still be growing)."""
    return _parse(Path(path).read_bytes(), Path(path))[0]


def _framed(body: bytes) -> bytes:
    return b'{"check":"%08x","record":%s}\n' % (zlib.crc32(body), body)


def _parse(data: bytes, path: Path) -> tuple[list[Record], int]:
    """The records of all whole lines, and how many bytes they take."""
    records: list[Record] = []
    place = 0
    while (end := data.find(b"\n", place)) >= 0:
        body = data[place + len(_framed(b"")) - 2 : end - 1]
        if data[place : end + 1] != _framed(body):
            if data.find(b"\n", end + 1) < 0:
                break  # the last line: as good as unfinished
            raise ValueError(
                f"{path}, line {len(records) + 1}: the checksum does not fit, so the file was changed or damaged; "
                "delete that line to have its result computed again"
            )
        records.append(json.loads(body))
        place = end + 1
    return records, place


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ValueError(f"{path} is in use by another run: wait for it, or choose another folder") from error


def save_arrays(
    folder: Path, method: str, fold: str, scores: np.ndarray, ranker: Ranker, features: Sequence[str]
) -> str:
    """Store the test scores, and any weights, basis or curves, beside the results; returns the file's name in the
    folder.

    features: their names, from which those of weights and curves follow; the weights of a map's outputs have none.
    """
    arrays = {"scores": scores}
    weights, basis = getattr(ranker, "coef_", None), getattr(ranker, "basis_", None)
    if isinstance(weights, np.ndarray) and weights.ndim == 1:
        arrays["weights"] = weights
        named = len(weights) == len(features) and not isinstance(ranker, MappedRanker)
        names = ranker._names_of_weights(features) if isinstance(ranker, LinearRanker) else features if named else []
        arrays["weight_names"] = np.array(names, str)
        scaler = getattr(ranker, "scaler_", None)
        if scaler is not None:  # what features are divided by; not a number where it differs from row to row
            arrays["widths"] = scaler.width_ if isinstance(scaler, ColumnScaler) else np.full(len(features), np.nan)
    if isinstance(basis, np.ndarray) and basis.ndim == 2:
        arrays["basis"] = (basis * np.where(ranker.user_weights_.mean(axis=0) < 0, -1, 1)).astype(np.float32)
    curves = getattr(ranker, "curves_", None)
    if curves:
        arrays |= {f"curve_{p}": np.concatenate([getattr(curve, p) for curve in curves]) for p in ("knots", "heights")}
        arrays["curve_starts"] = np.cumsum([0, *(len(curve.knots) for curve in curves)])
        arrays["curve_weights"] = np.array([curve.weight for curve in curves])
        if isinstance(ranker, BaseRanker):
            arrays["curve_names"] = np.array(names_of_features(ranker, len(curves), features), str)
    name = f"arrays/{file_name(method)}.{file_name(fold)}.npz"
    write_arrays(folder / name, arrays)
    return name


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """A whole compressed .npz file, or nothing."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def file_name(text: str) -> str:
    """A safe file name that differs whenever the text does."""
    safe = re.sub(r"[^A-Za-z0-9-]+", "-", text)[:60]
    return safe if safe == text else f"{safe}-{zlib.crc32(text.encode()):08x}"


def plain_id(query: object) -> int | str:
    """A query's id as results hold it."""
    return query if isinstance(query, (int, str)) else str(query)


# run.json.


def make_header(
    methods: Sequence[Method],
    folds: Sequence[Fold],
    measures: Mapping[str, MeasureLike],
    seed: int,
    seeds: int,
    sizes: Sequence[float],
    about: Given | None,
) -> Record:
    """Everything that distinguishes this run from another; the first of the measures chooses settings."""
    names, own = list(measures), [measure for measure in measures.values() if callable(measure)]
    header = plain(
        {
            "format": FORMAT,
            "data": fingerprint(folds),
            "measure": names[0],
            "measures": names,
            "seed": seed,
            "methods": {method.name: {**method.definition(), CODE: [method.code(own)]} for method in methods},
            "folds": [{"name": f.name, **{part: f.selected(part).n_rows for part in PARTS}} for f in folds],
            "summary": summarise(folds),
            "versions": versions(),
            "machine": {"system": platform.system(), "machine": platform.machine(), "cores": thread_count()},
            "about": dict(about or {}),
        }
    )
    header |= {"seeds": {method.name: seeds for method in methods if method.is_random}} if seeds > 1 else {}
    return header | ({"sizes": list(sizes)} if len(sizes) > 1 else {})


def check_header(old: Record | None, new: Record, folder: Path, results: int = 0) -> Record:
    """The header to continue with: the old methods, then the new ones; a ValueError if the two runs do not match.

    A method whose code has changed begins again. Results of 0.2 and before, which marked no code, count until then.

    results: how many the folder holds; without a header nothing says what they are of.
    """
    if old is None:
        if results:
            raise ValueError(f"{folder} holds results without a run.json that describes them: delete it")
        return new
    if old.get("format") != FORMAT:
        raise ValueError(f"{folder} holds a run of format {old.get('format')}, this version writes {FORMAT}")
    for name, words in FIXED.items():
        if old[name] != new[name]:
            raise ValueError(f"{folder} holds results for {words} ({name}): choose another folder, or delete that one")
    methods = dict(old["methods"])
    for name, definition in new["methods"].items():
        known = methods.get(name, definition)
        marks, (mark,) = known.get(CODE, [None]), definition[CODE]
        same = {**without_addresses(known), "ranker": home_of(known["ranker"]), CODE: [mark]}
        if same != definition:
            raise ValueError(
                f"{folder} holds results of a method {name!r} that was defined or searched differently; "
                "test data must be looked at once only: choose another name or another folder"
            )
        kept = [*marks, mark] if marks == [None] else marks if mark in marks else []
        methods[name] = {**definition, CODE: kept or [mark]}
    merged = {**new, "methods": methods}
    before, now = old.get("seeds", {}), new.get("seeds", {})  # existing results are kept if seeds or sizes grow
    if before or now:
        merged["seeds"] = {name: max(before.get(name, 1), now.get(name, 1)) for name in {**before, **now}}
    sizes = sorted({*old.get("sizes", [1.0]), *new.get("sizes", [1.0])})
    return {**merged, "sizes": sizes} if len(sizes) > 1 else merged


def current(header: Record, records: Iterable[Record]) -> list[Record]:
    """The records that the present code of their methods computed, settings by the names that parameters have now."""
    marks = {name: definition.get(CODE, [None]) for name, definition in header["methods"].items()}
    kinds = {name: _kind(definition) for name, definition in header["methods"].items()}
    found = [record for record in records if record.get(CODE) in marks.get(record["method"], [record.get(CODE)])]
    return [
        {**record, "setting": present_names(kind, record["setting"])} if kind in RENAMED else record
        for record in found
        for kind in [kinds.get(record["method"], "")]
    ]


def _kind(definition: Record) -> str:
    """The name of the class of a method's ranker, of ours; "" for any other."""
    package, _, name = home_of(definition.get("ranker", "")).partition(":")
    return name if package == "hingerank" else ""


def _present(definition: Record) -> Record:
    """A method's definition as this version writes it, by the names that classes and parameters have now.

    Versions before 0.3 put rankers of ratings inside classes of their own, under their registered names.
    """
    wrapper = _kind(definition)
    if wrapper in ("PersonalRows", "BaselineRows"):
        fixed = dict(definition["fixed"])
        inner = ranker_class(fixed.pop("ranker")) if wrapper == "PersonalRows" else BASELINES[fixed.pop("name")]
        definition = {**definition, "ranker": f"hingerank:{inner.__name__}", "fixed": fixed}
    return present_keys(_kind(definition), definition)


def read_header(folder: Path) -> Record | None:
    """The header of a run folder, or None where there is none."""
    path = folder / "run.json"
    if not path.exists():
        return None
    try:
        header = json.loads(path.read_bytes())
        checksum = header.pop(CHECKSUM, None)  # 0.1 wrote none
        needed = {*FIXED, "methods", "folds", "summary"}
        whole = header.get("format") != FORMAT or needed <= set(header) <= {*needed, *_ABOUT}
        whole = whole and checksum in (None, _checksum(header))
    except (ValueError, AttributeError, TypeError):
        whole = False
    if not whole:
        raise ValueError(f"{path} is damaged, so the results there cannot be identified: delete the folder")
    if header["format"] == FORMAT:
        header["methods"] = {name: _present(known) for name, known in header["methods"].items()}
    return header


def write_header(folder: Path, header: Record) -> None:
    signed = {**header, CHECKSUM: _checksum(header)}
    write_whole(folder / "run.json", (json.dumps(signed, indent=1, ensure_ascii=False) + "\n").encode())


def _checksum(header: Record) -> int:
    return zlib.crc32(canonical(header).encode())


def summarise(folds: Sequence[Fold]) -> Record:
    """Figures of the data under the folds (for folds of separate files, those of the first): rows, queries, features,
    grades, pairs, rows per query."""
    under = [fold.selected(part) for fold in folds for part in PARTS]
    shared = {id(part.data): part.data for part in under if part.index is not None}
    sets = list(shared.values()) or [part.data for part in under[: len(PARTS)]]
    grades: dict[str, int] = {}
    pairs, sizes, no_pair = 0, [], 0
    for data in sets:
        kinds, counts = np.unique(data.y, return_counts=True)
        for kind, count in zip(kinds.tolist(), counts.tolist()):
            grades[f"{kind:g}"] = grades.get(f"{kind:g}", 0) + count
        per_query = pairs_per_query(data.y, data.blocks)
        pairs, no_pair = pairs + int(per_query.sum()), no_pair + int((per_query == 0).sum())
        sizes.append(data.blocks.sizes)
    size = np.concatenate(sizes)
    quantiles = np.quantile(size, [0, 0.25, 0.5, 0.75, 1]).tolist()
    names = sets[0].feature_names
    return {
        "rows": int(size.sum()),
        "queries": len(size),
        "features": sets[0].n_features,
        "feature_names": None if names is None else [str(name) for name in names],
        "grades": grades,
        "pairs": pairs,
        "queries_without_pairs": no_pair,
        "gaps": {what: count for data in sets for what, count in kind_of(data).gaps.items()},
        "rows_per_query": dict(zip(("least", "quarter", "median", "three quarters", "most"), quantiles)),
    }


# Which software and machine computed a result.


@cache
def versions() -> dict[str, str]:
    """Versions of Python, this package and the libraries that results can depend on."""
    import hingerank

    found = {"python": platform.python_version(), "hingerank": hingerank.__version__}
    for name in ("numpy", "scipy", "numba", "scikit-learn", "lightgbm", "xgboost"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def fingerprint(folds: Sequence[Fold]) -> str:
    """One short text for the folds' rows, grades, queries and features: it changes when any of them does."""
    sums: dict[int, bytes] = {}

    def digest(data: RankingData) -> bytes:
        if id(data) not in sums:
            sums[id(data)] = kind_of(data).fingerprint()
        return sums[id(data)]

    whole = hashlib.blake2b(digest_size=16)
    for fold in folds:
        whole.update(fold.name.encode())
        for name in PARTS:
            part = fold.selected(name)
            whole.update(digest(part.data))
            whole.update(b"all" if part.index is None else np.asarray(part.index, np.int64).tobytes())
    return whole.hexdigest()
