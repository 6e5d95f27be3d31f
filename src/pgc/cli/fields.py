"""Flags that several commands have, each with the one text that explains it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

Json = Annotated[bool, arg(help="Print the result as JSON and nothing else.")]
RunCode = Annotated[
    bool,
    arg(
        help=(
            "Run the code that the folder's files name (MODULE:NAME). Only for what you trust: it "
            "can do anything that you can."
        )
    ),
]
DrawnAs = Annotated[
    Literal["screen", "paper"],
    arg(
        help="How figures are drawn. screen: PNG. paper: PDF, at the width of a column of a paper."
    ),
]
Out = Annotated[Path | None, arg(help="Folder for the results; by default a new one under runs/.")]
Engine = Annotated[
    Literal["local", "ray"],
    arg(help="Where episodes are played; ray is a Ray cluster (pgc[ray]). Never changes a result."),
]
Address = Annotated[
    str | None,
    arg(
        help=(
            "The address of a running Ray cluster, HOST:PORT or auto; by default one is started "
            "on this machine."
        )
    ),
]
ResumeStudy = Annotated[
    Path | None,
    arg(
        help=(
            "Continue this folder from its checkpoint, to the same result. If it is complete, its "
            "report is written again."
        )
    ),
]
StoreUrl = Annotated[
    str | None,
    arg(
        help="A store other than the folder's: postgresql://USER@HOST/DATABASE, for several front "
        "ends. It can be given as $PGC_STORE, which other users of the machine cannot read, or in "
        "a file that $PGC_STORE_FILE names."
    ),
]
OwnMechanism = Annotated[
    str | None,
    arg(help="A mechanism of your own, MODULE:CLASS, that offers may ask for as well."),
]
WHO_PLAYS = ("--engine", "--address")
