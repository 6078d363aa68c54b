"""Click models on the Yandex sample: held-out perplexity and seconds, beside CLAX where an interpreter has it.

    python benchmarks/click_models.py                                   hingerank's six models
    python benchmarks/click_models.py --clax PYTHON                     CLAX's too: PYTHON has clax-models installed
    python benchmarks/click_models.py --clax PYTHON --write docs/results     the same, stored

Sessions are split 75/25, seed 0; the same lists go to both. Perplexity is the mean over places, without and with the
clicks above known. "place" and "document" are click rates by place, and by document of a query. hingerank's prior is
that of the largest likelihood on a quarter of the training sessions, and then all of them are learnt from; its seconds
are of that last fit. CLAX (clax-models 0.1.1 with jax 0.7) learns by Adam (rate .03, batches of 512, at most --epochs)
and keeps the epoch that is best on a tenth of the training lists, which it does not learn from; its seconds hold
compilation. Its SDBN is a DBN with its continuation fixed.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import hingerank as hr
from hingerank.clicks.counting import group_by
from hingerank.clicks.models import CLICK_MODELS, FLOOR, LogLists, lists_of
from measuring import keep_table

DATA = Path(os.environ.get("HINGERANK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
PRIORS = (0.3, 1.0, 3.0, 10.0)
CLAX = """
import sys, time, json
import numpy as np, jax, optax
from flax import nnx
import clax
import jax.numpy as jnp
from clax.utils.math import log1mexp
stored = dict(np.load(sys.argv[1]))
def batch(part, rows):
    clicks, pair = stored[part + "_clicks"][rows], stored[part + "_pair"][rows]
    positions = np.broadcast_to(np.arange(1, clicks.shape[1] + 1), clicks.shape)
    return {"positions": jnp.array(positions), "query_doc_ids": jnp.array(pair),
            "clicks": jnp.array(clicks, jnp.float32), "mask": jnp.ones(clicks.shape, bool)}
def perplexity(log_p, clicks):
    log_p = jnp.clip(log_p, np.log(1e-6), np.log1p(-1e-6))
    terms = jnp.where(clicks > 0, log_p, log1mexp(log_p))
    return float(jnp.mean(2.0 ** (-(terms / jnp.log(2.0)).mean(axis=0))))
