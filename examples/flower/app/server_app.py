"""The aggregator: trains CartPole from reports, and writes what it learnt to its folder."""

import json
import time
from contextlib import closing
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    import numpy as np

    from pgc.config import TrainConfig
    from pgc.engines.evaluation import greedy_scores
    from pgc.flower.server import Collection
    from pgc.service.alone import Alone

    given = context.run_config
    folder = Path(given["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    config = TrainConfig(epsilon=given["epsilon"], submissions=given["reports"], seed=given["seed"])
    begun = time.monotonic()
    with closing(Alone(f"sqlite:///{folder / 'store.db'}")) as service:
        service.create("default", config)
        ready = time.monotonic()
        collection = Collection(
            service,
            "default",
            reports=given["reports"],
            reports_per_node=given["reports-per-node"],
            at_once=given["at-once"],
            patience=120.0,
        )
        counts = collection.start(grid)
        done = time.monotonic()
        service.wait_until_applied()
        model = service.model("default")
        psis = model.training.population.grid()
        thetas = np.stack([model.published.averaged, model.published.template.theta])
        scores = greedy_scores(model.training, thetas, psis, episodes=100, seed=1).mean(axis=1)
    found = {
        "counts": dict(counts),
        "reasons": dict(collection.reasons),
        "version": model.version,
        "score_averaged": round(float(scores[0]), 2),
        "score_last": round(float(scores[1]), 2),
        "seconds_setup": round(ready - begun, 1),
        "seconds_collecting": round(done - ready, 1),
    }
    (folder / "result.json").write_text(json.dumps(found))
    print(json.dumps(found))
