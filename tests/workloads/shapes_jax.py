#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Products of JAX arrays that XLA leaves to its libraries: one dispatch each. The gate's "expect 0"
prints the operations of a step, worked out by hand. XLA makes code of its own, which nobody sees
into, for vectors, integers and complex numbers."""

import argparse

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

import gate  # noqa: E402


def array(*sizes, dtype=jnp.float32):
    return jnp.ones(sizes, dtype)


def multiply(x, y):
    return x @ y


def of_type(dtype):
    return multiply, array(30, 50, dtype=dtype), array(50, 40, dtype=dtype), 120000


# The kernel for what lies transposed fills the inner dimension up to a multiple of four, and does as
# much: there it is 52.
CASES = [
    *map(of_type, (jnp.float32, jnp.float64, jnp.bfloat16, jnp.float16)),
    (multiply, array(33, 47), array(47, 65), 201630),
    (multiply, array(500, 300), array(300, 700), 210000000),
    (lambda x, y: x.T @ y, array(50, 30), array(50, 40), 120000),
    (lambda x, y: x @ y.T, array(30, 52), array(40, 52), 124800),
    (multiply, array(0, 50), array(50, 40), 0),
    (multiply, array(7, 30, 50), array(7, 50, 40), 840000),
    (multiply, array(8, 128, 64), array(8, 64, 128), 16777216),
    (jnp.matmul, array(2, 7, 30, 52), array(52, 40), 1747200),
    # attention's scores of 28 by 28 tokens, 2·4 heads of 16
    (lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), array(2, 28, 4, 16), array(2, 28, 4, 16), 200704),
    # 2·5·12·12 results of 27, 8·64·32·32 of 288
    (lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"), array(2, 3, 12, 12), array(5, 3, 3, 3), 77760),
    (lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"), array(8, 32, 32, 32), array(64, 32, 3, 3),
     301989888),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    gate.add_arguments(parser)
    args = parser.parse_args()
    compiled = [(jax.jit(function), x, y) for function, x, y, _ in CASES]

    def step():
        for function, x, y in compiled:
            function(x, y).block_until_ready()
        return 0.0

    step()
    gate.Trainer(args, step, {"expect": lambda _: gate.say(str(sum(c[3] for c in CASES)))}).main()


if __name__ == "__main__":
    main()
