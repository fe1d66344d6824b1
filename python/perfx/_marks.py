# SPDX-License-Identifier: BSD-2-Clause
"""Annotations without a duration: events, counters, memory blocks, steps, start and stop."""
import threading

from ._library import encode, functions


def mark(name):
    """An event without a duration."""
    functions.mark(encode(name))


def counter(name, value):
    """Sets a value: a loss, a learning rate, a queue's length."""
    functions.counter(encode(name), value)


def counter_add(name, delta=1):
    """Adds to a value: samples, tokens, bytes."""
    functions.counter_add(encode(name), delta)


def flops(count):
    """Adds floating-point operations to the current range; a multiply-add is 2."""
    functions.flops(int(count))


class memory:  # pylint: disable=invalid-name
    """Blocks of your own allocator. `pointer` is an address, or any number that is unique among the
    live blocks."""

    @staticmethod
    def alloc(name, pointer, nbytes):
        functions.memory_alloc(encode(name), pointer, nbytes)

    @staticmethod
    def free(name, pointer):
        functions.memory_free(encode(name), pointer)


class Step:
    """A step that has begun."""

    def __init__(self):
        self._ended = False
        functions.step_begin()

    def end(self):
        if not self._ended:
            self._ended = True
            functions.step_end()

    def __enter__(self):
        if boundary.last is self:
            boundary.last = None
        return self

    def __exit__(self, *_error):
        self.end()
        return False


class Boundary(threading.local):
    last = None


boundary = Boundary()


def step():
    """A training step: `with perfx.step():` around it; or `perfx.step()` alone at the same place of
    each iteration, which ends one step and begins the next."""
    if boundary.last:
        boundary.last.end()
    boundary.last = Step()
    return boundary.last


def start():
    """Starts the recording of a tracer with --wait."""
    functions.trace_start()


def stop():
    """Stops the recording of a tracer with --wait."""
    functions.trace_stop()
