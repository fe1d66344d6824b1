# SPDX-License-Identifier: BSD-2-Clause
"""Programs that use a GPU, each limited by something else: python3 programs.py NAME [--seconds N]. It
prints READY when it is warm, and at its end TRUTH and the end times of its steps."""
import argparse
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("--seconds", type=float, default=12)
options = parser.parse_args()


def jax_layers():
    """One jitted function: the GPU computes, the host waits."""
    import jax
    import jax.numpy as jnp
    import optax
    key = jax.random.PRNGKey(0)
    weights = [jax.random.normal(key, (2048, 2048)) * 0.02 for _ in range(8)]
    optimizer = optax.adam(1e-4)
    state = optimizer.init(weights)
    x = jax.random.normal(key, (4096, 2048))

    def loss(weights, x):
        for w in weights:
            x = jax.nn.relu(x @ w)
        return (x ** 2).mean()

    @jax.jit
    def train(weights, state, x):
        value, gradients = jax.value_and_grad(loss)(weights, x)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, value

    def step():
        nonlocal weights, state
        weights, state, value = train(weights, state, x)
        float(value)
    return step


def jax_data():
    """NumPy makes each batch while the GPU waits."""
    import jax
    import numpy as np
    generator = np.random.default_rng(0)
    w = jax.numpy.zeros((1024, 1024))
    train = jax.jit(lambda w, x: w - 1e-4 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w))

    def make_batch():
        return np.stack([generator.standard_normal(1024).astype(np.float32) for _ in range(1024)])

    def step():
        nonlocal w
        w = train(w, make_batch()).block_until_ready()
    return step


def cupy_result():
    """The result's copy waits for the kernels before it."""
    import cupy
    a = cupy.random.rand(4096, 4096, dtype=cupy.float32)
    return lambda: float(cupy.sqrt((cupy.sort(a @ a, axis=1) ** 2).sum()))


def layers(width, depth, dtype=None):
    import torch
    from torch import nn
    torch.manual_seed(0)
    parts = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*parts).cuda().to(dtype or torch.float32)


def training(model, optimizer, batch, every=1):
    """As in trainers; the loss is read every few steps."""
    count = 0

    def step():
        nonlocal count
        optimizer.zero_grad()
        loss = model(batch()).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        count += 1
        if count % every == 0:
            loss.item()
    return step


def torch_full():
    import torch
    model = layers(8192, 8, torch.bfloat16)
    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    return training(model, torch.optim.SGD(model.parameters(), 1e-4), lambda: x)


def torch_rarely_synced():
    """Steps return before the GPU has finished them, and every 20th waits for all."""
    import torch
    model = layers(4096, 8)
    x = torch.randn(4096, 4096, device="cuda")
    return training(model, torch.optim.AdamW(model.parameters(), 1e-4), lambda: x, every=20)


def torch_tiny():
    import torch
    model = layers(64, 20)
    x = torch.randn(32, 64, device="cuda")
    return training(model, torch.optim.Adam(model.parameters(), 1e-3, foreach=False), lambda: x)


def torch_python():
    """A tokenizer in Python."""
    import torch
    model = layers(1024, 4)
    numbers = {f"w{i}": i for i in range(5000)}
    text = " ".join(f"w{i * 7 % 5000}" for i in range(40000))

    def tokenise():
        tokens = [numbers.get(word.lower().strip(".,"), 0) % 97 for word in text.split()]
        return torch.tensor(tokens[:32768], dtype=torch.float32, device="cuda").view(32, 1024)
    return training(model, torch.optim.SGD(model.parameters(), 1e-3), tokenise)


def torch_pageable():
    import torch
    model, host = layers(1024, 1), torch.randn(256 << 10, 1024)
    return lambda: model(host.cuda()).mean().item()


def torch_leak():
    """Losses with their graphs are kept, and with them the activations of each step."""
    import torch
    model, x, kept = layers(1024, 4), torch.randn(1024, 1024, device="cuda"), []

    def step():
        kept.append(model(x))
        time.sleep(0.003)
    return step


def torch_saves():
    import torch
    model, x = layers(4096, 6), torch.randn(1024, 4096, device="cuda")
    train = training(model, torch.optim.SGD(model.parameters(), 1e-3), lambda: x)
    count = 0

    def step():
        nonlocal count
        train()
        count += 1
        if count % 5 == 0:
            torch.save(model.state_dict(), "/tmp/perfx-gpu-model.pt")
    return step


def torch_closure():
    """As in Lightning: forward and backward passes run in a closure of the optimizer."""
    import torch
    model, x = layers(1024, 6), torch.randn(256, 1024, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)

    def closure():
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss
    return lambda: optimizer.step(closure)


def generates():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=12)).cuda().eval()
    tokens = torch.randint(0, 50000, (1, 16), device="cuda")
    return lambda: model.generate(tokens, max_new_tokens=64, do_sample=False, pad_token_id=0)


step = globals()[options.name]()
for _ in range(3):
    step()
print(f"READY {os.getpid()}", flush=True)
until, ends = time.time() + options.seconds, []
while time.time() < until:
    step()
    ends.append(time.time_ns())
print("TRUTH", json.dumps({"ends_ns": ends}), flush=True)
