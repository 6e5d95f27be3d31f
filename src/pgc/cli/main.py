"""The command line: one sub-command a verb. `pgc --help` is the table of contents."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from pgc import __version__
from pgc.errors import Interrupted, PgcError, require

COMMANDS: dict[str, str] = {
    "train": "a policy for a population of private worlds, under ε-local differential privacy",
    "reproduce": "the paper's tables and figures, beside the paper's own numbers",
    "frontier": "mechanisms × ε: what privacy costs, and which mechanism to choose",
    "evaluate": "a saved policy, world by world; a picture or a GIF",
    "compare": "several runs on one figure",
    "inspect": "what exactly is in this offer, report, ledger or run, in words",
    "audit": "try to break a mechanism's claim: a lower bound on ε from samples; exits 1 if broken",
    "account": "what T submissions cost, basic and tight; amplification by shuffling",
    "serve": "the aggregator as a service for real devices",
    "tokens": "which devices may report to it",
    "join": "a device: world, gradient, randomiser and ledger, against a service",
    "replay": "check a service's store: θ again, from the accepted reports alone",
    "bench": "throughput beside plain PyTorch and NumPy loops, in one run",
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
    """Run one command. Errors a user can cause are one line and exit code 2."""
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
            f"unknown command '{verb}'; choose one of: {', '.join(COMMANDS)} (pgc --help)"
        )
    # `pgc train` is pgc.cli.train:train, and so on.
    code: int = getattr(require(f"pgc.cli.{verb}", "train"), verb)(given)
    return code
