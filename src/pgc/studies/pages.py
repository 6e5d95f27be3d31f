"""Reads the settings of a study's folder, and writes its figures, its numbers and its report.

The report is one page that opens offline.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from matplotlib.figure import Figure
from PIL import Image

from pgc.errors import PgcError, require
from pgc.runs.folder import Folder
from pgc.studies.wording import FORMS

Files = dict[str, bytes]
"""The files of one figure, by their type: png, svg."""
Settings = TypeVar("Settings")
SHARED = Path(__file__).parent / "templates"


def read_settings(path: Path, kind: type[Settings], command: str) -> Settings:
    """Returns the settings of a folder that `command` made."""
    try:
        return kind(**yaml.safe_load((path / "config.yaml").read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError):
        raise PgcError(
            f"{path} is not a folder that {command} made; give --resume one that it made"
        ) from None


def saved(figure: Figure, note: str) -> Files:
    """Returns a figure as PNG and SVG, with `note` written below it."""
    colour = "#b3261e" if note.startswith("QUICK") else "#777777"
    figure.text(0.995, -0.015, note, ha="right", va="top", fontsize=7.5, color=colour)
    png, small, svg = io.BytesIO(), io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=110, bbox_inches="tight")
    figure.savefig(svg, format="svg", dpi=120, bbox_inches="tight", metadata={"Date": None})
    # a third of the size, and looks the same: every colour is kept, however little of it there is
    image = Image.open(png).convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE)
    image.save(small, format="PNG", optimize=True)
    return {"png": small.getvalue(), "svg": svg.getvalue()}


def write_report(
    folder: Folder,
    template: Path,
    summary: dict[str, Any],
    figures: Mapping[str, Files],
    known: Mapping[str, Any],
) -> None:
    """Writes figures/, report.html with the figures in it, and summary.json."""
    for name, files in figures.items():
        for kind, data in files.items():
            folder.write(f"figures/{name}.{kind}", data)
    jinja2 = require("jinja2", "report")
    loader = jinja2.FileSystemLoader([template.parent, SHARED])
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= FORMS
    environment.globals |= FORMS
    images = {
        name: "data:image/png;base64," + base64.b64encode(files["png"]).decode()
        for name, files in figures.items()
    }
    page = environment.get_template(template.name).render(s=summary, images=images, **known)
    folder.write("report.html", page.encode())
    folder.write_json("summary.json", summary)
