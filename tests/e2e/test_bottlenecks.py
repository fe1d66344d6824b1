# SPDX-License-Identifier: BSD-2-Clause
"""Trainers with one planted bottleneck each: the report has the finding, with the line that it is at. How large it is
depends on who else uses the machine: what is asked is that it is there, and that a healthy trainer has none of them."""
import subprocess

import pytest
from conftest import TOP, Tracer
from trainers import has_torch

PYTHON = "/usr/bin/python3"
LONG = pytest.mark.long
NEW = {"PythonBound", "GilWait", "LockWait", "InputWait", "OutputWait", "DiskWait", "SleepWait", "ChildWait",
       "DataBound"}


pytestmark = pytest.mark.alone


@pytest.fixture(scope="module", autouse=True)
def torch():
    if not has_torch(PYTHON):
        pytest.skip(f"{PYTHON} has no torch (Debian: python3-torch)")


def findings(bottleneck):
    """Of the trainer, which is the first process: {kind: finding}, and the verdict."""
    trainer = subprocess.Popen([PYTHON, str(TOP / "tests/workloads/bottlenecks.py"), bottleneck],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert trainer.stdout.readline() == f"ready {trainer.pid}\n"
        tracer = Tracer(trainer.pid, "--no-calibrate", duration="4")
        try:
            report = tracer.report()
        finally:
            tracer.kill()
    finally:
        trainer.stdin.close()
        trainer.wait(60)
    process = next(p for p in report["processes"] if p["pid"] == trainer.pid)
    found = {f["kind"]: f for f in process["findings"]}
    print(report["verdict"], *(f for f in found.values() if f["kind"] in NEW), sep="\n")
    return found


@pytest.mark.parametrize("bottleneck,kind,subject,evidence", [
    ("python", "PythonBound", "normalize (bottlenecks.py:", "most of it normalize (bottlenecks.py:"),
    ("gil", "GilWait", "bottlenecks.py:", "which runs spin (bottlenecks.py:"),
    pytest.param("lock", "LockWait", "Lock.batch (bottlenecks.py:", "of it for lock at 0x",
                 marks=LONG),
    ("pipe", "InputWait", "Pipe.batch (bottlenecks.py:", "runs mostly normalize (bottlenecks.py:"),
    pytest.param("loader", "DataBound", "python3 (pid ", "runs mostly normalize (bottlenecks.py:", marks=LONG),
    pytest.param("no-workers", "DataBound", "python3 (pid ",
                 "its own thread prepares it, mostly in normalize (bottlenecks.py:", marks=LONG),
    ("checkpoint", "DiskWait", "Checkpoint.end (bottlenecks.py:", "of it for /var/tmp/checkpoint-"),
    pytest.param("sleep", "SleepWait", "Sleep.end (bottlenecks.py:", "for a fixed time to pass", marks=LONG),
])
def test_a_planted_bottleneck_is_named(bottleneck, kind, subject, evidence):
    found = findings(bottleneck)
    assert kind in found
    assert subject in found[kind]["subject"] and evidence in found[kind]["evidence"]
    assert found[kind]["severity"] in ("high", "medium")


def test_a_healthy_trainer_has_none():
    assert not NEW & findings("none").keys()
