"""Names public classes and functions of `src/pgc` whose docstring says too little or is in another mood: `python -m tests.docstrings`.

A docstring has at least four words. That of a function says what it does ("Returns …"), and does not tell it to ("Return …").
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
FEWEST_WORDS = 4
IMPERATIVES = {"Return", "Collect", "Finish", "Compare"}


def too_short() -> list[str]:
    """Returns `file:line: name: docstring` of those with fewer words than `FEWEST_WORDS`."""
    return [where for where, _, words in _documented() if len(words) < FEWEST_WORDS]


def imperative() -> list[str]:
    """Returns `file:line: name: docstring` of functions that begin with a verb that elsewhere has an s."""
    functions = [
        (where, words[0])
        for where, node, words in _documented()
        if not isinstance(node, ast.ClassDef)
    ]
    firsts = {first for _, first in functions}
    return [
        where
        for where, first in functions
        if first != "A" and (f"{first}s" in firsts or first in IMPERATIVES)
    ]


def _documented() -> Iterator[tuple[str, ast.AST, list[str]]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            words = (ast.get_docstring(node) or "").split()
            if words and not node.name.startswith("_"):
                place = f"{path.relative_to(SOURCE.parent)}:{node.lineno}"
                yield f"{place}: {node.name}: {' '.join(words[:8])}", node, words


if __name__ == "__main__":
    found = [*too_short(), *imperative()]
    print("\n".join(found) or "every docstring says something")
    sys.exit(bool(found))
