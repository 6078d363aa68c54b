"""Run stored benchmarks again and print what moved by more than the noise (`make bench`).

    python benchmarks/rerun.py [NAME…] [--minutes 30] [--keep] [--list]

Each file of docs/results holds a table, the command that measured it, the day, the version, the class of the machine
and the seconds that it took. The benchmarks that fit into the minutes are run twice, the quickest first, each time in
an empty folder, so that nothing kept by an earlier run is taken for a measurement. How far the two runs lie apart, at
most over a column, is the noise of that column. A figure moved if it is farther from the stored one than twice that
noise and the last digit shown. Columns that vary from run to run are of the clock: on another class of machine they are
not compared. --keep stores the new tables; `hingerank reproduce --write-docs` then writes the pages.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measuring import write_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
UNKNOWN = 300.0  # seconds of a benchmark that has not recorded any
NUMBER = re.compile(r"[-+−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?")
Words = dict[str, Any]


def script_of(words: Words) -> Path | None:
    """The script of a stored table that one command of Python measured."""
    parts = shlex.split(words["command"].replace(";", " ; "))
    alone = parts[0] == "python" and not {";", "&&"} & set(parts)
    return ROOT / parts[1] if alone else None


def why_not(name: str, words: Words) -> str:
    """Why the command cannot be run as it stands to write this table again; "" if it can."""
    script = script_of(words)
    if script is None:
        return "its figures are those of several commands; `hingerank reproduce --check` looks at the papers'"
    if placeholders := [word for word in shlex.split(words["command"]) if re.fullmatch("[A-Z]+", word)]:
        return f"its command needs {', '.join(placeholders)}: {words['command']}"
    if "NVIDIA" in words.get("machine", "") and find_spec("torch") is None:
        return "needs a GPU and PyTorch"
    if not any(f'"{name}"' in path.read_text("utf-8") for path in script.parent.glob(f"{script.stem}*.py")):
        return f"its script does not write it: {words['command']}"
    return ""


def stored() -> dict[str, Words]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))}


def seconds_of(words: Words) -> float:
    """The seconds that a table took when it was measured."""
    return float(words.get("seconds", UNKNOWN))


def plan(tables: dict[str, Words], minutes: float) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Command -> its tables, those that fit, the quickest first; and why each other table is left out."""
    commands: dict[str, list[str]] = {}
    left: dict[str, str] = {}
    for name, words in tables.items():
        if why := why_not(name, words):
            left[name] = why
        else:
            commands.setdefault(words["command"], []).append(name)
    cost = {command: 2 * max(seconds_of(tables[name]) for name in names) for command, names in commands.items()}
    chosen: dict[str, list[str]] = {}
    total = 0.0
    for command in sorted(commands, key=lambda command: cost[command]):
        if total + cost[command] <= 60 * minutes:
            total += cost[command]
            chosen[command] = commands[command]
        else:
            left |= dict.fromkeys(commands[command], f"does not fit into {minutes:g} minutes")
    return chosen, left


def numbers(cell: str) -> list[tuple[float, float]]:
    """The numbers in a cell, each with the worth of its last digit."""
    found = []
    for text in NUMBER.findall(cell):
        plain = text.replace(",", "").replace("−", "-")
        mantissa, _, exponent = plain.partition("e")
        digits = len(mantissa.partition(".")[2])
        found.append((float(plain), 10.0 ** (int(exponent or 0) - digits)))
    return found


def by_row(words: Words) -> dict[str, list[str]]:
    """Name -> cells; rows of one name are counted."""
    found: dict[str, list[str]] = {}
    for row in words["rows"]:
        name, n = str(row[0]), 1
        while name in found:
            n += 1
            name = f"{row[0]} ({n})"
        found[name] = row
    return found


def noise(first: Words, second: Words) -> list[float]:
    """For each column how far apart two runs are, relative, at most."""
    apart = [0.0] * len(first["header"])
    other = by_row(second)
    for name, row in by_row(first).items():
        for column, (a, b) in enumerate(zip(row, other.get(name, row))):
            for (x, _), (y, _) in zip(numbers(a), numbers(b)):
                apart[column] = max(apart[column], abs(x - y) / max(abs(x), abs(y), 1e-300))
    return apart


