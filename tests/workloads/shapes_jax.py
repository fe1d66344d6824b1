#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Products of JAX arrays that XLA passes to its libraries: one dispatch each. The gate's "expect 0"
prints the operations of a step, worked out by hand. For vectors, integers and complex numbers XLA
generates code of its own, whose operations are unknown."""

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


def convolve(strides, padding, **options):
    return lambda x, w: jax.lax.conv_general_dilated(x, w, strides, padding, **options)


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
    # 2·5·12·12 results of 27
    (convolve((1, 1), "SAME"), array(2, 3, 12, 12), array(5, 3, 3, 3), 77760),
    # Those that XLA gives to YNNPACK: 8·64·32·32 results of 288, 8·64·16·26 of 480, 8·64·28·29 of
    # 480, 8·64·32·30 of 240, 8·32·32·30 of 15, and 2·40·19·17 of 144
    (convolve((1, 1), "SAME"), array(8, 32, 32, 32), array(64, 32, 3, 3), 301989888),
    (convolve((2, 1), "VALID"), array(8, 32, 33, 30), array(64, 32, 3, 5), 204472320),
    (convolve((1, 1), [(0, 0), (1, 2)], rhs_dilation=(2, 1)), array(8, 32, 32, 30),
     array(64, 32, 3, 5), 399114240),
    (convolve((1, 1), "SAME", feature_group_count=2), array(8, 32, 32, 30), array(64, 16, 3, 5),
     235929600),
    (convolve((1, 1), "SAME", feature_group_count=32), array(8, 32, 32, 30), array(32, 1, 3, 5),
     7372800),
    (convolve((1, 1), "VALID"), array(2, 16, 21, 19, dtype=jnp.float64),
     array(40, 16, 3, 3, dtype=jnp.float64), 7441920),
    # those that it does not: 8·32·16·14 elements, each of which meets 64·3·5 of a kernel, and
    # 8·64·320 results of 160, and 2·32·10·12·14 of 432
    (convolve((1, 1), [(1, 1), (2, 2)], lhs_dilation=(2, 2)), array(8, 32, 16, 14),
     array(64, 32, 3, 5), 110100480),
    (convolve((1,), "SAME"), array(8, 32, 320), array(64, 32, 5), 52428800),
    (convolve((1, 1, 1), "SAME"), array(2, 16, 10, 12, 14), array(32, 16, 3, 3, 3), 92897280),
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
