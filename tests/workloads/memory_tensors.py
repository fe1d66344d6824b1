#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tensors, or NumPy arrays, of known bytes: memory.h's protocol and expectations, of the domain
"tensor". Each run keeps some, drops others at once, and holds the most in the middle.

    memory_tensors.py torch|numpy
"""

import os
import sys

KEPT, KEPT_FLOATS = 10, 1000
DROPPED, DROPPED_FLOATS = 100, 250_000
PEAK, PEAK_FLOATS = 8, 1 << 20


class Book:
    """The expected allocations."""

    def __init__(self):
        self.values = dict.fromkeys(("allocs", "frees", "unknown_frees", "allocated_bytes",
                                     "current_bytes", "peak_bytes"), 0)

    def took(self, floats):
        v = self.values
        v["allocs"] += 1
        v["allocated_bytes"] += 4 * floats
        v["current_bytes"] += 4 * floats
        v["peak_bytes"] = max(v["peak_bytes"], v["current_bytes"])

    def gave(self, floats):
        self.values["frees"] += 1
        self.values["current_bytes"] -= 4 * floats


def say(line):
    print(line, flush=True)


def make_with(what):
    """A function that makes an array of n floats, and one that adds two arrays."""
    if what == "torch":
        import torch  # pylint: disable=import-outside-toplevel
        torch.set_num_threads(1)
        return (lambda floats: torch.empty(floats, dtype=torch.float32)), torch.add
    import numpy  # pylint: disable=import-outside-toplevel
    return (lambda floats: numpy.empty(floats, dtype=numpy.float32)), numpy.add


def keep(make, book, kept):
    for _ in range(KEPT):
        kept.append(make(KEPT_FLOATS))
        book.took(KEPT_FLOATS)


def drop(make, book):
    for _ in range(DROPPED):
        make(DROPPED_FLOATS)
        book.took(DROPPED_FLOATS)
        book.gave(DROPPED_FLOATS)


def hold(make, add, book):
    """Views share their tensor's bytes; a sum has its own."""
    held = [make(PEAK_FLOATS) for _ in range(PEAK)]
    views = [one[:10] for one in held]
    total = add(held[0], held[1])
    for _ in range(PEAK + 1):
        book.took(PEAK_FLOATS)
    del total, held  # all but views' own objects
    book.gave(PEAK_FLOATS)
    del views
    for _ in range(PEAK):
        book.gave(PEAK_FLOATS)


def main():
    make, add = make_with(sys.argv[1])
    kept, book = [], Book()
    # the machinery of the first call is none of the program's
    add(make(10), make(10))
    say(f"ready {os.getpid()}")
    for line in sys.stdin:
        if line == "go\n":
            keep(make, book, kept)
            drop(make, book)
            hold(make, add, book)
            say("done")
    for key, value in book.values.items():
        say(f"expect tensor {key} {value}")


if __name__ == "__main__":
    main()
