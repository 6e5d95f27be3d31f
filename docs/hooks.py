"""What the site has beside the pages in this folder: pages made from the code, and llms.txt."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
WORKER = re.compile(r"https://[^\"]+/iframe-worker/shim")
OUTSIDE = re.compile(r"\]\(\.\./examples/([\w/]+)\.py\)")


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
    return OUTSIDE.sub(lambda found: f"](examples.md#{_anchor(found[1])})", markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Puts our own script in the place of one that would be loaded from elsewhere."""
    return WORKER.sub("../" * page.url.count("/") + "file-search.js", output)


def on_post_template(output_content: str, **_: Any) -> str:
    """Does the same in pages that are not made from Markdown (404.html, which only a server shows,
    at any path: there is no script in the place of ours, and none is needed).
    """
    return WORKER.sub("", output_content)


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
    for verb in COMMANDS:
        said = io.StringIO()
        with redirect_stdout(said), suppress(SystemExit):
            main([verb, "--help-all"])
        parts += ["", f"## pgc {verb}", "", *_as_list(said.getvalue().splitlines())]
    return "\n".join(parts)


def _as_list(lines: list[str]) -> list[str]:
    """Returns the lines of a command's help as a list of flags, each with its text."""
    made: list[str] = []
    for line in lines:
        words = line.strip()
        if line.startswith(" " * 6) and made[-1].startswith(":"):
            made[-1] += f" {words}"
        elif line.startswith(" " * 6):
            made.append(f":   {words}")
        elif line.startswith("  "):
            made += ["", f"`{words}`"]
        elif line.startswith("usage:"):
            made += [f"`{words.removeprefix('usage: ')}`", ""]
        elif words and len(words) < 60 and not words.endswith((".", ":")):  # the title of a group
            made += ["", f"**{words}**"]
        else:
            made.append(words)
    return made


def examples() -> str:
    """Returns a page with the source of every example."""
    parts = ["# Examples", "", "They lie in the folder `examples` of the repository."]
    folder = ROOT / "examples"
    for path in [*sorted(folder.glob("*.py")), *sorted(folder.glob("*/*.py"))]:
        name = str(path.relative_to(folder))
        title = f"## {name} {{ #{_anchor(name.removesuffix('.py'))} }}"
        parts += ["", title, "", "```python", path.read_text(encoding="utf-8"), "```"]
    return "\n".join(parts)


def _anchor(name: str) -> str:
    return name.replace("/", "-").replace("_", "-")
