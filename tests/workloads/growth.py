# SPDX-License-Identifier: BSD-2-Clause
"""growth.py MODE: memory that grows without end, or as in a healthy program. It waits for a line on
standard input, and then makes a step every 5 ms until it is killed."""
import collections
import functools
import mmap
import os
import random
import sys
import tempfile
import time


# --- without end ---

def list_of_records():
    kept = []
    return lambda n: kept.append([os.urandom(100) for _ in range(12)])


def cache_by_key():
    cache = {}
    return lambda n: cache.update({f"{n} {i}": (i, os.urandom(50)) for i in range(8)})


def cache_of_function():
    @functools.lru_cache(maxsize=None)
    def features(n):
        return [n] * 200
    return features


def arrays():
    import numpy
    kept = []
    return lambda n: kept.append(numpy.ones(300))


def losses():
    """Each loss keeps its graph, and so its batch."""
    import torch
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 64)
    kept = []
    return lambda n: kept.append(model(torch.randn(64, 16)).tanh().mean())


def strings():
    log = []
    return lambda n: log.append("x" * random.randrange(500, 2500))


# --- healthy ---

def warms_up():
    cache = {}
    return lambda n: n < 400 and cache.update({f"{n} {i}": os.urandom(50) for i in range(100)})


def clears_each_epoch():
    kept = []

    def step(n):
        kept.append([os.urandom(100) for _ in range(50)])
        if n % 200 == 199:
            kept.clear()
    return step


def replay_buffer():
    buffer = collections.deque(maxlen=400)
    return lambda n: buffer.append(os.urandom(20000))


def reads_at_the_start():
    data = []
    return lambda n: n < 300 and data.append(os.urandom(100000))


def cache_that_is_full():
    @functools.lru_cache(maxsize=300)
    def features(key):
        return [key] * 1000
    return lambda n: features(random.randrange(10000))


def maps_a_file():
    file = tempfile.TemporaryFile()
    file.truncate(1 << 28)
    pages = mmap.mmap(file.fileno(), 1 << 28)

    def step(n):
        for i in range(4):
            pages[(n * 4 + i) % (1 << 16) << 12] = 1
    return step


def buffers_of_any_size():
    return lambda n: [bytes(random.randrange(1000, 100000)) for _ in range(20)]


def main():
    step = globals()[sys.argv[1]]()
    for n in range(20):
        step(n)
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    n = 0
    while True:
        step(n)
        n += 1
        time.sleep(0.005)


main()
