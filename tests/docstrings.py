"""Names the public classes and functions of `src/pgc` whose docstring has fewer than four words: `python -m tests.docstrings`."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
FEWEST_WORDS = 4


def too_short() -> list[str]:
    """Returns `file:line: name: docstring` for each of them."""
    return [line for path in sorted(SOURCE.rglob("*.py")) for line in _in_file(path)]


def _in_file(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and not node.name.startswith("_"):
            words = (ast.get_docstring(node) or "").split()
            if words and len(words) < FEWEST_WORDS:
                yield f"{path.relative_to(SOURCE.parent)}:{node.lineno}: {node.name}: {' '.join(words)}"


if __name__ == "__main__":
    found = too_short()
    print("\n".join(found) or "every docstring says something")
    sys.exit(bool(found))
