# SPDX-License-Identifier: BSD-2-Clause
"""Memory of any PyTorch and any NumPy: shared by the tests of the distribution's and of current ones
(ml/)."""
import time

from conftest import TOP, Program, Tracer
from memories import check_memory, consistent_memory, entries
from trainers import Trainer

LEAK_BYTES = 64 << 10
# of train_cnn.py's batches: 64 pictures of 28 × 28 floats, 64 labels
BATCH_BYTES = 64 * 28 * 28 * 4 + 64 * 8


def check_arrays(python, what):
    """Allocations, frees, bytes and peak of arrays are known by arithmetic; nothing of the heap is
    recorded."""
    p = Program(python, TOP / "tests/workloads/memory_tensors.py", what)
    tracer = Tracer(p.pid, "--memory", "tensor", "--no-calibrate")
    try:
        p.go(2)
        report = tracer.stop()
        expected = p.finish()
    finally:
        tracer.kill()
        p.kill()
    check_memory(report, expected, p.pid)
    consistent_memory(report)
    assert entries(report, "host") == []
    assert {h["allocator"] for m in entries(report, "tensor") for h in m["hotspots"]} == {what}


def check_steps_balance(python):
    """At the end of a steady step its tensors are freed, except those that the next step replaces: live
    bytes after 20 steps equal those after 10."""
    trainer = Trainer(python, "train_cnn.py", "--workers", "0")
    live, allocs = [], []
    try:
        trainer.command("run 5")
        for steps in (10, 20):
            tracer = Tracer(trainer.pid, "--memory", "tensor", "--no-calibrate")
            trainer.command(f"run {steps}")
            (entry,) = entries(tracer.stop(), "tensor")
            live.append(entry["current_bytes"])
            allocs.append(entry["allocs"])
        trainer.finish()
    finally:
        trainer.kill()
    assert live[0] == live[1]
    assert 2 * allocs[0] == allocs[1] > 1000


def check_shared_batches(python, steps=10):
    """Workers put batches of known size into shared memory, without malloc."""
    trainer = Trainer(python, "train_cnn.py", "--workers", "2")
    try:
        trainer.command("run 5")
        time.sleep(0.5)  # until the workers have filled their queues
        tracer = Tracer(trainer.pid, "--memory", "tensor", "--no-calibrate")
        trainer.command(f"run {steps}")
        time.sleep(0.5)
        report = tracer.stop()
        trainer.finish()
    finally:
        trainer.kill()
    shared = [h for p in report["processes"] if p["pid"] != trainer.pid
              for m in p["memory"] for h in m["hotspots"] if h["allocator"] == "torch-shm"]
    assert sum(h["allocs"] for h in shared) == 2 * steps
    assert sum(h["allocated_bytes"] for h in shared) == steps * BATCH_BYTES


def leak_findings(report):
    return [f for p in report["processes"] for f in p["findings"] if "leak" in f["kind"].lower()]


def leaks(report):
    return [h for m in entries(report, "tensor") for h in m["hotspots"] if h["leak"]]


def trace_training(python, seconds, *options):
    """The report of some seconds of training, the number of steps, and steps per second."""
    trainer = Trainer(python, "train_cnn.py", "--workers", "0", "--model", "mlp", *options)
    try:
        trainer.command("run 20")
        tracer = Tracer(trainer.pid, "--memory", "tensor", "--no-calibrate")
        start, steps = time.monotonic(), 0
        while time.monotonic() - start < seconds:
            trainer.command("run 5")
            steps += 5
        elapsed = time.monotonic() - start
        report = tracer.stop()
        trainer.finish()
    finally:
        trainer.kill()
    return report, steps, steps / elapsed


def check_steady(python, seconds):
    report, _, _ = trace_training(python, seconds)
    assert leak_findings(report) == []
    assert leaks(report) == []


def check_leak(python, seconds):
    """One tensor is kept in each step: only that hotspot leaks, at the rate at which it grows."""
    report, steps, steps_per_s = trace_training(python, seconds, "--leak", str(LEAK_BYTES))
    (spot,) = leaks(report)
    # stacks of the first steps end at tables that are not ready yet: separate hotspots that look the
    # same
    kept = sum(h["live_bytes"] for m in entries(report, "tensor") for h in m["hotspots"] if h["stack"] == spot["stack"])
    # without the stack's outer frames the place is PyTorch's own, as for the step's other tensors
    assert 0 <= kept - steps * LEAK_BYTES < 16 << 20
    assert len(leak_findings(report)) == 1
    rate = steps_per_s * LEAK_BYTES
    # steps are not quite equally long; each is a small part of the whole
    assert abs(spot["slope_bytes_per_s"] / rate - 1) < 0.15, (spot["slope_bytes_per_s"], rate)
