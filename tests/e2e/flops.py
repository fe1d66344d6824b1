# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of floating-point operations share. Operations and bytes are compared for equality."""
import json

from conftest import WORKLOADS, consistent
from trainers import Trainer, attached

FIGURES = ("unread", "silenced")


def figures_by_name(report, pid=None):
    """{function: its row's own figures}, of functions that were called."""
    found = {}
    for process in report["processes"]:
        if pid not in (None, process["pid"]):
            continue
        for f in process["functions"]:
            if not f["calls"]:
                continue
            row = found.setdefault(f["name"], dict.fromkeys(
                ("calls", "unwound", "flops", "bytes", "counted", *FIGURES), 0))
            for key in ("calls", "unwound"):
                row[key] += f[key]
            for key in ("counted", *FIGURES):
                row[key] += f.get("figures", {}).get(key, 0)
            row["flops"] += f.get("own_flops", 0)
            row["bytes"] += f.get("own_bytes", 0)
    return found


def compute_of(report, pid):
    process = next(p for p in report["processes"] if p["pid"] == pid)
    return process["compute"]


def check_sums(report):
    """What a process did is what its functions did, and what its sources did; and the outermost
    functions contain it all."""
    consistent(report)
    for process in report["processes"]:
        compute = process.get("compute")
        if not compute:
            continue
        rows = process["functions"]
        assert compute["flops"] == sum(f.get("own_flops", 0) for f in rows)
        assert compute["flops"] == sum(compute["sources"].values())
        assert compute["flops"] == sum(compute["dtypes"].values())
        for key in ("counted", *FIGURES):
            assert compute["figures"][key] == sum(f.get("figures", {}).get(key, 0) for f in rows)
        for f in rows:
            assert f.get("own_flops", 0) <= f.get("flops", 0) <= compute["flops"]


def check_known(report, expected):
    """What a program of tests/workloads promises of every function: {(function, key): value}."""
    check_sums(report)
    found = figures_by_name(report)
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
    """Every case of a script of tests/workloads (ranges.py), by the function that it runs in."""
    steps = 2
    trainer = Trainer(python, script, "--ranges", str(WORKLOADS / "ranges.so"), *options)
    try:
        cases = [json.loads(line) for line in trainer.command("expect 0")]
        tracer, _ = attached(trainer.pid, "--no-calibrate", "--memory", "off")
        try:
            trainer.command(f"run {steps}")
            report = tracer.stop()
        finally:
            tracer.kill()
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
