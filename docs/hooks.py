"""What the site has beside the pages in this folder: pages made from the code, and llms.txt."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\(\.\./examples/(\w+)\.(py|ipynb)\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made from the code."""
    for name, text in {
        "command-line.md": command_line(),
        "examples.md": examples(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    }.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Points links to examples, which lie outside this folder, at the page that shows them."""
    return OUTSIDE.sub(lambda found: f"](examples.md#{found[1].replace('_', '-')})", markdown)


def on_post_build(config: Any) -> None:
    """Writes llms.txt: what each page is about, and its text in one file beside it."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for entry in config.nav:
        for title, inside in entry.items():
            pages = [{title: inside}] if isinstance(inside, str) else inside
            lines += [f"## {title}", ""]
            lines += [f"- [{name}]({page})" for one in pages for name, page in one.items()]
            lines.append("")
    site = Path(config.site_dir)
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    for page in Path(config.docs_dir).glob("*.md"):
        (site / page.name).write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    for name, made in {"command-line.md": command_line(), "examples.md": examples()}.items():
        (site / name).write_text(made, encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (site / "changelog.md").write_text(changes, encoding="utf-8")


def command_line() -> str:
    """Returns a page with the help of every command."""
    from pgc.cli.main import COMMANDS, main

    parts = ["# Command line", "", "`pgc COMMAND --help` prints the flags that are used most."]
    for verb, summary in COMMANDS.items():
        said = io.StringIO()
        with redirect_stdout(said):
            try:
                main([verb, "--help-all"])
            except SystemExit:
                pass
        parts += ["", f"## pgc {verb}", "", f"To {summary}.", "", "```text", said.getvalue(), "```"]
    return "\n".join(parts)


def examples() -> str:
    """Returns a page with the source of every example."""
    parts = ["# Examples", "", "They lie in the folder `examples` of the repository."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        name = path.stem.replace("_", "-")
        source = path.read_text(encoding="utf-8")
        parts += ["", f"## {path.name} {{ #{name} }}", "", "```python", source, "```"]
    return "\n".join(parts)
