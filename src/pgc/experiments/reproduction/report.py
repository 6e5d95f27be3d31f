"""report.html: one file that opens offline, figures and all."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgc.errors import require
from pgc.experiments.reproduction import paper
from pgc.experiments.reproduction.claims import WORDS
from pgc.experiments.reproduction.pictures import Files
from pgc.experiments.reproduction.plan import COLUMNS
from pgc.experiments.reproduction.readings import CHOICES, describe
from pgc.experiments.reproduction.wording import FORMS

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, summary: Mapping[str, Any], figures: Mapping[str, Files]) -> str:
    """The page."""
    jinja2 = require("jinja2", "report")
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= FORMS
    environment.globals |= FORMS
    images = {name: "data:image/png;base64," + base64.b64encode(files["png"]).decode() for name, files in figures.items()}
    by = {(c["reading"], c["mechanism"], c["epsilon"]): c for c in summary.get("cells", [])}
    known = {"paper": paper, "words": WORDS, "columns": COLUMNS, "choices": CHOICES, "describe": describe}
    page: str = environment.get_template(template).render(s=summary, by=by, images=images, **known)
    return page
