"""The command line. `pgc --help` lists its commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from pgc import __version__
from pgc.errors import Interrupted, PgcError, did_you_mean, require

COMMANDS: dict[str, str] = {
    "train": "train a policy for a population of private worlds under ε-local differential privacy",
    "pretrain": "train in a public simulator first: a start, and few directions to report in",
    "reproduce": "rebuild the paper's tables and figures, beside the paper's own numbers",
    "frontier": "compare mechanisms over ε: what privacy costs, and which mechanism to choose",
    "evaluate": "score a saved policy, world by world, with a picture or a GIF",
    "compare": "put several runs on one figure, and say in which settings they differ",
    "export": "take a learnt policy to PyTorch, ONNX, or a folder for a model hub",
    "inspect": "say in words what exactly is in an offer, a report, a ledger or a run",
    "attack": "rob simulated homes of their secrets, and see what is found at which ε",
    "audit": "try to break a mechanism's claim: lower bounds on ε; exits 1 unless all pass",
    "account": "compute what T submissions cost together, and amplification by shuffling",
    "serve": "run the aggregator as a service for real devices",
    "tokens": "issue, revoke or count the tokens with which devices may report to a service",
    "provision": "give a device its one ledger: the ε of everything it will ever send",
    "slot": "measure how long a device plays, and how long its slots should be",
    "join": "run a device, with world, gradient, randomiser and ledger, against a service",
    "replay": "check a service's store by computing θ again from the accepted reports alone",
    "doctor": "say what is installed, what is missing, and the line that installs it",
    "bench": "measure throughput beside plain PyTorch and NumPy loops, in one run",
}
CONTENTS = """\
pgc: Private Gradient Collection, locally private distributed reinforcement learning

A central aggregator that nobody has to trust hands out a policy θ; each private agent plays it in
its own world, computes one gradient, randomises it on its own device so that ε-local differential
privacy holds, and sends only that; the aggregator updates θ and hands it out again.

{commands}

Each command explains itself:  pgc COMMAND --help
Start here:                    pgc train"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, and returns its exit status.

    An error that a user can cause is printed as one line, and the exit status is 2.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        lines = (f"    pgc {verb:<10} {summary}" for verb, summary in COMMANDS.items())
        print(CONTENTS.format(commands="\n".join(lines)))
        return 0
    if given[0] == "--version":
        print(f"pgc {__version__}")
        return 0
    try:
        return _run(given[0], given[1:])
    except PgcError as error:
        print(f"pgc: {error}", file=sys.stderr)
        return 2
    except Interrupted as stopped:
        print(f"pgc: {stopped}", file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        print("pgc: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(verb: str, given: list[str]) -> int:
    if verb not in COMMANDS:
        raise PgcError(
            f"unknown command '{verb}'{did_you_mean(verb, COMMANDS)}; choose one of: "
            f"{', '.join(COMMANDS)} (pgc --help)"
        )
    # `pgc train` is pgc.cli.train:train, and so on.
    code: int = getattr(require(f"pgc.cli.{verb}", "train"), verb)(given)
    return code
