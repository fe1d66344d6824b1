#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Locks of Python: `stuck_gil.py mutex|lock`. mutex: one thread has a pthread mutex and wants the GIL, the other one
has the GIL and wants the mutex, as with an extension that calls back while it holds its lock. lock: a threading.Lock,
an Event, a Queue and a join that nobody ends. Prints "expect FUNCTION tid TID", then "ready PID"."""
import ctypes
import os
import queue
import sys
import threading
import time

mutex = ctypes.create_string_buffer(64)  # zeros: PTHREAD_MUTEX_INITIALIZER
with_gil = ctypes.PyDLL(None)
without_gil = ctypes.CDLL(None)


def say(line):
    os.write(1, f"{line}\n".encode())  # whole lines, from several threads


def expect(function):
    say(f"expect {function} tid {threading.get_native_id()}")


def hold_mutex(taken):
    without_gil.pthread_mutex_lock(mutex)
    expect("hold_mutex")
    taken.set()
    while True:  # wants the GIL again after each sleep
        time.sleep(0.05)


def want_mutex(taken):
    taken.wait()
    expect("want_mutex")
    say(f"ready {os.getpid()}")
    with_gil.pthread_mutex_lock(mutex)


def want_lock(lock):
    expect("want_lock")
    lock.acquire()


def want_event(event):
    expect("want_event")
    event.wait()


def want_item(items):
    expect("want_item")
    items.get()


def want_end(thread):
    expect("want_end")
    thread.join()


def start(function, argument):
    thread = threading.Thread(target=function, args=(argument,), daemon=True)
    thread.start()
    return thread


def main():
    if sys.argv[1] == "mutex":
        taken = threading.Event()
        start(hold_mutex, taken)
        start(want_mutex, taken)
    else:
        lock = threading.Lock()
        lock.acquire()
        blocked = start(want_lock, lock)
        start(want_event, threading.Event())
        start(want_item, queue.Queue())
        start(want_end, blocked)
        time.sleep(0.05)
        say(f"ready {os.getpid()}")
    sys.stdin.read()


main()
