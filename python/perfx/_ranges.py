# SPDX-License-Identifier: BSD-2-Clause
"""Ranges.

Code that runs to its end on one thread is a range of that thread's stack (push, pop), which contains
everything that the thread does meanwhile. At each await of a coroutine, others run on its thread, so
its ranges have an id (start, end), and the thread does not tell the tracer what is inside them.
Therefore each range names its parent: `within` is the id of the innermost open range of this task,
or 0 if that is on the thread's stack or there is none. It is a context variable: each task, and each
thread with a copy of a context, has its own.
"""
import contextvars
import inspect
import sys

from ._library import encode, functions

within = contextvars.ContextVar("perfx_within", default=0)

COROUTINE = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE
GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def push(name):
    """Returns the argument of pop."""
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
    """Returns the argument of end."""
    outer = within.get()
    number = functions.range_start_in(name, outer)
    within.set(number)
    return number, outer


def end(opened):
    number, outer = opened
    # The garbage collector closes a coroutine in another context.
    if within.get() == number:
        within.set(outer)
    functions.range_end(number)


def holder(frame):
    """The frame whose block the range lasts for. Frames of contextlib are skipped: its context managers
    are generators, and its ExitStack enters them for others."""
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
    """`with perfx.scope("load"):` makes its block a range, also in coroutines."""

    __slots__ = ("_name", "_open")

    def __init__(self, name):
        self._name = encode(name)
        self._open = []  # a stack, because an object may be entered again

    def __enter__(self):
        flags = holder(sys._getframe(1)).f_code.co_flags
        if flags & COROUTINE:
            self._open.append((end, start(self._name)))
        elif flags & GENERATOR:
            # The caller shares the context, so `within` must not change.
            self._open.append((functions.range_end,
                               functions.range_start_in(self._name, within.get())))
        else:
            self._open.append((pop, push(self._name)))
        return self

    def __exit__(self, *_error):
        close, opened = self._open.pop()
        close(opened)
        return False
