"""A public name has a docstring that says something."""

from tests.docstrings import too_short


def test_no_docstring_is_too_short():
    assert too_short() == []
