#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Trainers with one planted fault each, and healthy ones: `planted.py FAULT [--fixed|--alternate]`. It prints "ready
PID" when it is warm, trains until its standard input is closed, and prints as one line of JSON what it has measured
itself since: steps, their average time, and how much of it was the fault. --fixed trains with the remedy that a report
should name. --alternate trains both ways in turn, as a machine is not equally fast at all times, and says what the
remedy gains a step (not for faults of a whole process: its threads, its collector). JAX and NumPy trainers mark their
steps with nothing: their period has to be found."""

import argparse
import array
import gc
import hashlib
import json
import math
import multiprocessing
import os
import random
import select
import sys
import tempfile
import threading
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when it is loaded

import numpy as np

import gate

BATCH = 32
SIDE = 28


class Clock:
    """Measures the planted parts."""

    def __init__(self):
        self.ns = 0

    def __enter__(self):
        self.begun = time.perf_counter_ns()

    def __exit__(self, *_):
        self.ns += time.perf_counter_ns() - self.begun


class Trainer:
    """A healthy trainer: a CNN, whose data is in memory. A fault replaces a part of it."""

    THREADS = 1

    def __init__(self, fixed):
        import torch
        self.torch, self.fixed, self.planted, self.steps = torch, fixed, Clock(), 0
        torch.manual_seed(1)
        torch.set_num_threads(self.THREADS)
        self.pictures = torch.rand(BATCH, 1, SIDE, SIDE)
        self.labels = torch.randint(10, (BATCH,))
        self.model = self.build()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.prepare()

    def build(self):
        nn = self.torch.nn
        return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Flatten(), nn.Linear(32 * 49, 10))

    def prepare(self):
        pass

    def batch(self):
        return self.pictures

    def forward(self, batch):
        return self.torch.nn.functional.cross_entropy(self.model(batch), self.labels)

    def end(self, loss):
        pass

    def step(self):
        self.optimizer.zero_grad()
        loss = self.forward(self.batch())
        loss.backward()
        self.optimizer.step()
        self.end(loss)
        self.steps += 1


class Transformer(Trainer):
    """A healthy trainer."""

    def build(self):
        nn = self.torch.nn
        layer = nn.TransformerEncoderLayer(SIDE * 8, 8, SIDE * 32, dropout=0.0, batch_first=True)
        return nn.Sequential(nn.Flatten(1, 2), nn.Linear(SIDE, SIDE * 8), nn.TransformerEncoder(layer, 2),
                             nn.Flatten(), nn.Linear(SIDE * SIDE * 8, 10))


class Normalized:
    """A data set whose samples Python makes, value by value."""

    def __init__(self, torch):
        self.torch = torch
        self.raw = [random.random() for _ in range(SIDE * SIDE)]

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return self.torch.tensor(normalize(normalize(self.raw, index % 7), 1)).view(1, SIDE, SIDE)


def normalize(values, shift):
    return [(value - 0.5) * 2.0 + math.sqrt(shift) for value in values]


class Starved(Trainer):
    """A DataLoader without workers. The remedy: two."""

    def prepare(self):
        loader = self.torch.utils.data.DataLoader(Normalized(self.torch), BATCH, num_workers=2 if self.fixed else 0)
        self.batches = iter(loader)

    def batch(self):
        with self.planted:
            return next(self.batches)


class Stored:
    """A data set on slow storage: each sample takes 2 ms, and hardly any CPU."""

    def __init__(self, torch):
        self.picture = torch.rand(1, SIDE, SIDE)

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        time.sleep(0.002)
        return self.picture


class Storage(Starved):
    """A DataLoader without workers that waits for slow samples. The remedy: more workers than CPUs."""

    WORKERS = 12

    def prepare(self):
        self.batches = iter(self.torch.utils.data.DataLoader(Stored(self.torch), BATCH,
                                                             num_workers=self.WORKERS if self.fixed else 0))


class Python(Trainer):
    """Preprocessing in pure Python, in the training loop. The remedy: NumPy."""

    def prepare(self):
        self.raw = [[random.random() for _ in range(SIDE * SIDE)] for _ in range(BATCH)]
        self.array = np.array(self.raw, dtype=np.float32)

    def normalized(self):
        if self.fixed:
            return (self.array - 0.5) * 2.0
        return np.array([normalize(row, 1) for row in self.raw], dtype=np.float32)

    def batch(self):
        with self.planted:
            values = self.normalized()
        return self.torch.from_numpy(values).view(BATCH, 1, SIDE, SIDE)


class Oversubscribed(Trainer):
    """Four threads for each CPU. The remedy: one."""

    THREADS = 4 * os.cpu_count()

    def prepare(self):
        if self.fixed:
            self.torch.set_num_threads(os.cpu_count())


class Kept(Trainer):
    """Losses are kept with their graphs. The remedy: keep their values."""

    def prepare(self):
        self.losses = []

    def end(self, loss):
        self.losses.append(loss.item() if self.fixed else self.forward(self.pictures))


class Tiny(Trainer):
    """A running average of a thousand scalars, one by one. The remedy: one tensor."""

    def prepare(self):
        self.averages = [self.torch.zeros(()) for _ in range(1000)]
        self.average = self.torch.zeros(1000)

    def end(self, loss):
        with self.planted, self.torch.no_grad():
            if self.fixed:
                self.average.mul_(0.99).add_(loss, alpha=0.01)
                return
            for average in self.averages:
                average.mul_(0.99).add_(loss, alpha=0.01)


class Float64(Trainer):
    """NumPy's default dtype has entered the model. The remedy: float32."""

    def build(self):
        nn = self.torch.nn
        return nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(),
                             nn.Linear(2048, 10))

    def prepare(self):
        self.pictures = self.torch.from_numpy(np.random.rand(BATCH, 1, SIDE, SIDE))
        if self.fixed:
            self.pictures = self.pictures.float()
        else:
            self.model.double()


