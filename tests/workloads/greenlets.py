# SPDX-License-Identifier: BSD-2-Clause
"""Greenlets of one thread that switch to each other at each level of what they call, each on a C stack of its own
that is copied away and back; the innermost function of each allocates known bytes.

    program → "ready PID"
    test    → "go", any number of times → "done": each greenlet has allocated TURNS times
"""
import ctypes
import os
import sys

from greenlet import getcurrent, greenlet

TURNS = 50

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def turn():
    """The other greenlet's turn."""
    getcurrent().next.switch()


def red(depth):
    turn()
    if depth:
        return red(depth - 1)
    libc.free(libc.malloc(100003))  # red
    return turn()


def blue_key(value):
    turn()
    libc.free(libc.malloc(200003))  # blue
    turn()
    return value


def blue(_):
    sorted([1], key=blue_key)  # through C


def repeated(function, argument):
    for _ in range(TURNS):
        function(argument)


def go():
    one, other = greenlet(lambda: repeated(red, 5)), greenlet(lambda: repeated(blue, 0))
    one.next, other.next = other, one
    while not (one.dead and other.dead):  # a switch to a dead greenlet returns here
        one.switch()
        other.switch()


def main():
    go()
    print("ready", os.getpid(), flush=True)
    for _ in sys.stdin:
        go()
        print("done", flush=True)


main()
