# SPDX-License-Identifier: BSD-2-Clause
"""What happens at a point: marks, counters, memory, steps, start and stop."""
import threading

from ._library import encode, functions


def mark(name):
    """Something happened."""
    functions.mark(encode(name))


def counter(name, value):
    """What a value is from now on: a loss, a learning rate, a queue's length."""
    functions.counter(encode(name), value)


def counter_add(name, delta=1):
    """Adds to a counter: samples, tokens, bytes."""
    functions.counter_add(encode(name), delta)


def flops(count):
    """Floating-point operations that the current range does; a multiply-add is 2."""
    functions.flops(int(count))


class memory:  # pylint: disable=invalid-name
    """Blocks of an allocator that the tracer does not know. `pointer`: an address, or any number
    that distinguishes the blocks held at the same time."""

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
    """`with perfx.step():` around each step of the training; or `perfx.step()` alone at the same
    place in each round, which ends the step before and begins the next."""
    if boundary.last:
        boundary.last.end()
    boundary.last = Step()
    return boundary.last


def start():
    """From here on a tracer records that waits for it."""
    functions.trace_start()


def stop():
    functions.trace_stop()
