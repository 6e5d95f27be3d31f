"""pgc beside Flower's LocalDpMod: the same play and the same aggregator, 100 reports, and three ways to report.

    .venv-flower/bin/python benchmarks/flower_ldp.py 10

Each row is `trials` runs of CartPole in one process, without a network; the real mod randomises the step of a node. Prints a
line of JSON for each: mean score of the averaged policy and its deviation over trials (200 is the most), and how many trials
reach 195. `basis` reports pgc's four coordinates, `full` the whole step of 112 numbers; the number is the sensitivity that the
mod is told, in clips (1 as documented, 2 as local privacy needs); the rate multiplies pgc's own step.
"""

import argparse
import json
import logging
import secrets
import sys
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp.mod import LocalDpMod
from flwr.supercore.task_identity import TaskIdentity

from pgc.config import TrainConfig
from pgc.engines.evaluation import greedy_scores
from pgc.randomise.report import draw_report
from pgc.service.model import Model
from pgc.wire import Offer, Report

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "flower" / "app"))
from worlds import player

REPORTS = 100
STEP = 0.11552928931500243
"""The step of pgc's default at ε = 1."""
ROWS = (
    ("pgc", 1.0), ("basis 1", 1.0), ("basis 1", 0.4), ("basis 1", 0.15),
    ("basis 2", 0.4), ("basis 2", 0.15), ("full 1", 1.0),
)  # fmt: skip


def through_mod(step, sensitivity):
    """What the mod makes of a node that moved θ by −step."""
    before = np.zeros(step.shape, np.float32)

    def app(message, context):
        after = ArrayRecord({"theta": Array((before - step).astype(np.float32))})
        return Message(RecordDict({"arrays": after}), reply_to=message)

    asked = Message(RecordDict({"arrays": ArrayRecord({"theta": Array(before)})}), 1, "train")
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    answer = LocalDpMod(1.0, sensitivity, 1.0, 1e-5)(asked, context, app)
    return -answer.content["arrays"]["theta"].numpy()


def estimate(how, offer, z, won):
    """What the aggregator gets from one node."""
    if how == "pgc":
        return Report.decode(draw_report(offer, z, won), offer).vector(offer)
    space, sensitivity = how.split()
    step = z if space == "basis" else offer.basis @ z
    step = through_mod(step / max(np.linalg.norm(step), 1e-12), float(sensitivity))
    return offer.basis @ step if space == "basis" else step


def trial(how, model, players):
    """Mean score of the averaged policy after all reports."""
    for n in range(REPORTS):
        template = model.as_published(model.state).template
        offer = Offer.decode(template.renumbered(secrets.randbits(64), 0))
        z, won = players[n % len(players)].play(offer)
        model.accept([estimate(how, offer, z, won)], [offer.policy_version])
    average = np.asarray(model.state.average)[None]
    psis = model.training.population.grid()
    return float(greedy_scores(model.training, average, psis, episodes=100, seed=1).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trials", type=int)
    trials = parser.parse_args().trials
    logging.getLogger("flwr").setLevel(logging.ERROR)
    # a message names the task that it is of, which only a SuperLink would set
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    players = [player(home) for home in range(3)]
    for how, rate in ROWS:
        begun = time.monotonic()
        # `full` and `pgc` at their own step; others at a share of it
        config = TrainConfig(epsilon=1.0, submissions=REPORTS, seed=0, learning_rate=rate * STEP)
        model = Model("m", config)
        first, scores = model.state, []
        for _ in range(trials):
            model.state = first
            scores.append(trial(how, model, players))
        row = {
            "how": how,
            "rate": rate,
            "averaged": round(float(np.mean(scores)), 1),
            "deviation": round(float(np.std(scores)), 1),
        }
        row |= {
            "solved": sum(score >= 195 for score in scores),
            "trials": trials,
            "seconds": round(time.monotonic() - begun),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
