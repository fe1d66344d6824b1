# SPDX-License-Identifier: BSD-2-Clause
"""make soak: attach, trace for a second, detach, a hundred times (ROUNDS=), with every operator of
PyTorch and the allocators of libc probed, on a trainer with several threads."""
import os
import statistics
import time

from conftest import consistent, patched_bytes, total
from memory_trainers import check_leak, check_steady
from trainers import STEP, Trainer, has_torch

ROUNDS = int(os.environ.get("ROUNDS", "100"))
PYTHON = "/usr/bin/python3"
PATTERNS = ["-F", "libtorch_cpu*:at::_ops::*::call",
            "-F", "libc.so.6:{malloc,calloc,realloc,free,posix_memalign}"]


def step_ms(trainer, steps=50):
    """The median of a few measurements, untraced."""
    times = []
    for _ in range(5):
        start = time.monotonic()
        trainer.command(f"run {steps}")
        times.append((time.monotonic() - start) * 1000 / steps)
    return statistics.median(times)


def test_soak(kernel_log, tracer):
    assert has_torch(PYTHON), "Debian: python3-torch"
    trainer = Trainer(PYTHON, "train_cnn.py", "--workers", "2")
    trainer.command("run 20")  # until its pools and caches are there
    before = step_ms(trainer)
    clean = patched_bytes(trainer.pid)
    for number in range(ROUNDS):
        t = tracer(trainer.pid, *PATTERNS, "--no-calibrate")
        steps, end = 0, time.monotonic() + 1
        while time.monotonic() < end:
            trainer.command("run 5")
            steps += 5
        report = t.stop()
        consistent(report)
        for name, per_step in STEP.items():
            calls = total(report, f"at::_ops::{name}::call", "calls", trainer.pid)
            assert calls == steps * per_step, f"round {number}: {name} {calls}, {steps} steps"
        assert patched_bytes(trainer.pid) == clean, f"round {number}: breakpoints are left"
    after = step_ms(trainer)
    print(f"\n{ROUNDS} rounds; a step took {before:.2f} ms before, {after:.2f} ms after")
    trainer.process.stdin.close()
    assert trainer.process.wait(60) == 0
    assert kernel_log.about_uprobes([trainer.pid]) == []


def test_memory_for_minutes():
    """Steady memory is never reported as a leak, however long the recording, and a leak is found."""
    assert has_torch(PYTHON), "Debian: python3-torch"
    check_steady(PYTHON, 300)
    check_leak(PYTHON, 120)
