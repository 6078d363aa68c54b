"""What a running comparison shows: the leaderboard so far, what is running, and how long is left."""

import time
from typing import TYPE_CHECKING

import numpy as np

from hingerank.arrays import Facts
from hingerank.lab.comparison import Progress
from hingerank.lab.folds import size_text
from hingerank.lab.leaderboard import number
from hingerank.lab.results import mean_value
from hingerank.lab.tasks import Task
from hingerank.watching import describe_time

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table


def seconds_left(progress: Progress) -> float | None:
    """Σ over methods of (results still to come) × (mean time of those there are), over the number of workers.

    A method without results yet counts with the mean of the others; None while there are none at all.
    """
    known: dict[str, list[float]] = {}
    for record in progress.results.records:
        if record["seconds"] is not None:
            known.setdefault(record["method"], []).append(record["seconds"])
    if not known:
        return None
    mean = {name: float(np.mean(values)) for name, values in known.items()}
    default = float(np.mean(list(mean.values())))
    work = sum((total - done) * mean.get(name, default) for name, (done, total) in progress.counts.items())
    return work / max(1, progress.workers)


def _time_left(progress: Progress) -> str:
    seconds = seconds_left(progress)
    return "time left not known yet" if seconds is None else f"{describe_time(seconds)} left"


def describe_task(task: Task, folds: list[str]) -> str:
    """ "rank-svm, fold 2: C = 0.1, 1, 10" """
    seed = f", seed {task.seed}" if task.method.is_random else ""
    what = f"test{seed}" if task.kind == "test" else describe_settings(task.settings)
    size = "" if task.size == 1 else f", {size_text(task.size)} of the queries"
    return f"{task.method.name}, {folds[task.fold]}{size}" + (f": {what}" if what else "")


def describe_settings(settings: list[Facts]) -> str:
    """Each parameter once, with the values it takes; long lists by their ends."""
    words = []
    for name in settings[0]:
        given = (setting[name] for setting in settings)
        texts = ("none" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v) for v in given)
        values = list(dict.fromkeys(texts))
        words.append(f"{name} = " + (", ".join(values) if len(values) < 4 else f"{values[0]} … {values[-1]}"))
    return "; ".join(words)


class LiveBoard:
    """A callback for `compare` that keeps one block of the terminal up to date; use it in a `with` statement.

    On anything but a terminal it prints a line for each test result instead, so that logs stay readable.
    """

    def __init__(self, console: "Console") -> None:
        self.console = console
        self._live: Live | None = None
        self._seen: int | None = None  # results of which lines were printed
        self._since: dict[int, tuple[Task, float]] = {}
        self._progress: Progress | None = None

    def __enter__(self) -> "LiveBoard":
        if self.console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self.console, get_renderable=self._shown, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        self._since = {id(task): self._since.get(id(task), (task, now)) for task in progress.running}
        self._progress = progress
        if self._live is None:
            self._print_news(progress)

    def _print_news(self, progress: Progress) -> None:
        if self._seen is None and progress.done:
            self._say(f"resuming with {progress.done} of {progress.total} results")
        fresh = [] if self._seen is None else [r for r in progress.records[self._seen :] if r["kind"] == "test"]
        self._seen, measure = len(progress.records), progress.header["measure"]
        for record in fresh:
            said = record["error"] or f"{measure} {mean_value(record, measure):.4f}"
            setting = describe_settings([record["setting"]])
            self._say(
                f"[{progress.done}/{progress.total}] {record['method']}, {record['fold']}"
                + (f", seed {record['seed']}" if len(progress.results.seeds(record["method"])) > 1 else "")
                + (f", {size_text(record['size'])} of the queries" if "size" in record else "")
                + f": {said}"
                + (f" ({setting})" if setting else "")
                + (f", {_time_left(progress)}" if progress.done < progress.total else "")
            )

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _shown(self) -> "RenderableType":
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        progress = self._progress
        if progress is None:
            return Text("starting")
        bar = Table.grid(padding=(0, 1))
        said = f"{progress.done} of {progress.total} results, {_time_left(progress)}"
        bar.add_row(ProgressBar(total=max(1, progress.total), completed=progress.done, width=30), Text(said))
        now, folds = time.monotonic(), progress.results.folds
        running = [f"  {describe_task(t, folds)} ({now - since:.0f} s)" for t, since in self._since.values()]
        lines = [Text(line, style="dim", overflow="ellipsis") for line in running]
        return Group(live_table(progress), Text(""), bar, *lines)


def live_table(progress: Progress) -> "Table":
    """Methods by their mean so far; only folds that every listed method has are comparable, so folds are counted."""
    from rich.table import Table
    from rich.text import Text

    results = progress.results
    measure = results.header["measure"]
    table = Table(box=None, pad_edge=False)
    for name in ("method", measure, "folds", "results", "s/fit"):
        table.add_column(Text(name), justify="left" if name == "method" else "right", no_wrap=True)
    means = {method: results.query_mean(method, measure) for method in progress.counts}
    for method in sorted(means, key=lambda m: (np.isnan(means[m]), -np.nan_to_num(means[m]))):
        done, total = progress.counts[method]
        fits = [record["seconds"] for record in results.all_tests(method)]
        table.add_row(
            Text(method),
            Text(number(means[method]), style="bold"),
            f"{len(results.folds) - len(results.missing(method))}/{len(results.folds)}",
            f"{done}/{total}",
            f"{np.median(fits):.2g}" if fits else "",
        )
    return table