class Copies(Trainer):
    """All pictures are converted in each step from their stored form (bytes, channels last). The
    remedy: convert once."""

    def prepare(self):
        self.stored = self.torch.randint(256, (4096, SIDE, SIDE, 3), dtype=self.torch.uint8)
        self.converted = self.convert()

    def convert(self):
        return self.stored.permute(0, 3, 1, 2).float().div(255).contiguous()

    def batch(self):
        with self.planted:
            pictures = self.converted if self.fixed else self.convert()
        return pictures[:BATCH, :1].contiguous()


class Gil(Trainer):
    """A thread that never waits. The remedy: it sleeps between checks."""

    def prepare(self):
        threading.Thread(target=self.watch, name="watcher", daemon=True).start()

    def watch(self):
        looks = 0
        while True:
            looks += 1
            if self.fixed:
                time.sleep(0.1)


class Saves(Trainer):
    """A checkpoint every 20 steps, in the training loop. The remedy: every 200."""

    def prepare(self):
        self.ballast = [self.torch.rand(1 << 20) for _ in range(16)]
        self.file = tempfile.NamedTemporaryFile(prefix="checkpoint-", dir="/var/tmp")

    def save(self):
        self.file.seek(0)
        self.torch.save([self.model.state_dict(), self.ballast], self.file)
        self.file.flush()
        os.fsync(self.file.fileno())

    def end(self, loss):
        if self.steps % (200 if self.fixed else 20) == 19:
            with self.planted:
                self.save()


class Convoy(Trainer):
    """Four threads and the trainer update one table under one lock. The remedy: each has its own."""

    def prepare(self):
        self.lock, self.table = threading.Lock(), np.ones(1 << 23)
        for number in range(4):
            threading.Thread(target=self.update, name=f"updater-{number}", daemon=True).start()

    def update(self):
        lock, table = (threading.Lock(), self.table.copy()) if self.fixed else (self.lock, self.table)
        while True:
            with lock:
                np.add(table, 1, out=table)
            time.sleep(0.001)

    def end(self, loss):
        with self.planted:
            with self.lock:
                self.table[0] += 1


