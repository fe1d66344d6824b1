# SPDX-License-Identifier: BSD-2-Clause
"""Python trainers driven through their gate (tests/workloads/gate.py), and checks for any PyTorch:
shared by the tests of the distribution's PyTorch and of a current one (ml/)."""
import json
import subprocess
import time

from conftest import TOP, Tracer, consistent, functions, total

# Operators of one step of train_cnn.py's CNN in any release, by the model's arithmetic.
STEP = {"convolution": 2, "convolution_backward": 2, "addmm": 2, "mm": 4, "max_pool2d_with_indices": 2,
        "_log_softmax": 1, "nll_loss_forward": 1, "nll_loss_backward": 1}


def traced_average(begun_ns, values, from_ns, seconds):
    """Average of a trainer's own step times, of steps that began while it was traced, from a time
    (CLOCK_MONOTONIC) on."""
    traced = [value for begun, value in zip(begun_ns, values) if 0 <= begun - from_ns < seconds * 1e9]
    return sum(traced) / len(traced)


class Trainer:
    """An idle trainer of tests/workloads."""

    def __init__(self, python, script, *options):
        self.process = subprocess.Popen(
            [str(python), str(TOP / "tests/workloads" / script), "--gate", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            bufsize=1)
        line = self.process.stdout.readline()
        assert line.startswith("ready "), line
        self.pid = int(line.split()[1])

    def command(self, text):
        """Sends a command; returns the lines up to "done"."""
        self.process.stdin.write(text + "\n")
        lines = []
        for line in self.process.stdout:
            if line.startswith("done"):
                return lines
            lines.append(line)
        raise AssertionError(f"the trainer has ended: {self.process.wait()}: {lines}")

    def operators(self, steps):
        """torch.profiler's counts for so many steps: {"mm": 8, …}."""
        found = json.loads(self.command(f"profile {steps}")[-1])["ops"]
        return {name.split("::", 1)[1]: count for name, count in found.items()}

    def finish(self):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        assert self.process.wait(60) == 0
        return rest

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def has_torch(python):
    """Looks for it only, because importing it takes a second or two."""
    find = "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))"
    return subprocess.run([str(python), "-c", find], capture_output=True).returncode == 0


def calls_by_operator(report):
    """Calls by operator, named as in torch.profiler: by label, without overload."""
    found = {}
    for process in report["processes"]:
        for f in process["functions"]:
            if not f["name"].endswith("::call") or not f["calls"]:
                continue
            assert f["label"].startswith("aten::"), f["name"]
            assert f["name"] == f"at::_ops::{f['label'][len('aten::'):].replace('.', '_')}::call"
            name = f["label"][len("aten::"):].split(".")[0]
            found[name] = found.get(name, 0) + f["calls"]
    return found


def attached(pid, *options):
    """The tracer, and the seconds from command to "tracing"."""
    start = time.monotonic()
    tracer = Tracer(pid, *options)
    return tracer, time.monotonic() - start


def traced(trainer, commands, *options):
    """The report of these commands, without losses."""
    tracer, _ = attached(trainer.pid, *options)
    try:
        for command in commands:
            trainer.command(command)
        report = tracer.stop()
    finally:
        tracer.kill()
    assert not {k: n for k, n in report["losses"].items() if n}
    return report


def check_every_operator(trainer, how, at_least=()):
    """Counts of the same steps equal the profiler's, operator by operator. Those of at_least may be
    larger, because PyTorch calls these operators where its profiler does not look."""
    steps = 4
    trainer.command("run 2")
    expected = trainer.operators(steps)
    assert len(expected) > 40
    tracer, seconds = attached(trainer.pid, "--no-calibrate", "--return", how, "-F",
                               "libtorch_cpu*:at::_ops::*::call")
    try:
        trainer.command(f"run {steps}")
        report = tracer.stop()
    finally:
        tracer.kill()
    print(f"{tracer.lines[-1].strip()} after {seconds:.2f} s")
    consistent(report)
    calls = calls_by_operator(report)
    for name in at_least:
        assert calls.pop(name, 0) >= expected.pop(name, 0)
    assert calls == expected
    assert not any(f["unwound"] for p in report["processes"] for f in p["functions"])
    for loss in ("unmatched_entries", "unmatched_returns", "ring_drops", "untimed_calls"):
        assert report["losses"][loss] == 0


def check_default_options(trainer, steps=10):
    """Only -p PID, with DataLoader workers: counts are steps × calls of a step."""
    tracer, seconds = attached(trainer.pid)
    try:
        trainer.command(f"run {steps}")
        report = tracer.stop()
    finally:
        tracer.kill()
    print(f"{tracer.lines[-1].strip()} after {seconds:.2f} s")
    consistent(report)
    calls = {name: sum(f["calls"] for f in functions(report, f"{name}::call", trainer.pid))
             for name in STEP}
    assert calls == {name: steps * count for name, count in STEP.items()}
    assert total(report, "execute", "calls", trainer.pid) == steps, "backward passes"
    return report
