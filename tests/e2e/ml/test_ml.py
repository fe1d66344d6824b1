# SPDX-License-Identifier: BSD-2-Clause
"""A current PyTorch and a current JAX, from a virtual environment: ML_VENV names it (make check-ml).
Times from command to "tracing" are printed (pytest -s), not judged."""
import json
import os
import pathlib
import subprocess

import ranges
import pytest
from conftest import BUILD, PERFX, TOP, total
from flops import check_shapes, check_steps, check_sums
from memory_trainers import (check_arrays, check_leak, check_shared_batches, check_steady,
                             check_steps_balance)
from trainers import Trainer, attached, check_default_options, check_every_operator, has_torch


def venv_python():
    folder = os.environ.get("ML_VENV", "")
    python = pathlib.Path(folder) / "bin" / "python"
    if not folder or not python.exists():
        pytest.skip("ML_VENV names no virtual environment: make check-ml makes one")
    return str(python)


@pytest.fixture(scope="module")
def torch_python():
    python = venv_python()
    if not has_torch(python):
        pytest.skip(f"{python} has no torch")
    return python


@pytest.fixture(scope="module")
def jax_python():
    python = venv_python()
    if subprocess.run([python, "-c", "import jax"], capture_output=True).returncode:
        pytest.skip(f"{python} has no jax")
    return python


@pytest.fixture(params=["mlp", "cnn", "transformer"])
def torch_trainer(request, torch_python):
    t = Trainer(torch_python, "train_cnn.py", "--workers", "0", "--model", request.param)
    yield t
    t.kill()


@pytest.mark.parametrize("how", ["auto", "exit"])
def test_every_operator_as_torch_profiler_counts_it(how, torch_trainer):
    # scalars of the transformer's backward pass become tensors outside the profiler, two per step
    check_every_operator(torch_trainer, how, at_least=["empty"])


def test_torch_by_default_with_workers(torch_python):
    t = Trainer(torch_python, "train_cnn.py", "--workers", "2")
    try:
        check_default_options(t)
        t.finish()
    finally:
        t.kill()


@pytest.fixture
def jax_trainer(jax_python):
    t = Trainer(jax_python, "train_jax.py")
    yield t
    t.kill()


def traced_steps(trainer, steps, *options):
    tracer, seconds = attached(trainer.pid, *options)
    try:
        trainer.command(f"run {steps}")
        report = tracer.stop()
    finally:
        tracer.kill()
    print(f"{tracer.lines[-1].strip()} after {seconds:.2f} s")
    assert report["losses"]["ring_drops"] == 0
    return report


def test_jax_by_default(jax_trainer):
    """One dispatch per step. Every step runs the same operations: twice the steps make twice the calls,
    and the operations are those of a perceptron of 256, 512, 512 and 10 with a batch of 256."""
    once = traced_steps(jax_trainer, 10, "--no-calibrate")
    twice = traced_steps(jax_trainer, 20)
    jax_trainer.finish()
    assert total(once, "update", "calls") == 10
    assert total(twice, "update", "calls") == 20
    runs = [{f["name"]: f["calls"] for p in r["processes"] for f in p["functions"]
             if f["name"].startswith("jit_update/")} for r in (once, twice)]
    assert runs[0] and not [n for n in runs[0].values() if n % 10]
    assert runs[1] == {name: 2 * n for name, n in runs[0].items()}
    # forward, weights' gradients, and inputs' gradients but the first
    layers = [256 * 512, 512 * 512, 512 * 10]
    step = 2 * 256 * (2 * sum(layers) + sum(layers[1:]))
    assert [r["processes"][0]["compute"]["flops"] for r in (once, twice)] == [10 * step, 20 * step]


def test_jax_matrix_products(jax_trainer):
    """The libraries that multiply, called from several threads: every step does the same, so each
    function's calls are a multiple of the steps."""
    report = traced_steps(jax_trainer, 10, "--no-calibrate", "-F",
                          "libjax_common*:{dnnl_sgemm,ynn*::dot_*}")
    jax_trainer.finish()
    rows = {f["name"]: f["calls"] for p in report["processes"] for f in p["functions"]}
    assert rows
    assert not {name: calls for name, calls in rows.items() if not calls or calls % 10}


# --- memory ---

@pytest.mark.parametrize("what", ["torch", "numpy"])
def test_arrays(what, torch_python):
    check_arrays(torch_python, what)


@pytest.mark.parametrize("check", [check_steps_balance, check_shared_batches])
def test_tensors_of_a_trainer(check, torch_python):
    check(torch_python)


