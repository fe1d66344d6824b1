# SPDX-License-Identifier: BSD-2-Clause
"""Shared by the tests of floating-point operations, which compare operations and bytes for equality."""
import json

from conftest import WORKLOADS, consistent
from trainers import Trainer, attached

NOT_COUNTED = ("unread", "silenced")


def costs_by_name(report, pid=None):
    """{function: its row's own counts}, of functions that were called."""
    found = {}
    for process in report["processes"]:
        if pid not in (None, process["pid"]):
            continue
        for f in process["functions"]:
            if not f["calls"]:
                continue
            row = found.setdefault(f["name"], dict.fromkeys(
                ("calls", "unwound", "flops", "bytes", "counted", *NOT_COUNTED), 0))
            for key in ("calls", "unwound"):
                row[key] += f[key]
            for key in ("counted", *NOT_COUNTED):
                row[key] += f.get("figures", {}).get(key, 0)
            row["flops"] += f.get("own_flops", 0)
            row["bytes"] += f.get("own_bytes", 0)
    return found


def compute_of(report, pid):
    process = next(p for p in report["processes"] if p["pid"] == pid)
    return process["compute"]


def check_sums(report):
    """A process's total is the sum over its functions, and over its sources; the outermost functions
    contain all of it."""
    consistent(report)
    for process in report["processes"]:
        compute = process.get("compute")
        if not compute:
            continue
        rows = process["functions"]
        assert compute["flops"] == sum(f.get("own_flops", 0) for f in rows)
        assert compute["flops"] == sum(compute["sources"].values())
        assert compute["flops"] == sum(compute["dtypes"].values())
        for key in ("counted", *NOT_COUNTED):
            assert compute["figures"][key] == sum(f.get("figures", {}).get(key, 0) for f in rows)
        for f in rows:
            assert f.get("own_flops", 0) <= f.get("flops", 0) <= compute["flops"]


def check_known(report, expected):
    """Compares every function with the program's expectations, {(function, key): value}."""
    check_sums(report)
    found = costs_by_name(report)
    moved = sum(p["compute"]["moved_bytes"] for p in report["processes"])
    assert moved == expected.pop(("*", "moved"), 0)
    expected.pop(("*", "bus"), 0)
    names = {name for name, _ in expected}
    wrong = [f"{name} {key}: {found.get(name, {}).get(key, 0)}, must be {value}"
             for (name, key), value in expected.items()
             if found.get(name, {}).get(key, 0) != value]
    assert not wrong, "\n".join(wrong)
    assert sum(row["flops"] for row in found.values()) == sum(
        value for (_, key), value in expected.items() if key == "flops"), "others did something too"
    return {name: row for name, row in found.items() if name not in names}


def check_shapes(python, script, *options):
    """Checks every case of a script of tests/workloads (ranges.py), by the function that it runs in."""
    steps = 2
    trainer = Trainer(python, script, "--ranges", str(WORKLOADS / "ranges.so"), *options)
    try:
        cases = [json.loads(line) for line in trainer.command("expect 0")]
        report = traced_steps(trainer, steps, "--memory", "off")
        trainer.finish()
    finally:
        trainer.kill()
    check_sums(report)
    found = {f["name"]: f.get("flops", 0) for p in report["processes"] for f in p["functions"]}
    wrong = [f"{case['name']}: {found.get(case['range'], 0) / steps}, must be {case['flops']}"
             for case in cases if found.get(case["range"], 0) != steps * case["flops"]]
    assert not wrong, "\n".join(wrong)
    total = sum(p["compute"]["flops"] for p in report["processes"])
    assert total == steps * sum(case["flops"] for case in cases), "something is outside"
    return report


def _linear(rows, inputs, outputs):
    return 2 * rows * inputs * outputs


def _convolution(batch, side, channels, filters):
    """A 3×3 convolution that keeps the picture's size."""
    return 2 * batch * filters * side * side * 9 * channels


def step_of(model, batch=64, recomputes=False):
    """Operations of a step of train_cnn.py, by its layers. Each layer runs forward, backward for the
    gradient of its weights, and backward for the gradient of its input unless that is the picture.
    Attention has two products for each pair of rows and head; its backward pass two for each of them,
    and one more if the scores are computed again instead of kept."""
    if model == "mlp":
        first = _linear(batch, 784, 256)
        rest = _linear(batch, 256, 256) + _linear(batch, 256, 10)
        return 2 * first + 3 * rest
    if model == "cnn":
        first = _convolution(batch, 28, 1, 16)
        rest = (_convolution(batch, 14, 16, 32) + _linear(batch, 32 * 49, 64)
                + _linear(batch, 64, 10))
        return 2 * first + 3 * rest
    rows = 28 * batch
    product = 4 * batch * 28 * 28 * 16 * 2
    layer = (_linear(rows, 64, 3 * 64) + _linear(rows, 64, 64) + 2 * _linear(rows, 64, 128))
    attention = product * (2 + (5 if recomputes else 4))
    return 2 * _linear(rows, 28, 64) + 2 * (3 * layer + attention) + 3 * _linear(batch, 64, 10)


def traced_steps(trainer, steps, *options):
    tracer, _ = attached(trainer.pid, "--no-calibrate", *options)
    try:
        trainer.command(f"run {steps}")
        return tracer.stop()
    finally:
        tracer.kill()


def check_steps(python, model, steps=5, recomputes=False, counter=False, options=()):
    """A trainer that learns: FLOPs are those of a step times the number of steps, nothing is
    unreadable, and torch.utils.flop_counter agrees if it exists."""
    trainer = Trainer(python, "train_cnn.py", "--workers", "0", "--model", model, *options)
    try:
        counted = int(trainer.command(f"count {steps}")[-1]) if counter else None
        report = traced_steps(trainer, steps)
        trainer.finish()
    finally:
        trainer.kill()
    check_sums(report)
    compute = compute_of(report, trainer.pid)
    assert compute["flops"] == steps * step_of(model, recomputes=recomputes)
    assert counted in (None, compute["flops"])
    assert compute["figures"]["unread"] == 0
    assert compute["sources"]["torch"] == compute["flops"]
    backward = sum(f["flops"] for f in report["processes"][0]["functions"]
                   if f["name"].endswith("Engine::execute"))
    assert 0 < backward < compute["flops"]
    return report
