"""Flags that several commands have, each with the one text that explains it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

Json = Annotated[bool, arg(help="Print the result as JSON and nothing else.")]
Out = Annotated[Path | None, arg(help="Folder for the results; by default a new one under runs/.")]
Engine = Annotated[
    Literal["local", "ray"],
    arg(help="Who plays: this machine, or a Ray cluster (pgc[ray]). Never changes a result."),
]
Address = Annotated[
    str | None,
    arg(
        help=(
            "Of a Ray cluster that is running, HOST:PORT or auto; by default one is started on "
            "this machine."
        )
    ),
]
ResumeStudy = Annotated[
    Path | None,
    arg(
        help=(
            "Continue this folder from its checkpoint, to the same result; a complete one gets its "
            "report written anew."
        )
    ),
]
Store = Annotated[
    str | None,
    arg(
        help="Another store than the folder's: postgresql://USER@HOST/DATABASE, for several front "
        "ends. Also from $PGC_STORE, which other users of the machine cannot read."
    ),
]
OwnMechanism = Annotated[
    str | None,
    arg(help="Also know this mechanism of your own, MODULE:CLASS, that offers may ask for."),
]
WHO_PLAYS = ("--engine", "--address")
