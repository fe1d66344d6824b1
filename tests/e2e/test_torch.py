# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's PyTorch: a CNN that learns, counted beside torch.profiler."""
import json
import subprocess

import ranges
import pytest
from conftest import PERFX, TOP, Tracer, functions, on_terminal, readable, run
from trainers import (STEP, Trainer, calls_by_operator, check_default_options, check_every_operator, has_torch,
                      traced)

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def python():
    if not has_torch(PYTHON):
        pytest.skip(f"{PYTHON} has no torch (Debian: python3-torch)")
    return PYTHON


@pytest.fixture(scope="module")
def trainer(python):
    t = Trainer(python, "train_cnn.py", "--workers", "0")
    yield t
    t.kill()


# "auto" means exit probes in a C++ library, where the kernel has session links.
@pytest.mark.some(1)
@pytest.mark.parametrize("how", ["auto", "exit"])
def test_every_operator_as_torch_profiler_counts_it(how, trainer):
    check_every_operator(trainer, how)


def test_patterns_of_operators(trainer):
    """-F accepts the profiler's names, with and without overload, and traces only these operators."""
    counts = trainer.operators(4)
    names = [name for name in counts if "_" not in name.strip("_")]
    report = traced(trainer, ["run 4"], "-F", f"aten::{{{','.join(names)}}}", "-F", "!aten::*.out",
                    "--host-level", "0", "--memory", "off")
    calls = calls_by_operator(report)
    assert calls == {name: counts[name] for name in names} and len(calls) > 5
    labels = {f["label"] for f in report["processes"][0]["functions"] if f["calls"]}
    overload = min(label for label in labels if "." in label)
    report = traced(trainer, ["run 4"], "-F", overload, "--host-level", "0", "--memory", "off")
    assert {f["label"] for f in report["processes"][0]["functions"]} == {overload}


def test_a_pattern_of_an_operator_that_is_none(trainer):
    result = run("-p", trainer.pid, "-d", "1", "-F", "aten::addmmm")
    assert result.returncode == 2 and "similar: aten::addmm" in result.stderr


def test_default_options(trainer):
    check_default_options(trainer)


@pytest.mark.long
def test_default_options_with_workers(python):
    t = Trainer(python, "train_cnn.py", "--workers", "2")
    try:
        report = check_default_options(t)
        assert len(report["processes"]) == 3, "the workers are processes of their own"
        t.finish()
    finally:
        t.kill()


def check_short(capture):
    """The summary fits 125 lines of 100 columns; the whole report has more."""
    short, full = (on_terminal(100, "report", capture, *options, NO_COLOR="1").splitlines()
                   for options in ([], ["--full"]))
    assert len(short) <= 125 < len(full), "\n".join(short)
    assert max(map(len, short)) <= 100
    text = "\n".join(short)
    for part in ("Findings", " steps by ", "Memory", "python3: 2 identical workers (pids ", "Cost: ", "--full"):
        assert part in text, text
    assert "not attached" not in text and "Hint: Python functions: attaching samples them by line" in text


def check_untraced(report, pid):
    """The main thread's time outside all functions and inside them adds up to all of its time. With
    steps, the time outside equals the gaps in them, computed call by call."""
    process = next(p for p in report["processes"] if p["pid"] == pid)
    untraced, steps, wall = process["untraced"], process["steps"], process["wall_ns"]
    traced = sum(f.get("self_ns", 0) for f in process["functions"])
    assert all(f["threads"] <= 1 for f in process["functions"]), "of the main thread alone"
    assert untraced["tid"] == pid and untraced["wall_ns"] == wall
    assert traced + untraced["self_ns"] + untraced["running_ns"] == pytest.approx(wall, rel=0.01)
    assert untraced["self_percent"] / 100 == pytest.approx(steps["breakdown"]["untraced"] / steps["divided_ns"], abs=0.1)