class Garbage(Trainer):
    """A large index of containers, and so many new containers that the collector scans all of it in
    each step. The remedy: gc.freeze()."""

    def prepare(self):
        self.index = [[number] for number in range(400_000)]
        gc.set_threshold(700, 5, 1)
        gc.callbacks.append(self.collected)
        if self.fixed:
            gc.freeze()

    def collected(self, phase, info):
        if phase == "start":
            self.planted.__enter__()
        else:
            self.planted.__exit__()

    def end(self, loss):
        records = [{"step": self.steps, "row": [row]} for row in range(6000)]
        self.index[self.steps % 1000] = records[0]["row"]
        # as long as all of the index seems short, the collector leaves it alone
        if not self.fixed:
            gc.collect()


class Pipe(Starved):
    """One process makes batches, too slowly. The remedy: it makes one and sends that repeatedly."""

    def prepare(self):
        self.pipe, end = multiprocessing.Pipe()
        multiprocessing.Process(target=self.feed, args=(end,), daemon=True).start()

    def augment(self, row):
        for _ in range(8):
            row = normalize(row, 1)
        return row

    def feed(self, pipe):
        raw = [[random.random() for _ in range(SIDE * SIDE)] for _ in range(BATCH)]
        batch = b""
        while True:
            if not (batch and self.fixed):
                batch = np.array([self.augment(row) for row in raw], dtype=np.float32).tobytes()
            pipe.send_bytes(batch)

    def batch(self):
        with self.planted:
            data = self.pipe.recv_bytes()
        return self.torch.frombuffer(bytearray(data), dtype=self.torch.float32).view(BATCH, 1, SIDE, SIDE)


class Lock(Trainer):
    """A thread holds a lock most of the time, without the GIL. The remedy: it holds the lock for less
    time."""

    def prepare(self):
        self.lock = threading.Lock()
        threading.Thread(target=self.hold, name="holder", daemon=True).start()

    def hold(self):
        data = bytes(1 << 23)
        while True:
            with self.lock:
                hashlib.sha256(data[:1 << 10] if self.fixed else data)
            time.sleep(0.001)

    def batch(self):
        with self.planted, self.lock:
            return self.pictures


class Synced(Trainer):
    """Each step's result is synced to disk before the next step. The remedy: no sync."""

    def prepare(self):
        self.file = tempfile.NamedTemporaryFile(prefix="results-", dir="/var/tmp")
        self.part = os.urandom(1 << 20)

    def end(self, loss):
        with self.planted:
            self.file.seek(0)
            for _ in range(8):
                self.file.write(self.part)
                self.file.flush()
                if not self.fixed:
                    os.fsync(self.file.fileno())


class Sleep(Trainer):
    """It sleeps between steps. The remedy: no sleep."""

    def end(self, loss):
        with self.planted:
            time.sleep(0 if self.fixed else 0.01)


class Rival(Trainer):
    """Other programs on the CPUs, two for each. There is no remedy."""

    THREADS = os.cpu_count()

    def prepare(self):
        if self.fixed:
            return
        for _ in range(2 * os.cpu_count()):
            multiprocessing.Process(target=burn, daemon=True).start()


def burn():
    with open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write("rival")
    while True:
        sum(range(100_000))


class NumPy:
    """A healthy trainer without a framework: a linear regression."""

    def __init__(self, fixed):
        random.seed(1)
        self.fixed, self.planted, self.steps = fixed, Clock(), 0
        self.x, self.y = np.random.rand(2048, 1024), np.random.rand(2048, 8)
        self.weights = np.zeros((1024, 8))

    def step(self):
        error = self.x @ self.weights - self.y
        self.weights -= 1e-4 * (self.x.T @ error) / len(self.x)
        self.gram = self.x.T @ self.x
        self.steps += 1


