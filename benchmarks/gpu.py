"""Kernel, linear and additive rankers on an NVIDIA GPU: seconds against the bytes that must move.

    python benchmarks/gpu.py                       # exact kernel on 41,837 rows, mapped fits of 500,000 × 4,000, …
    python benchmarks/gpu.py --write docs/results  # and keeps the table as kernel-gpu.json and additive-gpu.json there
    python benchmarks/gpu.py --device torch-cpu --share 0.02    # the same code, small, without a GPU

An exact fit reads the n² numbers of the Gram matrix once for every product, a mapped fit the n × m mapped rows twice,
an additive fit the bins and places of n × d values twice. The bytes of those reads over the seconds of the whole fit's
solving are compared with the speed of a plain copy on the device (read plus write). What is left is the time outside
the products: sweeps over preference pairs, on the device too, and the solver.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np

import hingerank as hr
from hingerank.data.generate import make_letor, make_like
from hingerank.lab.folds import query_folds
from hingerank.problem import torch_design
from measuring import keep_table, seconds_of

HEADER = ["fit", "seconds", "of which solving", "data read", "terabytes", "of copy speed"]


class Watch:
    """Calls of a function, when it was first called and, where it is to wait for the device, its seconds."""

    def __init__(self, owner, name, done):
        self.name, self.inner, self.done = name, getattr(owner, name), done
        self.forget()
        setattr(owner, name, lambda *arguments: self.timed(*arguments))

    def forget(self, waits=False):
        self.waits, self.seconds, self.calls, self.began = waits, 0.0, 0, np.inf

    def timed(self, *arguments):
        start = time.perf_counter()
        self.began = min(self.began, start)
        answer = self.inner(*arguments)
        if self.waits:
            self.done()
        self.seconds += time.perf_counter() - start
        self.calls += 1
        return answer


def copy_speed(torch, device, size: int) -> float:
    """Bytes per second of a copy on the device, read and write counted."""
    a = torch.ones(size // 4, dtype=torch.float32, device=device)
    b = torch.empty_like(a)
    finish(torch, device)

    def copy():
        b.copy_(a)
        finish(torch, device)

    return 2 * size / min(seconds_of(copy, 5))


def finish(torch, device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def report(name, ranker, data, watches, bytes_per_call, speed) -> list[str]:
    """The fastest of three fits, printed and as a row of the table: the first loads what later ones have.

    One more, whose products wait until the device is done, tells what these take.
    """
    fits = [timed_fit(ranker, data, watches) for _ in range(3)]
    solve, whole, calls = min(fits)
    moved, TB = calls * bytes_per_call, 1e12
    fraction = f"{100 * moved / solve / speed:.0f} %"
    print(f"{name}: {whole:.3f} s, of which solving {solve:.3f} s in {ranker.n_iter_} Newton steps")
    print(f"    {moved / TB:.2f} TB in all, {fraction} of copy speed; each fit: {[round(fit[0], 3) for fit in fits]} s")
    alone, *_ = timed_fit(ranker, data, watches, waits=True)
    for watch in watches:
        rate = watch.calls * bytes_per_call / watch.seconds / TB
        print(f"    {watch.calls} × {watch.name}, one by one: {watch.seconds:.2f} s, {rate:.2f} TB/s")
    rest = alone - sum(watch.seconds for watch in watches)
    print(f"    sweeps and solver, one by one: {rest:.2f} s")
    found = ranker.certificate_
    print(f"    {found.kind} {found.value:.2g}, ndcg@10 on the training rows {ranker.score(data):.4f}", flush=True)
    return [name, f"{whole:.3f}", f"{solve:.3f}", f"{calls} ×", f"{moved / TB:.2f}", fraction]


def timed_fit(ranker, data, watches, waits=False) -> tuple[float, float, int]:
    """Seconds from the first product to the end, of the whole fit, and how many products there were."""
    for watch in watches:
        watch.forget(waits)
    start = time.perf_counter()
    ranker.fit(data)
    end = time.perf_counter()
    return end - min(watch.began for watch in watches), end - start, sum(watch.calls for watch in watches)


def agreement(device: str) -> None:
    """The same small fits on both devices."""
    data = make_like("MQ2008", scale=0.2, dtype=np.float32)
    for make in (hr.KernelRankSVM, hr.NystroemRankSVM, hr.FourierRankSVM, hr.AdditiveRankSVM):
        options = {"C": 0.1} | ({} if make is hr.AdditiveRankSVM else {"gamma": 0.1})
        for loss in ("squared_hinge", "hinge"):
            here = make(loss=loss, **options).fit(data)
            there = make(loss=loss, device=device, **options).fit(data)
            near = np.corrcoef(here.predict(data.X), there.predict(data.X))[0, 1]
            apart = there.objective_ / here.objective_ - 1
            print(
                f"agreement {make.__name__} {loss}: objective {apart:+.1e}, correlation of scores {near:.7f}",
                flush=True,
            )


def exact_rows(device, share, speed, finish_now, cpu) -> list[list[str]]:
    """Of the exact kernel."""
    watches = [Watch(torch_design.TorchGram, "product", finish_now)]
    data = query_folds(make_like("MQ2007", scale=share, dtype=np.float32))[0].part("train")
    n, rows = data.n_rows, []
    for C, tol in ((2.0**-2, 1e-3), (2.0**-2, 1e-4), (4.0, 1e-3)):
        ranker = hr.KernelRankSVM(gamma=2.0**-5, C=C, tol=tol, device=device)
        name = f"exact RBF, {n:,} rows, $C = {C:g}$, tol = {tol:g}"
        rows.append(report(name, ranker, data, watches, 4 * n * n, speed))
    if cpu:
        start = time.perf_counter()
        ranker = hr.KernelRankSVM(gamma=2.0**-5, C=2.0**-2).fit(data)
        products = ranker.trace_[-1]["products"]
        print(f"the same on the CPU, C = 0.25: {time.perf_counter() - start:.2f} s, {products} products")
    return rows


def mapped_rows(device, data, m, speed, finish_now) -> list[list[str]]:
    """Of mapped rows: Fourier and Nyström, and a path."""
    watches = [Watch(torch_design.TorchDesign, name, finish_now) for name in ("away", "home")]
    rows, size = [], f"{data.n_rows:,} rows × {m:,}"
    for name, make in (("Fourier", hr.FourierRankSVM), ("Nyström", hr.NystroemRankSVM)):
        for exponent in (-6, -2):
            ranker = make(m, gamma=2.0**-5, C=2.0**exponent, device=device)
            name_of_fit = f"{name}, {size}, $C = 2^{{{exponent}}}$"
            rows.append(report(name_of_fit, ranker, data, watches, 4 * data.n_rows * m, speed))
    ranker = hr.FourierRankSVM(m, gamma=2.0**-5, device=device)
    (seconds,) = seconds_of(lambda: ranker.fit_path(data, Cs=2.0 ** np.arange(-10, 0, 2)))
    print(f"FourierRankSVM, path over 5 values of C: {seconds:.2f} s", flush=True)
    return [*rows, [f"Fourier, {size}, five values of $C$ as a path", f"{seconds:.3f}", "", "", "", ""]]


def alone(make, options, data, device) -> list[str]:
    """The fastest of three fits, as a row: for the cores beside the device, and where bytes do not matter."""
    ranker = make(device=device, **options)
    seconds = min(seconds_of(partial(ranker.fit, data), 3))
    found, where = ranker.certificate_, ", on the cores beside it" if device == "cpu" else ""
    name = f"{make.__name__}, {data.n_rows:,} rows × {data.n_features}, $C = {options['C']:g}${where}"
    print(
        f"{name}: {seconds:.3f} s (the last one's solver {found.seconds:.3f}), {found.n_iter} steps, objective "
        f"{ranker.objective_:.8g}, {found.kind} {found.value:.2g}",
        flush=True,
    )
    return [name, f"{seconds:.3f}", "", "", "", ""]


def additive_rows(device, share, speed, finish_now) -> list[list[str]]:
    """Of curves: against the bytes of bins and places, and against the cores beside the device."""
    watches = [Watch(torch_design.TorchBins, name, finish_now) for name in ("away", "home")]
    rows = []
    for queries, C in ((5_000, 1e-3), (5_000, 1e-1), (50_000, 1e-4)):
        data = letor(queries, share)
        name = f"AdditiveRankSVM, {data.n_rows:,} rows × {data.n_features}, $C = {C:g}$"
        ranker = hr.AdditiveRankSVM(C=C, device=device)
        rows.append(report(name, ranker, data, watches, 8 * data.n_rows * data.n_features, speed))
        print(f"    objective {ranker.objective_:.8g}")
        rows.append(alone(hr.AdditiveRankSVM, {"C": C}, data, "cpu"))
    return rows


def letor(queries: int, share: float):
    return make_letor(round(queries * share), 100, 136, 5, seed=0, dtype=np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    parser.add_argument("--cpu", action="store_true", help="the exact fit on the CPU too, which takes a minute")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="keep the tables there")
    arguments = parser.parse_args()
    import torch

    device, share = torch_design.check_device(arguments.device), arguments.share
    finish_now = partial(finish, torch, device)
    speed = copy_speed(torch, device, int(4e9 * share))
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"{where}, PyTorch {torch.__version__}: copies at {speed / 1e12:.2f} TB/s", flush=True)
    start = time.perf_counter()
    agreement(arguments.device)
    print(f"({time.perf_counter() - start:.0f} s with loading and compiling)", flush=True)
    copy = [f"a plain copy on the device, {where}, 4 GB", f"{8e9 * share / speed:.4f}", "", "", "0.008", "100 %"]
    kernels = [copy, *exact_rows(arguments.device, share, speed, finish_now, arguments.cpu)]
    data = letor(5_000, share)
    kernels += mapped_rows(arguments.device, data, max(50, round(4000 * min(1.0, 10 * share))), speed, finish_now)
    kernels += [alone(hr.RankSVM, {"C": 0.001}, data, where) for where in (arguments.device, "cpu")]
    additive = [copy, *additive_rows(arguments.device, share, speed, finish_now)]
    if arguments.write is not None:
        for name, rows in {"kernel-gpu": kernels, "additive-gpu": additive}.items():
            keep_table(arguments.write, name, "python benchmarks/gpu.py", HEADER, rows, where)


if __name__ == "__main__":
    main()
