"""Real Ray nodes on loopback, two at work at a time: `python -m tests.engines.ray_cluster FOLDER` prints what happened."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

from tests.waiting import wait_for

SLOW = dict(
    world="tests.local_training.worlds.environments:Walk",
    max_steps=30, submissions=150, workers=8, local_episodes=4, eval_episodes=4,
    population=("pause=0.001", "mass=1,2,3"),
)  # fmt: skip
COMPILED = dict(submissions=600, trials=70, eval_episodes=3)
NODE = dict(num_cpus=1, object_store_memory=100 * 2**20, node_ip_address="127.0.0.1")


def stay_on_loopback() -> None:
    """Ray asks cloud providers for a bootstrap unless there is one, and listens everywhere unless there is no cluster."""
    home = Path(tempfile.mkdtemp())
    (home / "ray_bootstrap_config.yaml").write_text("{}")
    os.environ.update(
        HOME=str(home), RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0"
    )


def when_begun(path: Path, then) -> threading.Thread:
    """Do something once a run has written its first rows."""

    def wait() -> None:
        wait_for(lambda: list(path.glob("metrics/*.parquet")), f"the first rows in {path}")
        then()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def same(one, other) -> bool:
    return all(
        np.array_equal(a, b, equal_nan=True)
        for a, b in (
            (one.policies()["theta"], other.policies()["theta"]),
            (one.scores(), other.scores()),
        )
    )


def main(folder: Path) -> dict[str, object]:
    stay_on_loopback()
    from ray.cluster_utils import Cluster

    import pgc
    from pgc.config import configure
    from pgc.engines import ray_crew
    from pgc.engines.backend import Backend
    from pgc.runs import sweep
    from pgc.runs.folder import Folder

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    second = cluster.add_node(**NODE)
    cluster.wait_for_nodes()

    def lose() -> None:
        cluster.remove_node(second, allow_graceful=False)

    on_ray = dict(engine="ray", address=cluster.address, checkpoint_seconds=0.3)
    lost: list[int] = []
    close = ray_crew.RayCrew.close

    def closing(crew) -> None:
        lost.append(crew.replaced)
        close(crew)

    ray_crew.RayCrew.close = closing
    said: dict[str, object] = {}

    # A node is killed while it plays a slow environment; then another one joins.
    here = when_begun(folder / "slow", lose)
    slow = pgc.train(out=folder / "slow", **on_ray, **SLOW)
    here.join()
    said["slow"] = same(slow, pgc.train(out=folder / "slow alone", processes=1, **SLOW))
    said["slow lost"] = lost[-1]
    second = cluster.add_node(**NODE)
    cluster.wait_for_nodes()

    # The driver is killed; the run is resumed on the cluster.
    command = f"import pgc; pgc.train(out={str(folder / 'killed')!r}, **{on_ray!r}, **{SLOW!r})"
    driver = subprocess.Popen(
        [sys.executable, "-c", command], env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    when_begun(folder / "killed", lambda: driver.send_signal(signal.SIGKILL)).join()
    driver.wait()
    said["killed half way"] = not (folder / "killed" / "summary.json").exists()
    said["resumed"] = same(pgc.train(resume=folder / "killed", run_code=True, **on_ray), slow)

    # Compiled trials are sharded, and a node is killed.
    here = when_begun(folder / "compiled", lose)
    compiled = pgc.train(out=folder / "compiled", **on_ray, **COMPILED)
    here.join()
    said["compiled lost"] = lost[-1]
    said["compiled"] = same(compiled, pgc.train(out=folder / "compiled alone", **COMPILED))

    # So are the cells of a sweep.
    cells = [
        sweep.Cell(
            name=name, config=configure(epsilon=e, submissions=60, trials=4, eval_episodes=3)
        )
        for name, e in (("one", 1.0), ("two", 2.0))
    ]
    outcomes = []
    for name, backend in (("here", Backend()), ("there", Backend("ray", cluster.address))):
        (folder / name).mkdir()
        outcomes.append(sweep.run(cells, Folder(folder / name), backend=backend))
    said["sweep"] = all(
        np.array_equal(
            getattr(outcomes[0][c.name], key), getattr(outcomes[1][c.name], key), equal_nan=True
        )
        for c in cells
        for key in ("fst", "curve", "final", "averaged", "steps")
    )
    with contextlib.suppress(Exception):
        cluster.shutdown()
    return said


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