rng = np.random.default_rng(0)
n, pairs = len(stored["train_clicks"]), int(stored["n_pairs"]) + 1
order = rng.permutation(n)
held, train = order[: n // 10], order[n // 10 :]
for name, make in {
    "pbm": clax.PositionBasedModel, "cascade": clax.CascadeModel, "dcm": clax.DependentClickModel,
    "sdbn": clax.DynamicBayesianNetwork, "dbn": clax.DynamicBayesianNetwork, "ubm": clax.UserBrowsingModel,
}.items():
    start = time.perf_counter()
    sizes = {"query_doc_pairs": pairs}
    if name not in ("cascade", "sdbn", "dbn"):
        sizes["positions"] = 10
    if name == "sdbn":
        sizes["fix_continuation"] = True
    model = make(**sizes, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(0.03), wrt=nnx.Param)
    @nnx.jit
    def step(model, optimizer, data):
        loss, gradient = nnx.value_and_grad(lambda m: m.compute_loss(data).mean())(model)
        optimizer.update(model, gradient)
        return loss
    @nnx.jit
    def loss_of(model, data):
        return model.compute_loss(data).mean()
    left_out, best, state, worse = batch("train", held), np.inf, nnx.state(model), 0
    for epoch in range(int(sys.argv[2])):
        shuffled = rng.permutation(train)
        for at in range(0, len(shuffled) - 511, 512):
            step(model, optimizer, batch("train", shuffled[at : at + 512]))
        loss = float(loss_of(model, left_out))
        if loss < best - 1e-5:
            best, state, worse = loss, nnx.state(model), 0
        else:
            worse += 1
            if worse == 3:
                break
    nnx.update(model, state)
    seconds = time.perf_counter() - start
    test = batch("test", slice(None))
    print(json.dumps({"program": "CLAX " + "0.1.1", "model": name, "seconds": seconds, "epochs": epoch + 1,
        "perplexity": perplexity(model.predict_clicks(test), test["clicks"]),
        "given clicks above": perplexity(model.predict_conditional_clicks(test), test["clicks"])}), flush=True)
"""


def expanded(lists: LogLists) -> tuple[np.ndarray, ...]:
    """Queries, documents and clicks of every list, each as often as it was shown."""
    rows = np.repeat(np.arange(len(lists.weight)), lists.weight.astype(int))
    return lists.query[rows], lists.document[rows], lists.clicks[rows]


def rate_perplexity(train: hr.ClickLog, test: hr.ClickLog, by_document: bool) -> float:
    """That of click rates by place, or by document of a query with one showing of the mean before."""
    columns = [np.r_[train.query, test.query], np.r_[train.document, test.document]]
    key = group_by(columns).number if by_document else np.r_[train.place, test.place]
    n, mean = len(train), train.clicks.mean()
    shown, hits = np.bincount(key[:n], minlength=key.max() + 1), np.bincount(key[:n], train.clicks, key.max() + 1)
    chance = np.clip(((hits + mean) / (shown + 1))[key[n:]], FLOOR, 1 - FLOOR)
    bits = -np.log2(np.where(test.clicks > 0, chance, 1 - chance))
    return float((2 ** (np.bincount(test.place, bits)[1:] / np.bincount(test.place)[1:])).mean())


def best_prior(train: hr.ClickLog, name: str) -> float:
    """The prior under which clicks of a quarter of the training sessions are most likely, learnt from the others."""
    learn, choose = train.split(0.25, seed=1)
    return max(PRIORS, key=lambda prior: hr.click_model(learn, name, prior=prior).log_likelihood(choose))


def beside(python: str, train: hr.ClickLog, test: hr.ClickLog, epochs: int) -> list[dict]:
    """CLAX's figures for the same lists."""
    parts = {"train": expanded(lists_of(train)), "test": expanded(lists_of(test))}
    query, document, _ = (np.concatenate(both) for both in zip(*parts.values()))
    wide = np.broadcast_to(query[:, None], document.shape)
    pair = group_by([wide.ravel(), document.ravel()]).number.reshape(document.shape)
    n = len(parts["train"][0])
    arrays = {"train_pair": pair[:n], "test_pair": pair[n:], "n_pairs": pair.max() + 1}
    arrays |= {f"{part}_clicks": columns[2] for part, columns in parts.items()}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder, "lists.npz"), **arrays)
        command = [python, "-c", CLAX, str(Path(folder, "lists.npz")), str(epochs)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]})
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clax", metavar="PYTHON")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--sessions", type=int, help="of the sample's; all if not given")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    log = hr.read_clicks(DATA / "clicks" / "yandex-sessions.txt.xz")
    train, test = (log if not arguments.sessions else log.take(log.session < arguments.sessions)).split(0.25, seed=0)
    found = [
        {"program": "rates", "model": name, "perplexity": rate_perplexity(train, test, name == "document")}
        for name in ("place", "document")
    ]
    hr.click_model(test, "pbm")  # loads what is compiled
    for name in CLICK_MODELS:
        prior = best_prior(train, name)
        start = time.perf_counter()
        model = hr.click_model(train, name, prior=prior)
        line = {"program": "hingerank", "model": name, "seconds": time.perf_counter() - start, "prior": prior}
        line |= {
            "perplexity": model.perplexity(test)["mean"],
            "given clicks above": model.perplexity(test, True)["mean"],
        }
        found.append(line)
    if arguments.clax:
        found += beside(arguments.clax, train, test, arguments.epochs)
    for line in found:
        print({name: round(value, 4) if isinstance(value, float) else value for name, value in line.items()})
    if arguments.write:
        header = ["model", "by", "perplexity", "given clicks above", "seconds", "prior"]
        digits = {"perplexity": 4, "given clicks above": 4, "seconds": 2, "prior": 1}
        rows = [
            [line["model"], line["program"], *(f"{line[k]:.{n}f}" if k in line else "–" for k, n in digits.items())]
            for line in found
        ]
        keep_table(arguments.write, "click-models", "python benchmarks/click_models.py --clax PYTHON", header, rows)


if __name__ == "__main__":
    main()
