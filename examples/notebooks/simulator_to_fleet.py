# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # From a public simulator to a private fleet
#
# Somebody who runs a fleet usually has a simulator of the *usual* home. Train there in public, at no cost in ε; then let the fleet teach what differs
# from home to home. docs/simulator-to-fleet.md does the same with the commands of a real service.

# %%
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

import pgc

folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## 1. In public
#
# The simulator is nobody's data. `public=True` says so, and `privacy.json` of whatever starts from it repeats it.

# %%
public = pgc.train(
    world="mountain-car",
    public=True,
    epsilon=np.inf,
    submissions=200,
    seed=1,
    population=("gravity=0.0025",),
    out=folder / "public",
)
print("in the usual home:", public.summary["averaged_score_mean"])

# %% [markdown]
# ## 2. What would privacy cost?
#
# Homes that you make up differ in how strong gravity is. Private learning starts from the public policy.

# %%
private = pgc.train(
    world="mountain-car",
    start=public.path,
    epsilon=2.0,
    submissions=300,
    seed=2,
    population=("gravity=0.002:0.003",),
    out=folder / "private",
)
print("start:", private.privacy["start"])
print("averaged policy in all homes:", private.summary["averaged_score_mean"])

# %% [markdown]
# ## 3. A service, and a small fleet
#
# The same config starts a service. Each simulated device has a home, a ledger and a token of its own. A ledger is charged before anything private is
# touched, and the noise comes from the operating system, not from a seed.


# %%
def pgc_command(*words):
    """Run a command of pgc, and return what it prints."""
    command = [sys.executable, "-m", "pgc.cli", *map(str, words)]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
serve = [
    sys.executable,
    "-m",
    "pgc.cli",
    "serve",
    "service",
    "--config",
    "private/config.yaml",
    "--port",
    str(port),
]
service = subprocess.Popen(serve, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def status():
    """Return what the service tells everyone, or None while it starts."""
    try:
        return json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/status"))
    except OSError:
        return None


while status() is None and service.poll() is None:
    time.sleep(0.2)

# %%
(folder / "tokens.txt").write_text(pgc_command("tokens", "issue", "service", "--count", 40))
home = ("--world", "mountain-car", "--limit", 2, "--new-ledger")
print(pgc_command("join", f"http://127.0.0.1:{port}", "--tokens", "tokens.txt", *home))
status()

# %% [markdown]
# What exactly left a device is a file that can be read in words, and so is its ledger.

# %%
ledger = sorted((folder / "ledgers").iterdir())[0]
print(pgc_command("inspect", ledger))

# %% [markdown]
# Anybody may take the policy, and it acts at once.

# %%
policy_file = folder / "policy.safetensors"
policy_file.write_bytes(
    urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models/default/policy").read()
)
pgc.load(policy_file).act([-0.5, 0.0])

# %%
service.terminate()
service.wait()
