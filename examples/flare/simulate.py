"""Learns CartPole in NVIDIA FLARE's simulator, at ε = 1 a report, and scores the policy.

    python examples/flare/simulate.py FOLDER --sites 4 --reports 200

It writes what two people would: the owner's `local/privacy.json` and `local/resources.json` (`write_site`), and the job that
whoever runs the federation submits (`write_job`). The simulator gives every site the same `local` folder, and so the same
files; each site has a ledger of its own.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pgc.device.device import Device

CARD = """
import json, sys
from pgc.config import configure
from pgc.service.model import Model
json.dump(Model("flare", configure(**json.loads(sys.argv[1]))).card, sys.stdout, default=list)
"""


def write_site(local: Path, *, ledger, player="home:make", reserve=False, settings=None):
    """The owner's files: which gates every task passes, whose device answers, and that a job may bring no code."""
    local.mkdir(parents=True, exist_ok=True)
    scope = {
        "name": "pgc",
        "properties": {},
        "task_data_filters": [
            {"path": "pgc.flare.site.OfferGate", "args": {"reserve": reserve}, "direction": "in"}
        ],
        "task_result_filters": [{"path": "pgc.flare.site.ReportGate", "direction": "out"}],
    }
    device = {"ledger": ledger, "player": player, "settings": settings or {}}
    privacy = {
        "scopes": [scope],
        "default_scope": "pgc",
        "components": [{"id": "pgc_device", "path": "pgc.flare.site.SiteDevice", "args": device}],
    }
    resources = {
        "format_version": 2,
        "class_allow_list": ["pgc.flare."],
        "allow_log_streaming": False,
        "components": [],
    }
    (local / "privacy.json").write_text(json.dumps(privacy, indent=2))
    (local / "resources.json").write_text(json.dumps(resources, indent=2))


def write_job(job: Path, *, settings, reports, results, seconds=0.05):
    """The job: a workflow on the server, and on the sites an executor that the owner allows. `seconds` is how often a site asks."""
    config = job / "app" / "config"
    config.mkdir(parents=True)
    workflow = {
        "id": "offers",
        "path": "pgc.flare.workflow.OfferWorkflow",
        "args": {"settings": settings, "reports": reports, "results": str(results)},
    }
    executor = {"tasks": ["pgc"], "executor": {"path": "pgc.flare.site.AnswerOffers", "args": {}}}
    server = {
        "format_version": 2,
        "server": {"task_request_interval": seconds},
        "workflows": [workflow],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    client = {
        "format_version": 2,
        "executors": [executor],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    meta = {
        "name": "pgc",
        "resource_spec": {},
        "min_clients": 1,
        "deploy_map": {"app": ["@ALL"]},
    }
    (config / "config_fed_server.json").write_text(json.dumps(server, indent=2))
    (config / "config_fed_client.json").write_text(json.dumps(client, indent=2))
    (job / "meta.json").write_text(json.dumps(meta, indent=2))


def apart(code, *given):
    """Runs Python in a process of its own: the simulator forks, and JAX does not survive that."""
    return subprocess.run(
        [sys.executable, "-c", code, *given], check=True, capture_output=True, text=True
    ).stdout


SCORE = """
import json, sys
import pgc
from pgc.engines.evaluation import greedy_scores
from safetensors.numpy import load_file
from pgc.config import configure
from pgc.config.problem import build
training = build(configure(**json.loads(sys.argv[2]))).training
theta = load_file(sys.argv[1])["averaged"][None]
print(float(greedy_scores(training, theta, [training.world.default_psi], episodes=100, seed=0).mean()))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--reports", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    folder = args.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = {"epsilon": 1.0, "submissions": args.reports, "seed": args.seed}
    sites = [f"site-{n + 1}" for n in range(args.sites)]
    for site in sites:
        Device.create(folder / f"{site}.db", float(args.reports))
    shutil.copy(Path(__file__).with_name("home.py"), folder)
    (folder / "card.json").write_text(apart(CARD, json.dumps(settings)))
    # nobody lives in these homes, so no slots are needed
    write_site(
        folder / "work" / "local", ledger=str(folder / "{site}.db"), settings={"slot_seconds": 0}
    )
    results = folder / "policy.safetensors"
    write_job(folder / "job", settings=settings, reports=args.reports, results=results)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, str(folder))
    from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner

    begun = time.monotonic()
    code = SimulatorRunner(
        job_folder=str(folder / "job"),
        workspace=str(folder / "work"),
        clients=",".join(sites),
        n_clients=len(sites),
        threads=len(sites),
        log_config="concise",
    ).run()
    spent = [Device.open(folder / f"{site}.db").balance.spent / 10**9 for site in sites]
    score = float(apart(SCORE, str(results), json.dumps(settings))) if results.exists() else None
    done = {"status": code, "seconds": time.monotonic() - begun, "spent": spent, "score": score}
    (folder / "done.json").write_text(json.dumps(done))
    print(json.dumps(done))
    sys.stdout.flush()
    os._exit(code)  # a thread of FLARE's does not end


if __name__ == "__main__":
    main()
