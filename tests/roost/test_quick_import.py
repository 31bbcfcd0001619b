"""A long import gives the event loop its turns, and leaves the interpreter as it was."""

import sys

import pytest

from roost.quick_import import polite_imports


def test_the_interpreter_switches_often_while_a_library_is_imported_and_not_afterwards() -> None:
    usual = sys.getswitchinterval()
    with polite_imports():
        assert sys.getswitchinterval() < usual / 5
    assert sys.getswitchinterval() == usual
    with pytest.raises(ImportError), polite_imports():
        raise ImportError("there is no such library")
    assert sys.getswitchinterval() == usual
