#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Jitted functions whose operations are known: JAX prints the compiled modules itself, and what they
multiply is written here. Commands on standard input, each answered by "done":

    run N      every function N times, for all its shapes
    new N      products of shapes that nothing has been compiled for yet, N times
    move N     an array to the device and one from it, N times
    loop N     a loop of seven products, N times
    large N    a product so large that XLA divides it among threads, N times
    threads N  N times on each of three threads at once
    hlo 0      one JSON line: [[module, text of the compiled module], …], one for each call of a round
"""

import json
import os
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@jax.jit
def multiply(a, b, c):
    return jnp.tanh(a @ b) @ c


@jax.jit
def attend(q, k, v):
    return jax.nn.softmax(jnp.einsum("bhid,bhjd->bhij", q, k)) @ v


@jax.jit
def integers(a, b):
    return a.T @ b


@jax.jit
def convolve(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME")


@jax.jit
def convolve_groups(x, w):
    return lax.conv_general_dilated(x, w, (2, 1), "VALID", feature_group_count=2,
                                    rhs_dilation=(2, 1))


@jax.jit
def nested(a, b):
    return integers(a, b).sum() + multiply(*SMALL)[0, 0]


@jax.jit
def loop(a, b):
    return lax.scan(lambda x, _: (jnp.tanh(x @ b), None), a, None, length=7)[0]


@jax.jit
def large(a, b):
    return a.T @ b


def array(*shape, dtype=jnp.float32):
    return jnp.ones(shape, dtype)


def chain(m, k, n, p):
    return array(m, k), array(k, n), array(n, p)


SMALL = chain(32, 64, 48, 16)
INTEGERS = array(100, 200, dtype=jnp.int32), array(100, 50, dtype=jnp.int32)
HEADS = tuple(array(2, 3, 40, 20) for _ in range(3))

ROUND = [
    (multiply, SMALL),
    (multiply, chain(320, 640, 480, 160)),
    (attend, HEADS),
    (integers, INTEGERS),
    (convolve, (array(2, 3, 32, 30), array(8, 3, 3, 5))),
    (convolve_groups, (array(2, 4, 32, 30), array(8, 2, 3, 5))),
    (nested, INTEGERS),
]


def run(calls, times):
    for _ in range(times):
        for function, args in calls:
            function(*args).block_until_ready()


def run_threads(times):
    threads = [threading.Thread(target=run, args=(ROUND, times)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


HERE = np.ones((64, 64), np.float32)
THERE = [array(16, 16 + i) for i in range(100)]


def move(times):
    """An array caches its value once it has been read."""
    for i in range(times):
        jax.device_put(HERE).block_until_ready()
        np.asarray(THERE.pop(i % len(THERE)))


def hlo(_):
    found = [["jit_" + f.__name__, f.lower(*args).compile().as_text()] for f, args in ROUND]
    print(json.dumps(found), flush=True)


NEW = [(multiply, chain(m, 40, 30, 20)) for m in (11, 12, 13)]

LARGE = [(large, (array(1200, 1200), array(1200, 1200)))]

LOOP = [(loop, (array(40, 30), array(30, 30)))]

COMMANDS = {
    "run": lambda times: run(ROUND, times),
    "new": lambda times: run(NEW, times),
    "move": move,
    "loop": lambda times: run(LOOP, times),
    "large": lambda times: run(LARGE, times),
    "threads": run_threads,
    "hlo": hlo,
}

for call in NEW:
    jax.block_until_ready(call[1])
run(ROUND + LOOP + LARGE, 1)
print(f"ready {os.getpid()}", flush=True)
for line in sys.stdin:
    word, number = line.split()
    COMMANDS[word](int(number))
    print("done", flush=True)
