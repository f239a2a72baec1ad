"""The demo: the paper's first figure on data everyone has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..callbacks import Callback
from ..federation import Federation
from ..method import METHODS, get_method
from ..partition import dirichlet
from ..report.figures import local_effect
from ..report.html import write_page
from ..runs.store import find_runs

METHODS_SHOWN = ("fedavg", "fedlc", "fedntd", "fedvls")
BETA, CLIENTS, SEED, ROUNDS, EPOCHS = 0.05, 10, 0, 30, 5
SETTING = (
    f"The 8x8 digits of scikit-learn, {CLIENTS} clients, labels skewed by a Dirichlet of concentration {BETA} "
    f"(seed {SEED}), an MLP, {EPOCHS} local epochs.\n"
    f"1. Every method trains {ROUNDS} rounds from the same initial weights: the two columns on the right.\n"
    "2. FedAvg's final model is sent out once more, and the clients train one round from it with each method: what "
    "that does to classes they lack (vacant), have few of (minority) and many of (majority)."
)


def run_demo(out: Path, watch: Callable[[str], Callback]) -> dict[str, Any]:
    """Run it into `out`, replacing an earlier demo's runs, draw the figure and write the page."""
    runs, once = out / "runs", out / "one-round"
    for folder in (runs, once):
        shutil.rmtree(folder, ignore_errors=True)
    federation = Federation("digits", partition=dirichlet(beta=BETA), clients=CLIENTS, model="mlp", seed=SEED)
    results = {
        name: federation.run(
            get_method(name),
            ROUNDS,
            EPOCHS,
            out=runs / name,
            local_every=ROUNDS // 6,
            confusion=[0],
            callbacks=[watch(name)],
        )
        for name in METHODS_SHOWN
    }
    start = results["fedavg"].weights
    effects = {
        name: federation.run(get_method(name), 1, EPOCHS, out=once / name, start=start).local for name in METHODS_SHOWN
    }
    titles = {name: METHODS.entry(name).about["title"] for name in METHODS_SHOWN}
    figure = local_effect(
        {titles[name]: effects[name] for name in METHODS_SHOWN},
        federation.split.counts,
        federation.data.class_names,
        f"One round of local training from the same global model (digits, Dirichlet {BETA}, {CLIENTS} clients)",
        out / "local-effect.png",
    )
    rows = [
        {
            "method": name,
            "title": titles[name],
            "best": results[name].best,
            "last": results[name].last,
            "before": effects[name]["before"],
            "after": effects[name]["after"],
            "drift_diversity": effects[name]["drift_diversity"],
        }
        for name in METHODS_SHOWN
    ]
    page = write_page(find_runs([runs]), out / "report.html")
    return {
        "setting": SETTING,
        "methods": rows,
        "reading": _reading(rows),
        "figure": str(figure),
        "report": str(page),
        "runs": str(runs),
    }


def _reading(rows: list[dict[str, Any]]) -> str:
    """What the numbers say, computed from them."""
    lost = {row["title"]: row["before"]["vacant"] - row["after"]["vacant"] for row in rows}
    worst, least = max(lost, key=lost.__getitem__), min(lost, key=lost.__getitem__)
    best = max(rows, key=lambda row: float(row["best"]))
    return (
        f"One round of local training costs the vacant classes {round(100 * lost[worst])} points under {worst} and "
        f"{round(100 * lost[least])} under {least}. The best global model after {ROUNDS} rounds is {best['title']}'s "
        "here: keeping what was known and learning fast are different things, and settings decide which counts more."
    )