def test_a_trainer_that_runs(python, tmp_path):
    """No gate: attached and detached in mid-step. Each operator's count is steps × its own, within the
    two partial steps."""
    capture = tmp_path / "run.perfx"
    process = subprocess.Popen([PYTHON, str(TOP / "tests/workloads/train_cnn.py"), "--workers", "2",
                                "--every", "10"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
    try:
        assert process.stdout.readline().startswith(b"step ")
        tracer = Tracer(process.pid, "--no-calibrate", "--capture", capture)
        while readable(process.stdout, 0):
            process.stdout.readline()
        assert all(process.stdout.readline().startswith(b"step ") for _ in range(2)), "ten steps lie between them"
        report = tracer.stop()
        assert process.poll() is None
        process.terminate()
        assert b"steps=" in process.communicate(timeout=60)[0]
        assert process.returncode == 0
    finally:
        process.kill()
    calls = {name: sum(f["calls"] for f in functions(report, f"{name}::call", process.pid))
             for name in STEP}
    steps = calls["convolution"] // STEP["convolution"]
    assert steps >= 9
    assert len(report["processes"]) == 3, "the workers are processes of their own"
    for name, count in calls.items():
        assert abs(count - steps * STEP[name]) <= 2 * STEP[name], calls
    assert report["losses"]["unmatched_returns"] <= 8, "calls that ran when tracing began"
    assert report["losses"]["unmatched_entries"] <= 8, "calls that ran when tracing ended"
    check_untraced(report, process.pid)
    assert not any(f["unwound"] for f in report["processes"][0]["functions"])
    check_short(capture)


@pytest.mark.some(1)
@pytest.mark.parametrize("options", [(), ("-F", "libtorch_cpu*:at::_ops::mm::call")])
def test_steps_without_names(python, options):
    """In PyTorch 1.13 no function receives the ranges' names: steps are those of the backward pass."""
    profiled, report, process = ranges.trace(python, 0, *options)
    nameless = sum(f["calls"] for f in process["functions"] if "name not known" in f["name"])
    named = ranges.calls(process, "torch")
    if not nameless:
        assert named == profiled
        return
    assert nameless == sum(profiled.values())
    ranges.check_breakdown(process, "torch::autograd::Engine::execute", {"backward", "other", "untraced"})
    if not options:
        ranges.check_step_flops(process)
    assert [n["reason"] for n in report["not_attached"] if n["name"] == "names of record_function"]


SET_UP = """
import gc, time, torch
torch.set_num_threads(1)
# imported
kept = [[] for i in range(300000)]
end = time.monotonic() + 1
while time.monotonic() < end:
    gc.collect()
del kept
net = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(256, 256)
for step in range(100):
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
"""


def test_start_up_is_no_step(python, tmp_path):
    """A program that collects garbage for a second before it trains does not collect in a step."""
    file = tmp_path / "report.json"
    result = subprocess.run([PERFX, "run", "--no-calibrate", "-o", str(file), "--", python, "-c", SET_UP],
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    process = json.loads(file.read_text())["processes"][0]
    assert process["steps"]["startup_ns"] > 1e9
    assert process["steps"]["count"] >= 95
    assert "GarbageCollection" not in {f["kind"] for f in process["findings"]}
    assert "collecting garbage" not in result.stderr


# test_start_up_is_no_step has steps with a start-up
@pytest.mark.some(1)
@pytest.mark.parametrize("imported", [True, False])
def test_who_was_started_here(python, tracer, imported):
    """The same program, attached during its set-up. Its work after the import of PyTorch belongs to the
    recording, however late that begins; before that it cannot have had steps."""
    wait = "print('ready', flush=True); input()\n"
    program = SET_UP.replace("# imported\n", wait) if imported else wait + SET_UP
    with subprocess.Popen([python, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          bufsize=1) as started:
        try:
            assert started.stdout.readline() == "ready\n"
            t = tracer(started.pid, "--no-calibrate")
            started.stdin.write("\n")
            report = t.report()
        finally:
            started.kill()
    process = report["processes"][0]
    assert process["steps"]["count"] >= 95
    assert ("startup_ns" in process["steps"]) == (not imported)
