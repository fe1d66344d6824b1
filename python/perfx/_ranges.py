# SPDX-License-Identifier: BSD-2-Clause
"""Ranges.

What runs to its end on one thread is a range of that thread's stack (push, pop): whatever the
thread does meanwhile is inside it. A coroutine is put aside at each await, and others run on its
thread, so what it holds open is a range with an id (start, end), of which the tracer cannot know
by the thread what is inside. Therefore each range says to which other it belongs: `within` is the
id of the innermost open range of this task, 0 when that is on the thread's stack (or there is
none). It is a context variable: tasks, and threads that get a copy of a context, keep their own.
"""
import contextvars
import inspect
import sys

from ._library import encode, functions

within = contextvars.ContextVar("perfx_within", default=0)

COROUTINE = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE
GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def push(name):
    """Returns what pop wants."""
    outer = within.get()
    functions.range_push_in(name, outer)
    if outer:
        within.set(0)
    return outer


def pop(outer):
    if outer:
        within.set(outer)
    functions.range_pop()


def start(name):
    """Returns what end wants."""
    outer = within.get()
    number = functions.range_start_in(name, outer)
    within.set(number)
    return number, outer


def end(opened):
    number, outer = opened
    # a coroutine that is closed by the garbage collector is so in the context of another
    if within.get() == number:
        within.set(outer)
    functions.range_end(number)


def holder(frame):
    """The frame whose block a range lasts for: seen through contextlib, whose context managers are
    generators and whose ExitStack enters them for others."""
    while frame.f_back:
        back = frame.f_back
        if frame.f_globals.get("__name__") == "contextlib":
            frame = back
        elif frame.f_code.co_flags & GENERATOR and back.f_globals.get("__name__") == "contextlib":
            frame = back
        else:
            break
    return frame


class scope:  # pylint: disable=invalid-name
    """`with perfx.scope("load"):` names what is inside. In coroutines, too."""

    __slots__ = ("_name", "_open")

    def __init__(self, name):
        self._name = encode(name)
        self._open = []  # one for each entry: the same object may be entered again

    def __enter__(self):
        flags = holder(sys._getframe(1)).f_code.co_flags
        if flags & COROUTINE:
            self._open.append((end, start(self._name)))
        elif flags & GENERATOR:
            # its caller runs in the same context: what is set there would be the caller's, too
            self._open.append((functions.range_end,
                               functions.range_start_in(self._name, within.get())))
        else:
            self._open.append((pop, push(self._name)))
        return self

    def __exit__(self, *_error):
        close, opened = self._open.pop()
        close(opened)
        return False
