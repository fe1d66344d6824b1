# SPDX-License-Identifier: BSD-2-Clause
"""A multilayer perceptron of flax with optax, compiled by XLA."""
import jax
import jax.numpy as jnp
import optax
from flax import linen
from truth import Truth

N, D, LAYERS = 256, 256, 8


class Net(linen.Module):
    @linen.compact
    def __call__(self, x):
        for _ in range(LAYERS):
            x = linen.Dense(D, use_bias=False)(x)
        return x


net = Net()
x = jnp.ones((N, D))
params = net.init(jax.random.PRNGKey(0), x)
optimizer = optax.sgd(1e-3)
state = optimizer.init(params)


@jax.jit
def train_step(params, state, x):
    grads = jax.grad(lambda p: jnp.square(net.apply(p, x)).mean())(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state


params, state = train_step(params, state, x)
# forward and both halves of backward; the first layer's input needs no gradient
truth = Truth((3 * LAYERS - 1) * 2 * N * D * D)
while truth.going():
    params, state = train_step(params, state, x)
    jax.block_until_ready(params)
    truth.step()
truth.finish()