@pytest.mark.parametrize("check", [check_steady, check_leak])
def test_leaks(check, torch_python):
    check(torch_python, 20)


# --- floating-point operations ---

@pytest.mark.parametrize("script", ["shapes_torch.py", "shapes_numpy.py"])
def test_shapes(script, torch_python):
    check_shapes(torch_python, script)


@pytest.mark.parametrize("model", ["mlp", "cnn", "transformer"])
@pytest.mark.parametrize("how", ["eager", "autocast", "compile"])
def test_models(model, how, torch_python):
    """FLOPs equal PyTorch's own counter and the arithmetic of the layers. The counter does not see into
    compiled graphs; the backward pass of attention computes scores again."""
    options = [] if how == "eager" else [f"--{how}"]
    check_steps(torch_python, model, recomputes=True, counter=how != "compile", options=options)


def test_jax_flops(jax_trainer):
    """256 inputs, layers of 512 and 512, 10 outputs, a batch of 256: forward, gradients of the weights,
    and of the inputs of all layers but the first. Without calibration, because small operations would
    be too expensive to time."""
    report = traced_steps(jax_trainer, 10, "--no-calibrate")
    jax_trainer.finish()
    check_sums(report)
    first, rest = 2 * 256 * 256 * 512, 2 * 256 * (512 * 512 + 512 * 10)
    assert sum(p["compute"]["flops"] for p in report["processes"]) == 10 * (2 * first + 3 * rest)


def test_jax_shapes(jax_python):
    trainer = Trainer(jax_python, "shapes_jax.py")
    try:
        expected = int(trainer.command("expect 0")[-1])
        report = traced_steps(trainer, 2, "--no-calibrate")
        trainer.finish()
    finally:
        trainer.kill()
    check_sums(report)
    assert sum(p["compute"]["flops"] for p in report["processes"]) == 2 * expected


JITTED = """
import inspect, json, sys, time
sys.path.insert(0, "python")
import jax, jax.numpy as jnp, perfx

@perfx.track
@jax.jit
def step(x, scale=2.0):
    return (x @ x.T).sum() * scale

class Net:
    @perfx.track
    @jax.jit
    def forward(x):
        return x * 2

@perfx.track
def ready(x):
    return step(x).block_until_ready()

took_ms = 0.0

def loop(n):
    global took_ms
    for _ in range(n):
        result = step(x)
        begun = time.perf_counter()
        ready(large)
        took_ms += (time.perf_counter() - begun) * 1e3
    return result

x, large = jnp.ones((64, 64)), jnp.ones((1000, 1000))
step(x).block_until_ready(), step(large).block_until_ready()
result, stats = perfx.profile(loop, 25)
executed = [row["calls"] for p in stats.report["processes"] for row in p["functions"]
            if (row["name"], row["source"]) == ("step", "jax")]
print(json.dumps({
    "marked": stats["step"].call_count, "ready": stats["ready"].call_count,
    "agrees": 0.95 < stats["ready"].total_duration_ms / took_ms < 1.05,
    "signature": str(inspect.signature(step)), "result": float(result), "executed": sum(executed),
    "lowered": "jit_step" in step.lower(x).as_text(), "jaxpr": "dot_general" in str(jax.make_jaxpr(step)(x)),
    "gradient": jax.grad(step)(x).shape[0], "method": float(Net.forward(x)[0, 0])}))
"""


def test_jitted_functions_can_be_marked(jax_python):
    run = subprocess.run([jax_python, "-c", JITTED], capture_output=True, text=True, timeout=300,
                         cwd=TOP, env={**os.environ, "PERFX_TRACE": PERFX, "JAX_PLATFORMS": "cpu",
                                       "PERFX_LIBRARY": str(BUILD / "libperfx.so.1")})
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {
        "marked": 50, "ready": 25, "agrees": True,
        "signature": "(x, scale=2.0)", "result": 2.0 * 64**3, "executed": 50, "lowered": True,
        "jaxpr": True, "gradient": 64, "method": 2.0}


