#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A JAX trainer: a perceptron under jit and value_and_grad, trained by momentum on a made-up task
(which of ten random directions a vector points along). One dispatch a step. See gate.py for how a
test drives it."""

import argparse
from functools import partial

import jax
import jax.numpy as jnp

import gate

CLASSES = 10
INPUTS = 256


def init(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (m, n)) * (2 / m) ** 0.5, jnp.zeros(n))
            for k, m, n in zip(keys, sizes[:-1], sizes[1:])]


def predict(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def loss_of(params, x, labels):
    picked = jnp.take_along_axis(jax.nn.log_softmax(predict(params, x)), labels[:, None], 1)
    return -picked.mean()


def sample(key, directions, batch):
    """Labels are not linear in the input, because the sign of the direction is random."""
    k1, k2, k3 = jax.random.split(key, 3)
    labels = jax.random.randint(k1, (batch,), 0, CLASSES)
    sign = jax.random.choice(k2, jnp.array([-1.0, 1.0]), (batch, 1))
    return sign * directions[labels] + 0.5 * jax.random.normal(k3, (batch, INPUTS)), labels


@partial(jax.jit, static_argnums=4, donate_argnums=(0, 1))
def update(params, momentum, key, directions, batch):
    x, labels = sample(key, directions, batch)
    loss, grads = jax.value_and_grad(loss_of)(params, x, labels)
    momentum = jax.tree_util.tree_map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = jax.tree_util.tree_map(lambda p, m: p - 0.02 * m, params, momentum)
    return params, momentum, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    gate.add_arguments(parser)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    key = jax.random.PRNGKey(args.seed)
    directions = jax.random.normal(key, (CLASSES, INPUTS)) * 0.3
    params = init(key, (INPUTS, args.hidden, args.hidden, CLASSES))
    momentum = jax.tree_util.tree_map(jnp.zeros_like, params)
    # A key for each step, made beforehand: a step is then one dispatch and nothing else.
    keys = list(jax.random.split(key, 4096))
    state = [params, momentum, 0]

    def step():
        params, momentum, done = state
        params, momentum, loss = update(params, momentum, keys[done % len(keys)], directions,
                                        args.batch)
        state[:] = params, momentum, done + 1
        return float(loss)

    for _ in range(3):
        step()
    gate.Trainer(args, step).main()


if __name__ == "__main__":
    main()
