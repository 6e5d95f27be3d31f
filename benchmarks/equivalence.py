"""A population trained through the service scores as the embedded engine does with the same settings: the difference, with its
95 % interval.

    python benchmarks/equivalence.py [--trials 200] [--reports 100] [--epsilon 1] > docs/results/equivalence.json

The service is a real one (uvicorn with TLS on loopback, SQLite); a trial is a model of its own, with its own θ_0 (seeds 0, 1, …),
and --reports devices, each with a ledger, a token and one report; nine are busy at a time, as the engine has nine workers. So few
reports that learning is not over, or there would be nothing to tell apart. Scores are of the averaged policy: greedy, 100
episodes at each of the population's three gravities.
"""

import argparse
import contextlib
import json
import math
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import uvicorn

from pgc.config import configure
from pgc.config.problem import build
from pgc.device.device import RELEASABLE
from pgc.engines.compiled_simulation import CompiledSimulation
from pgc.engines.evaluation import greedy_scores
from pgc.local_training.players import recipe_for
from pgc.service.alone import Alone
from pgc.service.app import make_app
from pgc.service.client import ServiceClient
from pgc.service.database import sqlite_url
from pgc.service.fleet import Fleet
from pgc.service.tls import make_dev_certificates
from pgc.service.watch import Watch


@contextlib.contextmanager
def serving(folder: Path, port: int):
    """A service in this process. Its keeper, and what makes a connection to a model with a token."""
    keeper, files = (
        Alone(sqlite_url(folder / "store.db")),
        make_dev_certificates(folder, "127.0.0.1"),
    )
    settings = {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
    watch = Watch(keeper)
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(keeper, watch), host="127.0.0.1", port=port, log_level="warning", **settings
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    url = f"https://127.0.0.1:{port}"
    try:
        yield (
            keeper,
            lambda model: lambda token: ServiceClient(url, token, model=model, ca=str(files.ca)),
        )
    finally:
        server.should_exit = True
        thread.join()
        watch.close()
        keeper.close()


def through_the_service(epsilon: float, trials: int, reports: int, port: int) -> np.ndarray:
    """Scores, one a trial."""
    scores = []
    with tempfile.TemporaryDirectory() as place, serving(Path(place), port) as (keeper, connect):
        for seed in range(trials):
            name = f"trial-{seed}"
            model = keeper.create(name, configure(epsilon=epsilon, submissions=reports, seed=seed))
            training = model.training
            fleet = Fleet(
                connect=connect(name),
                tokens=keeper.issue_tokens(reports, 1),
                ledgers=[Path(place) / name / f"{n}.db" for n in range(reports)],
                limit=epsilon,
                device_id=None,
                slot=0.0,
                simulated=True,
                world=training.world,
                population=training.population,
                recipe=recipe_for(training.world, model.recipe.card),
                seed=seed,
                accepts=RELEASABLE,
                say=lambda *_: None,
            )
            joined = fleet.run(at_once=model.config.workers)
            assert joined.accepted == reports, joined
            keeper.wait_until_applied()
            scores.append(score(training, np.asarray(model.state.average)[None])[0])
            print(f"trial {seed}: {scores[-1]:.1f}", file=sys.stderr)
    return np.array(scores)


def embedded(epsilon: float, trials: int, reports: int) -> np.ndarray:
    """The same from the engine, with other seeds."""
    problem = build(configure(epsilon=epsilon, submissions=reports, seed=1000, trials=trials))
    simulation = CompiledSimulation(problem)
    while simulation.running:
        for _ in simulation.advance():
            pass
    return score(problem.training, simulation.aggregator_field("average"))


def score(training, thetas: np.ndarray) -> np.ndarray:
    psis = training.population.grid()
    scores = greedy_scores(training, thetas.astype(np.float32), psis, episodes=100, seed=0)
    return scores.mean(axis=1)


def compare(epsilon: float, trials: int, reports: int, port: int = 18543) -> dict[str, float]:
    """Both, and their difference with its 95 % interval."""
    ours, theirs = (
        through_the_service(epsilon, trials, reports, port),
        embedded(epsilon, 4 * trials, reports),
    )
    half = 1.96 * math.sqrt(ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs))
    difference = ours.mean() - theirs.mean()
    return {
        "epsilon": epsilon, "reports": reports, "trials": trials, "service": ours.mean(), "embedded": theirs.mean(),
        "difference": difference, "low": difference - half, "high": difference + half,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--reports", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=1.0)
    args = parser.parse_args()
    print(
        json.dumps(
            {
                k: round(float(v), 3)
                for k, v in compare(args.epsilon, args.trials, args.reports).items()
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
