#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A PyTorch trainer of a small CNN with one planted bottleneck, or none: it prints "ready PID" when it
is warm, and trains until its standard input is closed. Sizes are such that the planted one is the
largest part of a step on a slow machine as on a fast one."""

import argparse
import hashlib
import multiprocessing
import os
import random
import select
import sys
import tempfile
import threading
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when it is loaded

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import gate

BATCH = 16
PASSES = 16
SIDE = 28


def normalize(values):
    out = []
    for value in values:
        out.append((value - 0.5) * 2.0)
    return out


def slow_pixels(pictures):
    """One by one, as nobody should."""
    values = [random.random() for _ in range(pictures * SIDE * SIDE)]
    for _ in range(PASSES):
        values = normalize(values)
    return values


def slow_batch():
    return torch.tensor(slow_pixels(BATCH)).view(BATCH, 1, SIDE, SIDE)


def spin():
    """A thread that never lets go of the GIL by itself."""
    count = 0
    while True:
        count += 1


def feed(pipe):
    while True:
        pipe.send_bytes(slow_batch().numpy().tobytes())


def hold(lock):
    """Has the lock most of the time, without the GIL."""
    data = bytes(1 << 23)
    while True:
        with lock:
            hashlib.sha256(data)
        time.sleep(0.001)


class Pictures(Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return torch.tensor(slow_pixels(1)).view(1, SIDE, SIDE)


class Nothing:
    """What each bottleneck replaces a part of."""

    def __init__(self):
        self.pictures = torch.rand(BATCH, 1, SIDE, SIDE)

    def batch(self):
        return self.pictures

    def end(self, model):
        pass


class Python(Nothing):
    def batch(self):
        return slow_batch()


class Gil(Nothing):
    def __init__(self):
        super().__init__()
        threading.Thread(target=spin, name="spinner", daemon=True).start()


class Pipe(Nothing):
    def __init__(self):
        super().__init__()
        self.pipe, end = multiprocessing.Pipe()
        multiprocessing.Process(target=feed, args=(end,), daemon=True).start()

    def batch(self):
        data = self.pipe.recv_bytes()
        return torch.frombuffer(bytearray(data), dtype=torch.float32).view(BATCH, 1, SIDE, SIDE)


class Loader(Nothing):
    def __init__(self, workers=1):
        super().__init__()
        self.batches = iter(DataLoader(Pictures(), BATCH, num_workers=workers))

    def batch(self):
        return next(self.batches)


class NoWorkers(Loader):
    def __init__(self):
        super().__init__(workers=0)


class Checkpoint(Nothing):
    """What is written is on the disk before the next step, each part of it by itself."""

    PARTS = 4
    PART = os.urandom(4 << 20)

    def __init__(self):
        super().__init__()
        self.file = tempfile.NamedTemporaryFile(prefix="checkpoint-", dir="/var/tmp")

    def end(self, model):
        self.file.seek(0)
        torch.save(model.state_dict(), self.file)
        for _ in range(self.PARTS):
            self.file.write(self.PART)
            self.file.flush()
            os.fsync(self.file.fileno())


class Lock(Nothing):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        threading.Thread(target=hold, args=(self.lock,), daemon=True).start()

    def batch(self):
        with self.lock:
            return self.pictures


class Sleep(Nothing):
    def end(self, model):
        time.sleep(0.05)


BOTTLENECKS = {"none": Nothing, "python": Python, "gil": Gil, "pipe": Pipe, "loader": Loader,
               "no-workers": NoWorkers, "checkpoint": Checkpoint, "lock": Lock, "sleep": Sleep}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bottleneck", choices=BOTTLENECKS)
    planted = BOTTLENECKS[parser.parse_args().bottleneck]()
    stop = select.poll()
    stop.register(sys.stdin, select.POLLHUP)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(32 * 49, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    labels = torch.randint(10, (BATCH,))
    steps = 0

    while not stop.poll(0):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(planted.batch()), labels)
        loss.backward()
        optimizer.step()
        planted.end(model)
        steps += 1
        if steps == 3:
            gate.say(f"ready {os.getpid()}")


if __name__ == "__main__":
    main()
