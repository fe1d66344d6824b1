# SPDX-License-Identifier: BSD-2-Clause
"""Ranges and steps of any PyTorch: shared by the tests of the distribution's and of a current one."""
import json

from trainers import Trainer, attached

STEPS = 20


def trace(python, workers, *options):
    """Traces STEPS steps: what torch.profiler sees of as many, the report, the process's part."""
    trainer = Trainer(python, "marked_torch.py", "--workers", str(workers))
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
    """Of ranges: they have no module."""
    return {f["name"]: f["calls"] for f in process["functions"]
            if f["source"] == source and not f["module"]}


def check_breakdown(process, by, phases):
    """As many steps as iterations; the phases add up to them, to the nanosecond."""
    steps = process["steps"]
    assert (steps["count"], steps["by"]) == (STEPS, by)
    assert sum(steps["breakdown"].values()) == steps["total_ns"]
    assert {name for name, ns in steps["breakdown"].items() if ns} == phases
    return steps