@pytest.mark.parametrize("workers", [0, 2])
def test_ranges_and_steps(torch_python, workers):
    profiled, report, process = ranges.trace(torch_python, workers)
    assert ranges.calls(process, "torch") == profiled
    assert len(profiled) == 6 and set(profiled.values()) == {ranges.STEPS}
    assert ranges.calls(process, "nvtx") == {"whole step": ranges.STEPS}
    steps = ranges.check_breakdown(process, "Optimizer.step#SGD.step",
                                  {"data", "forward", "backward", "optimizer", "other", "untraced"})
    ranges.check_step_flops(process)
    assert ranges.flops_of(process, "forward: Schritt №") == ranges.STEPS * ranges.FORWARD
    assert ranges.flops_of(process, "whole step") == ranges.STEPS * ranges.STEP
    assert ranges.flops_of(process, "Optimizer.step#SGD.step") is None
    data = sum(f["total_ns"] for f in process["functions"] if "DataLoader" in f["name"])
    assert abs(steps["breakdown"]["data"] - data) <= data / 100
    assert not [n for n in report["not_attached"] if n["name"] == "names of record_function"]


NVTX = """
import torch
for _ in range(10):
    torch.cuda.nvtx.range_push("pushed")
    torch.cuda.nvtx.mark("marked")
    torch.cuda.nvtx.range_pop()
"""


def test_nvtx_of_torch_from_the_start(torch_python, tmp_path):
    """`run` gives NVTX a library to call; PyTorch's own out-of-line functions do not count twice."""
    file = tmp_path / "report.json"
    run = subprocess.run([PERFX, "run", "--no-calibrate", "--memory", "off", "-o", str(file), "--",
                          torch_python, "-c", NVTX], capture_output=True, text=True, timeout=120)
    if "NVTX functions not installed" in run.stderr:
        pytest.skip("this PyTorch has no NVTX")
    assert run.returncode == 0, run.stderr
    found = {f["name"]: f["calls"] for p in json.loads(file.read_text())["processes"]
             for f in p["functions"] if f["source"] == "nvtx"}
    assert found == {"pushed": 10, "marked": 10}


WGAN = """
import torch
torch.set_num_threads(1)
make = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
judge = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
makes, judges = (torch.optim.Adam(net.parameters()) for net in (make, judge))
real = torch.randn(64, 32)
print("ready", flush=True)
while True:
    for _ in range(5):
        judges.zero_grad()
        (judge(make(torch.randn(64, 16)).detach()).mean() - judge(real).mean()).backward()
        judges.step()
    makes.zero_grad()
    (-judge(make(torch.randn(64, 16))).mean()).backward()
    makes.step()
"""

LBFGS = """
import sys, time, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 4))
x, y = torch.randn(256, 64), torch.randn(256, 4)
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=10, history_size=20)
evaluated = 0.0

def closure():
    global evaluated
    begun = time.perf_counter()
    optimizer.zero_grad()
    loss = (net(x) - y).square().mean()
    loss.backward()
    evaluated += time.perf_counter() - begun
    return loss

print("ready", flush=True)
begun = time.perf_counter()
while time.perf_counter() - begun < 8:
    optimizer.step(closure)
print(1 - evaluated / (time.perf_counter() - begun), flush=True)
"""


def steps_of(python, program, tmp_path):
    """Steps of a running program, and its output if it ends."""
    with subprocess.Popen([python, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            result = subprocess.run([PERFX, "-p", str(process.pid), "-d", "3", "--max-overhead", "100%", "-o",
                                     tmp_path / "report.json"], capture_output=True, text=True, timeout=120, check=False)
            said = process.stdout.readline() if "perf_counter" in program else ""
        finally:
            process.kill()
    assert result.returncode == 0, result.stderr
    report, = json.loads((tmp_path / "report.json").read_text())["processes"]
    return report["steps"], said


def test_a_step_of_two_optimizers_is_an_iteration(torch_python, tmp_path):
    """Five updates of a critic for each one of its generator, by the models' arithmetic."""
    inner, outer, last = 2 * 64 * 16 * 64, 2 * 64 * 64 * 32, 2 * 64 * 64
    judged = outer + last
    critic = (inner + outer) + 2 * judged + 2 * (outer + 2 * last)  # forward, and without the input's gradients
    generator = (inner + outer) + judged + (2 * outer + 2 * last) + (2 * outer + inner)
    steps, _ = steps_of(torch_python, WGAN, tmp_path)
    assert steps["computed"] > 10
    assert steps["flops"] == steps["computed"] * (5 * critic + generator)


def test_an_optimizer_works_between_evaluations(torch_python, tmp_path):
    steps, share = steps_of(torch_python, LBFGS, tmp_path)
    part = steps["breakdown"]["optimizer"] / steps["total_ns"]
    print(f"{part:.3f} of a step, by the program's own clock {float(share):.3f}")
    assert part == pytest.approx(float(share), rel=0.3)