def moved(old: Words, first: Words, second: Words) -> tuple[list[str], int]:
    """What moved from the stored table to two new runs, in words; and how many figures were not compared."""
    if old["header"] != first["header"]:
        return [f"other columns: {', '.join(first['header'])}"], 0
    lines, skipped = [], 0
    apart, before = noise(first, second), by_row(old)
    same_machine = old.get("machine") == first.get("machine")
    lines += [f"no row {name!r} any more" for name in before if name not in by_row(first)]
    for name, row in by_row(first).items():
        if name not in before:
            lines.append(f"a new row {name!r}")
            continue
        for column, (then, now, again) in enumerate(zip(before[name], row, by_row(second)[name])):
            was, found, repeated = numbers(then), numbers(now), numbers(again)
            if column == 0 or then == now:
                continue
            if apart[column] > 0 and not same_machine:
                skipped += 1
                continue
            far = len(was) != len(found) or len(found) != len(repeated) or not found
            for (a, digit), (b, _), (c, _) in zip(was, found, repeated):
                new = (b + c) / 2
                far |= abs(new - a) > 2 * apart[column] * max(abs(a), abs(new)) + 1.01 * digit
            if far:
                title = old["header"][column] or f"column {column + 1}"
                lines.append(f"{name} / {title}: {then} -> {now} (again {again}; noise {apart[column]:.1%})")
    return lines, skipped


def run_once(command: str, seconds: float) -> tuple[dict[str, Words], str]:
    """The tables that a command writes within some seconds, and why there are none."""
    data = Path(os.environ.get("HINGERANK_DATA", ROOT / "../shared/data")).resolve()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write = Path(folder, "written")
        for path in (write, Path(folder, "docs/figures")):
            path.mkdir(parents=True)
        words = [sys.executable, str(ROOT / shlex.split(command)[1]), *shlex.split(command)[2:], "--write", str(write)]
        known = {**os.environ, "HINGERANK_DATA": str(data)}
        try:
            done = subprocess.run(
                words, cwd=folder, env=known, capture_output=True, text=True, timeout=max(1.0, seconds)
            )
        except subprocess.TimeoutExpired:
            return {}, f"not done after {seconds:.0f} seconds"
        if done.returncode:
            return {}, (done.stderr.strip().splitlines() or ["no message"])[-1]
        taken = {"seconds": round(time.perf_counter() - started)}
        return {path.stem: json.loads(path.read_text("utf-8")) | taken for path in write.glob("*.json")}, ""


def rerun(command: str, names: list[str], tables: dict[str, Words], end: float, keep: bool) -> dict[str, str]:
    """Run a command twice and print what moved in its tables; why some were not compared.

    A run may take thrice as long as the stored one, so that one that hangs does not use up the time of the others.
    """
    print(f"$ {command}", flush=True)
    most = 3 * max(seconds_of(tables[name]) for name in names) + 60
    first, why = run_once(command, min(most, end - time.perf_counter()))
    second, why = run_once(command, min(most, end - time.perf_counter())) if first else ({}, why)
    left = {}
    for name in names:
        if name not in first or name not in second:
            left[name] = why or "its script did not write it"
            continue
        lines, skipped = moved(tables[name], first[name], second[name])
        old = tables[name]
        since = f"version {old['version']}, {old['date']}, {old.get('machine', 'machine not recorded')}"
        print(f"{name}: {f'{len(lines)} moved' if lines else 'nothing moved'} since {since}")
        print(*(f"  {line}" for line in lines), sep="\n", end="\n" if lines else "")
        if skipped:
            print(f"  {skipped} cells of the clock not compared: this is {first[name]['machine']}")
        if keep:
            more = {key: value for key, value in old.items() if key not in first[name]}  # such as the alignment
            write_table(RESULTS / f"{name}.json", more | first[name])
    return left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="tables of docs/results; default: all that fit into the time")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--keep", action="store_true", help="store the new tables")
    parser.add_argument("--list", action="store_true", help="only say what would run")
    asked = parser.parse_args()
    tables = stored()
    if unknown := set(asked.names) - set(tables):
        sys.exit(f"docs/results has no {', '.join(sorted(unknown))}")
    chosen, left = plan({name: tables[name] for name in asked.names or tables}, asked.minutes)
    if asked.list:
        for command, names in chosen.items():
            print(f"{command}: {', '.join(names)}")
    else:
        end = time.perf_counter() + 60 * asked.minutes
        for command, names in chosen.items():
            left |= rerun(command, names, tables, end, asked.keep)
    for name, why in left.items():
        print(f"not run: {name} ({why})")


if __name__ == "__main__":
    main()
