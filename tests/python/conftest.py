# SPDX-License-Identifier: BSD-2-Clause
"""The Python package without a tracer: its calls of libperfx, and its results from a report."""
import sys
import threading

import pytest
from project import TOP

sys.path.insert(0, str(TOP / "python"))

import perfx  # noqa: E402  pylint: disable=wrong-import-position
from perfx import _library  # noqa: E402  pylint: disable=wrong-import-position


class Listener:
    """Replaces libperfx's functions and acts as a tracer: keeps a stack for each thread and the ranges
    with an id, and gives the nesting as "outer/inner"."""

    def __init__(self):
        self.events = []  # (what, arguments…)
        self.paths = []  # of ranges, in the order in which they began
        self.stacks = {}
        self.opened = {}

    def path(self, name, parent):
        stack = self.stacks.setdefault(threading.get_ident(), [])
        outer = self.opened[parent] if parent else stack[-1] if stack else ""
        self.paths.append((outer + "/" if outer else "") + name.decode())
        return self.paths[-1]

    def range_push_in(self, name, parent):
        path = self.path(name, parent)
        self.stacks[threading.get_ident()].append(path)

    def range_pop(self):
        self.stacks[threading.get_ident()].pop()

    def range_start_in(self, name, parent):
        number = len(self.paths) + 1000
        self.opened[number] = self.path(name, parent)
        return number

    def range_end(self, number):
        del self.opened[number]

    def is_balanced(self):
        return not self.opened and not any(self.stacks.values())


@pytest.fixture
def heard(monkeypatch):
    listener = Listener()
    for name, _, _ in _library.FUNCTIONS:
        hear = getattr(listener, name, None)
        if not hear:
            def hear(*arguments, what=name):
                listener.events.append((what, *arguments))
        monkeypatch.setattr(_library.functions, name, hear)
    yield listener
    assert listener.is_balanced(), (listener.stacks, listener.opened)
    assert perfx._ranges.within.get() == 0
