"""Personal models as vectors for any vector index: a score is the inner product of a user's and an item's vector."""

import json
from pathlib import Path

import numpy as np

from hingerank.data.files import PathLike, draft_of
from hingerank.export.forms import ExportError


def write_vectors(
    path: PathLike,
    users: tuple[list[object], np.ndarray],
    items: tuple[list[object], np.ndarray],
    about: str,
    kind: str = "npy",
) -> list[Path]:
    """Write vectors and ids into a folder.

    Parameters
    ----------
    path : the folder, created if needed
    users, items : (ids, a vector per id)
    about : the source of the scores
    kind : "npy" for users.npy and items.npy beside ids.json, "parquet" for tables of id and vector
    """
    if kind not in ("npy", "parquet"):
        raise ExportError(f"vectors are written as 'npy' or 'parquet', not {kind!r}")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{path} is a file: vectors go into a folder")
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.{kind}" for name in ("users", "items")]
    for target, (ids, vectors) in zip(files, (users, items), strict=True):
        with draft_of(target) as draft:
            if kind == "npy":
                with open(draft, "wb") as stream:
                    np.save(stream, np.ascontiguousarray(vectors), allow_pickle=False)
            else:
                _write_table(draft, ids, vectors)
    text = {"about": about, "score": "inner product", "users": users[0], "items": items[0]}
    with draft_of(folder / "ids.json") as draft:
        draft.write_text(json.dumps(text, allow_nan=False), "utf-8")
    return [*files, folder / "ids.json"]


def _write_table(path: Path, ids: list[object], vectors: np.ndarray) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    lists = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    pq.write_table(pa.table({"id": pa.array(ids), "vector": lists}), path)


def read_vectors(path: PathLike) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of users and of items that `write_vectors` wrote."""
    folder = Path(path)
    if (folder / "users.npy").exists():
        return np.load(folder / "users.npy"), np.load(folder / "items.npy")
    import pyarrow.parquet as pq

    tables = [pq.read_table(folder / f"{name}.parquet")["vector"].combine_chunks() for name in ("users", "items")]
    users, items = (table.flatten().to_numpy().reshape(len(table), -1) for table in tables)
    return users, items