class Jax:
    """A healthy trainer: an MLP under jit."""

    SHAPES = 1

    def __init__(self, fixed):
        import jax
        import jax.numpy as jnp
        self.jnp, self.fixed, self.planted, self.steps = jnp, fixed, Clock(), 0
        keys = jax.random.split(jax.random.PRNGKey(1), 3)
        self.weights = [jax.random.normal(key, shape) * 0.02
                        for key, shape in zip(keys, [(SIDE * SIDE, 1024), (1024, 1024), (1024, 10)])]

        def loss(weights, x):
            for weight in weights[:-1]:
                x = jax.nn.relu(x @ weight)
            return (x @ weights[-1]).mean()

        def train_step(weights, x):
            value, slopes = jax.value_and_grad(loss)(weights, x)
            return value, [weight - 1e-4 * slope for weight, slope in zip(weights, slopes)]

        self.train_step = jax.jit(train_step)

    def rows(self):
        return 256

    def step(self):
        value, self.weights = self.train_step(self.weights, np.ones((self.rows(), SIDE * SIDE), np.float32))
        value.block_until_ready()
        self.steps += 1


class Recompiling(Jax):
    """The last of an epoch's five batches has a different length. The remedy: padding."""

    def rows(self):
        return 256 if self.fixed or self.steps % 5 else 100 + self.steps // 5


class Guards(Trainer):
    """torch.compile compiles for one length of a batch, and every fifth has another. The remedy: one length."""

    def prepare(self):
        config = self.torch._dynamo.config
        config.cache_size_limit = config.accumulated_cache_size_limit = 1 << 20  # it would give up otherwise
        self.compiled = self.torch.compile(self.model, backend="aot_eager", dynamic=False)

    def batch(self):
        return self.pictures if self.fixed or self.steps % 5 else self.pictures[:1 + self.steps // 5 % (BATCH - 1)]

    def forward(self, batch):
        return self.torch.nn.functional.cross_entropy(self.compiled(batch), self.labels[:len(batch)])


FAULTS = {"none": Trainer, "transformer": Transformer, "numpy": NumPy, "jax": Jax, "starved": Starved,
          "storage": Storage, "python": Python, "oversubscribed": Oversubscribed, "kept": Kept, "tiny": Tiny,
          "float64": Float64, "copies": Copies, "gil": Gil, "saves": Saves, "convoy": Convoy, "garbage": Garbage,
          "rival": Rival, "recompiling": Recompiling, "guards": Guards, "pipe": Pipe, "lock": Lock, "synced": Synced,
          "sleep": Sleep}

WARM = 5
TURN = 40  # steps, a multiple of a fault's period


def steps_ns(trainer, count):
    begun = time.perf_counter_ns()
    for _ in range(count):
        trainer.step()
    return time.perf_counter_ns() - begun


def alternate(trainers, stop):
    """The average step time of each, in turns. Each turn begins with steps that are not counted, which
    use up what workers prepared in the other's turn."""
    total_ns, turns = [0, 0], 0
    while not stop.poll(0):
        for which in (0, 1, 1, 0):
            steps_ns(trainers[which], WARM * 4)
            total_ns[which] += steps_ns(trainers[which], TURN)
        turns += 2
    before, after = (ns // (turns * TURN) for ns in total_ns)
    return {"steps": turns * TURN, "step_ns": before, "fixed_step_ns": after, "gain_ns": before - after}


def train(trainer, stop):
    """For each step its start (CLOCK_MONOTONIC), and the duration of its planted parts."""
    begun_ns, planted_ns = array.array("Q"), array.array("Q")
    while not stop.poll(0):
        before = trainer.planted.ns
        begun_ns.append(time.monotonic_ns())
        trainer.step()
        planted_ns.append(trainer.planted.ns - before)
    return {"step_ns": (time.monotonic_ns() - begun_ns[0]) // len(begun_ns),
            "begun_ns": list(begun_ns), "planted_ns": list(planted_ns)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--alternate", action="store_true")
    args = parser.parse_args()
    build = FAULTS[args.fault]
    trainers = [build(False), build(True)] if args.alternate else [build(args.fixed)]
    stop = select.poll()
    stop.register(sys.stdin, select.POLLHUP)
    for trainer in trainers:
        steps_ns(trainer, WARM)
    gate.say(f"ready {os.getpid()}")
    gate.say(json.dumps(alternate(trainers, stop) if args.alternate else train(trainers[0], stop)))


if __name__ == "__main__":
    main()
