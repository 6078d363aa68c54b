"""Kernel rankers on an NVIDIA GPU: seconds against the bytes that must move.

    python benchmarks/gpu.py                       # exact kernel on 41,774 rows, mapped fits of 500,000 × 4,000
    python benchmarks/gpu.py --device torch-cpu --share 0.02    # the same code, small, without a GPU

An exact fit reads the n² numbers of the Gram matrix once for every product, a mapped fit the n × m mapped rows twice.
The bytes of those reads over the seconds of the whole fit's solving are compared with the speed of a plain copy on the
device (read plus write). What is left is the time outside the products: sweeps over preference pairs, on the device
too, and the solver.
"""

import argparse
import time
from functools import partial

import numpy as np

import hingerank as hr
from hingerank.data.generate import make_letor, make_like
from hingerank.lab.folds import query_folds
from hingerank.problem import torch_design
from measuring import seconds_of


class Watch:
    """Seconds and calls of a function, which ends when the device is done, and when it was first called."""

    def __init__(self, owner, name, done):
        self.name, self.inner, self.done = name, getattr(owner, name), done
        self.forget()
        setattr(owner, name, lambda *arguments: self.timed(*arguments))

    def forget(self):
        self.seconds, self.calls, self.began = 0.0, 0, np.inf

    def timed(self, *arguments):
        start = time.perf_counter()
        self.began = min(self.began, start)
        answer = self.inner(*arguments)
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


def report(name, ranker, data, watches, bytes_per_call, speed) -> None:
    """The fastest of three fits: the first loads what later ones have."""
    best = None
    for _ in range(3):
        for watch in watches:
            watch.forget()
        start = time.perf_counter()
        ranker.fit(data)
        end = time.perf_counter()
        solve = end - min(watch.began for watch in watches)
        if best is None or solve < best[0]:
            best = solve, end - start, [(watch.name, watch.calls, watch.seconds) for watch in watches]
    (solve, whole, products), TB = best, 1e12
    moved = sum(calls for _, calls, _ in products) * bytes_per_call
    print(f"{name}: {whole:.2f} s, of which solving {solve:.2f} s in {ranker.n_iter_} Newton steps")
    for product, calls, seconds in products:
        rate = calls * bytes_per_call / seconds / TB
        print(f"    {calls} × {product}: {seconds:.2f} s with what it waits for, {rate:.2f} TB/s")
    rest = solve - sum(seconds for *_, seconds in products)
    print(
        f"    sweeps and solver: {rest:.2f} s; {moved / TB:.2f} TB in all, "
        f"{100 * moved / solve / speed:.0f} % of copy speed"
    )
    found = ranker.certificate_
    print(f"    {found.kind} {found.value:.2g}, ndcg@10 on the training rows {ranker.score(data):.4f}", flush=True)


def agreement(device: str) -> None:
    """The same small fits on both devices."""
    data = make_like("MQ2008", scale=0.2, dtype=np.float32)
    for make in (hr.KernelRankSVM, hr.NystroemRankSVM, hr.FourierRankSVM):
        for loss in ("squared_hinge", "hinge"):
            here = make(gamma=0.1, C=0.1, loss=loss).fit(data)
            there = make(gamma=0.1, C=0.1, loss=loss, device=device).fit(data)
            near = np.corrcoef(here.predict(data.X), there.predict(data.X))[0, 1]
            apart = there.objective_ / here.objective_ - 1
            print(
                f"agreement {make.__name__} {loss}: objective {apart:+.1e}, correlation of scores {near:.7f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    parser.add_argument("--no-cpu", action="store_true", help="leave out the exact fit on the CPU")
    arguments = parser.parse_args()
    import torch

    device = torch_design.check_device(arguments.device)
    finish_now = partial(finish, torch, device)
    speed = copy_speed(torch, device, int(4e9 * arguments.share))
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"{where}, PyTorch {torch.__version__}: copies at {speed / 1e12:.2f} TB/s", flush=True)
    start = time.perf_counter()
    agreement(arguments.device)
    print(f"({time.perf_counter() - start:.0f} s with loading and compiling)", flush=True)

    watches = [Watch(torch_design.TorchGram, "product", finish_now)]
    data = query_folds(make_like("MQ2007", scale=arguments.share, dtype=np.float32))[0].part("train")
    n = data.n_rows
    for C, tol in ((2.0**-2, 1e-3), (2.0**-2, 1e-4), (4.0, 1e-3)):
        ranker = hr.KernelRankSVM(gamma=2.0**-5, C=C, tol=tol, device=arguments.device)
        report(f"exact RBF, {n} rows, C = {C:g}, tol = {tol:g}", ranker, data, watches, 4 * n * n, speed)
    if not arguments.no_cpu:
        start = time.perf_counter()
        ranker = hr.KernelRankSVM(gamma=2.0**-5, C=2.0**-2).fit(data)
        print(
            f"the same on the CPU, C = 0.25: {time.perf_counter() - start:.2f} s, "
            f"{ranker.trace_[-1]['products']} products"
        )

    start = time.perf_counter()
    data = make_letor(round(5000 * arguments.share), 100, 136, 5, seed=0, dtype=np.float32)
    print(f"{data.n_rows} rows made in {time.perf_counter() - start:.1f} s", flush=True)
    m = max(50, round(4000 * min(1.0, 10 * arguments.share)))
    watches = [Watch(torch_design.TorchDesign, name, finish_now) for name in ("away", "home")]
    for C in (2.0**-6, 2.0**-2):
        for make in (hr.FourierRankSVM, hr.NystroemRankSVM):
            ranker = make(m, gamma=2.0**-5, C=C, device=arguments.device)
            report(
                f"{make.__name__}, {data.n_rows} × {m}, C = {C:g}", ranker, data, watches, 4 * data.n_rows * m, speed
            )
    for device in ("cpu", arguments.device):
        ranker = hr.RankSVM(C=0.001, device=device)
        seconds = min(seconds_of(partial(ranker.fit, data), 4))
        print(
            f"RankSVM, {data.n_rows} × {data.n_features}, {device}: {seconds:.3f} s, objective {ranker.objective_:.6g}"
        )
    start = time.perf_counter()
    members = hr.FourierRankSVM(m, gamma=2.0**-5, device=arguments.device).fit_path(
        data, Cs=2.0 ** np.arange(-10, 0, 2)
    )
    print(f"FourierRankSVM, path over {len(members)} values of C: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
