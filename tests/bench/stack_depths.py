# SPDX-License-Identifier: BSD-2-Clause
"""Allocates below a given number of Python functions: bytes, or tensors in a module of PyTorch. The
protocol is that of stack_depths.cc."""

import os
import statistics
import sys
import time

WINDOW_NS = 2_000_000
BATCH = 16


def windows(allocate, ms):
    """ns of the thread's CPU time per allocation: median of windows."""
    found = []
    end = time.monotonic_ns() + ms * 1_000_000
    while time.monotonic_ns() < end:
        start = now = time.thread_time_ns()
        count = 0
        while now - start < WINDOW_NS:
            for _ in range(BATCH):
                allocate()
            count += BATCH
            now = time.thread_time_ns()
        found.append((now - start) / count)
    return statistics.median(found)


def down(depth, work):
    return down(depth - 1, work) if depth else work()


def of_bytes():
    size = 2000  # beyond Python's own allocator
    return lambda: bytes(size)


def of_tensors():
    import torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    layers = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Sequential(torch.nn.ReLU())))
    x = torch.zeros(64)
    return lambda: layers(x)


def main():
    allocate = {"bytes": of_bytes, "tensors": of_tensors}[sys.argv[1]]()
    print("ready", os.getpid(), flush=True)
    for line in sys.stdin:
        _, depth, ms = line.split()
        ns = down(int(depth), lambda ms=int(ms): windows(allocate, ms))
        print("done", ns, flush=True)


main()
