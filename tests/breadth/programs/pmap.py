# SPDX-License-Identifier: BSD-2-Clause
"""pmap over two virtual devices of the CPU."""
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
from truth import Truth

N = 384


@jax.pmap
def multiply(a, b):
    for _ in range(6):
        b = jnp.tanh(a @ b / N)
    return b


a = jnp.ones((2, N, N))
b = jnp.ones((2, N, N))
jax.block_until_ready(multiply(a, b))
truth = Truth(2 * 6 * 2 * N ** 3)
while truth.going():
    jax.block_until_ready(multiply(a, b))
    truth.step()
truth.finish()
