# SPDX-License-Identifier: BSD-2-Clause
"""Ranges and steps of any PyTorch: shared by the tests of the distribution's and of a current one."""
import json

from trainers import Trainer, attached

STEPS = 20


def trace(python, workers, *options):
    """Traces STEPS steps: torch.profiler's view of as many, the report, and the process's part of
    it."""
    trainer = Trainer(python, "ranges_torch.py", "--workers", str(workers))
    try:
        profiled = json.loads(trainer.command(f"ranges {STEPS}")[-1])
        tracer, _ = attached(trainer.pid, "--no-calibrate", "--memory", "off", *options)
        try:
            trainer.command(f"run {STEPS}")
            report = tracer.stop()
        finally:
            tracer.kill()
    finally:
        trainer.kill()
    (process,) = [p for p in report["processes"] if p["pid"] == trainer.pid]
    assert report["losses"]["unmatched_entries"] == report["losses"]["unmatched_returns"] == 0
    return profiled, report, process


def calls(process, source):
    """Calls of ranges, which have no module."""
    return {f["name"]: f["calls"] for f in process["functions"]
            if f["source"] == source and not f["module"]}


def check_breakdown(process, by, phases):
    """There are as many steps as iterations, and the phases add up to them, to the nanosecond."""
    steps = process["steps"]
    assert (steps["count"], steps["by"]) == (STEPS, by)
    assert sum(steps["breakdown"].values()) == steps["divided_ns"]
    assert {name for name, ns in steps["breakdown"].items() if ns} == phases
    return steps


# One step of ranges_torch.py: two layers, 64 × 128 and 128 × 10, batches of 16. Backward: both weights'
# gradients, and of the inputs the second layer's alone.
FORWARD = 2 * 16 * (64 * 128 + 128 * 10)
STEP = 2 * FORWARD + 2 * 16 * 128 * 10


def check_step_flops(process):
    """Each whole step has the known FLOPs, on all threads; the series has their times and adds up. The
    first step's start is unknown."""
    steps = process["steps"]
    assert steps["whole"] == steps["computed"] == STEPS - 1
    assert [step["flops"] for step in steps["series"]] == [STEP] * (STEPS - 1)
    assert steps["flops"] == (STEPS - 1) * STEP
    assert steps["figures"]["unread"] == steps["figures"]["opaque"] == 0
    assert sum(step["total_ns"] for step in steps["series"]) == steps["total_ns"] == steps["computed_ns"]
    assert max(step["max_ns"] for step in steps["series"]) == steps["max_ns"]
    for before, after in zip(steps["series"], steps["series"][1:]):
        assert before["at_ns"] + before["total_ns"] == after["at_ns"]


def flops_of(process, name):
    """FLOPs of a range, including calls inside it; absent if there are none."""
    (row,) = [f for f in process["functions"] if f["name"] == name and f.get("kind") == "range"]
    return row.get("flops")
