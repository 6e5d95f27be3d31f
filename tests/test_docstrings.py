"""A public name has a docstring that says something."""

from tests.docstrings import imperative, too_short


def test_no_docstring_is_too_short():
    assert too_short() == []


def test_docstrings_of_functions_say_what_they_do():
    assert imperative() == []
