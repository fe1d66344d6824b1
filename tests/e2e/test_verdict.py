# SPDX-License-Identifier: BSD-2-Clause
"""Trainers with one planted fault each (tests/workloads/planted.py): it is the first finding, with its
place and the trainer's own measurement; healthy ones have nothing above low. If a remedy is known, it
brings the predicted gain."""
import json
import statistics
import subprocess
import time
from typing import NamedTuple

import pytest
from conftest import TOP, Tracer
from trainers import has_torch, traced_average

PYTHON = "/usr/bin/python3"
LONG = pytest.mark.long

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module", autouse=True)
def torch():
    if not has_torch(PYTHON):
        pytest.skip(f"{PYTHON} has no torch (Debian: python3-torch)")


def train(fault, *options, python=PYTHON):
    return subprocess.Popen([python, str(TOP / "tests/workloads/planted.py"), fault, *options],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(trainer):
    """The trainer's own measurement."""
    trainer.stdin.close()
    said = trainer.stdout.read().splitlines()
    trainer.wait(60)
    return json.loads(said[-1])


class Judged(NamedTuple):
    verdict: str
    findings: list
    step_time: dict
    planted_ns: float  # as the trainer has measured it

    @property
    def first(self):
        return self.findings[0]


def judge(fault, *options, python=PYTHON, seconds=4, warm_seconds=0):
    trainer = train(fault, *options, python=python)
    try:
        assert trainer.stdout.readline() == f"ready {trainer.pid}\n"
        time.sleep(warm_seconds)
        tracer = Tracer(trainer.pid, budget=True, duration=str(seconds))
        from_ns = time.monotonic_ns()
        try:
            report = tracer.report()
        finally:
            tracer.kill()
    finally:
        said = finish(trainer)
    planted_ns = traced_average(said["begun_ns"], said["planted_ns"], from_ns, seconds)
    process = next(p for p in report["processes"] if p["pid"] == trainer.pid)
    print(report["verdict"], f"planted {planted_ns:.0f} ns a step", *process["findings"], sep="\n")
    return Judged(report["verdict"], process["findings"], process["step_time"], planted_ns)


def measure(fault, *options, seconds=3):
    """What the trainer measures without a tracer."""
    trainer = train(fault, *options)
    assert trainer.stdout.readline() == f"ready {trainer.pid}\n"
    time.sleep(seconds)
    return finish(trainer)


class Fault(NamedTuple):
    kind: str
    headline: str
    function: str  # share of the place
    evidence: str
    within: float = 0.1  # share of the trainer's measurement; 0: that is not the gain
    seconds: int = 4  # longer if the gain rests on few samples


FAULTS = {
    # workers cost time: the remedy's test has the gain
    "starved": Fault("DataBound", "INPUT-BOUND", "normalize", "its own thread prepares it", 0),
    "storage": Fault("DataBound", "INPUT-BOUND", "Stored.__getitem__", "(0 workers; ", 0),
    "python": Fault("PythonBound", "PYTHON-BOUND", "normalize", "Python.normalized (planted.py:", seconds=16),
    "gil": Fault("GilWait", "GIL-BOUND", "Gil.watch", "Gil.watch (planted.py:"),
    "oversubscribed": Fault("Oversubscribed", "OVERSUBSCRIBED", "", ""),
    "kept": Fault("MemoryLeak", "MEMORY", "Trainer.forward", "retains"),
    "tiny": Fault("TinyOperators", "OPERATOR-BOUND", "Tiny.end", "", 0.15, seconds=16),  # sampled: three standard errors
    "float64": Fault("Float64", "COMPUTE-BOUND", "Trainer.forward", "float64"),
    "copies": Fault("Copies", "COPY-BOUND", "Copies.convert", ""),
    "saves": Fault("PeriodicStall", "STALLED", "Saves.save", "every 20", 0.2),  # a disk's time varies
    "convoy": Fault("LockWait", "LOCK-BOUND", "Convoy.end", "Convoy.update (planted.py:", 0),  # too few CPUs
    "garbage": Fault("GarbageCollection", "STALLED", "Garbage.end", ""),
    "rival": Fault("CpuContention", "CPU CONTENTION", "", "rival"),
    "pipe": Fault("DataBound", "INPUT-BOUND", "normalize", "runs mostly normalize", 0),
    "lock": Fault("LockWait", "LOCK-BOUND", "Lock.batch", "lock at 0x", 0.2),
    "synced": Fault("DiskWait", "DISK-BOUND", "Synced.end", "of it for /var/tmp/results-", 0.2),
    "sleep": Fault("SleepWait", "SLEEPING", "Sleep.end", "for a fixed time to pass"),
}
QUICK = ("starved", "storage")


@pytest.mark.parametrize("fault", [pytest.param(name, marks=() if name in QUICK else LONG) for name in FAULTS])
def test_a_planted_fault_is_the_first_finding(fault):
    expected, judged = FAULTS[fault], judge(fault, seconds=FAULTS[fault].seconds)
    assert judged.first["kind"] == expected.kind
    assert judged.first["severity"] in ("high", "medium")
    assert judged.verdict.startswith(expected.headline)
    assert expected.function in judged.first.get("place", {}).get("function", "")
    assert expected.evidence in judged.first["evidence"]
    if judged.planted_ns and expected.within:
        assert judged.first["gain_ns_per_step"] == pytest.approx(judged.planted_ns, rel=expected.within)
    if fault == "storage":
        assert "which sleeps 2." in judged.first["evidence"]
    if fault in ("starved", "storage"):
        assert judged.step_time["input_ns"] == pytest.approx(judged.planted_ns, rel=0.1)


@pytest.mark.parametrize("fault", ["none", pytest.param("transformer", marks=LONG),
                                   pytest.param("numpy", marks=LONG)])
def test_a_healthy_trainer_has_none(fault, monkeypatch):
    # glibc's allocator as TensorChurn advises: otherwise up to a third of the CPU time goes to pages,
    # which is a finding
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", str(32 << 20))
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", str(1 << 30))
    judged = judge(fault)
    assert [f for f in judged.findings if f["severity"] != "low"] == []
    assert judged.verdict.startswith(("HEALTHY", "No problem found"))


WHOLE_PROCESS = ("gil", "garbage")  # cannot be in one process with their remedy


def measured_gain(fault):
    """The gain per step, by alternating runs, because a machine's speed varies."""
    if fault not in WHOLE_PROCESS:
        measured = measure(fault, "--alternate", seconds=8)
        return measured["gain_ns"] / measured["step_ns"]
    rounds = [(measure(fault)["step_ns"], measure(fault, "--fixed")["step_ns"]) for _ in range(3)]
    return 1 - statistics.median(after for _, after in rounds) / statistics.median(before for before, _ in rounds)


@LONG
@pytest.mark.parametrize("fault", ["starved", "storage", "python", "tiny", "copies", *WHOLE_PROCESS])
def test_the_remedy_brings_what_was_predicted(fault):
    before, judged, after = measured_gain(fault), judge(fault, seconds=FAULTS[fault].seconds), measured_gain(fault)
    predicted = judged.first["gain_ns_per_step"] / judged.step_time["unit_ns"]
    print(f"predicted {predicted:.3f} of a step, measured {before:.3f} and {after:.3f}")
    assert predicted == pytest.approx((before + after) / 2, rel=0.2)
    assert FAULTS[fault].kind not in [f["kind"] for f in judge(fault, "--fixed").findings if f["severity"] != "low"]
