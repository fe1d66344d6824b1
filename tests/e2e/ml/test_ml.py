# SPDX-License-Identifier: BSD-2-Clause
"""A current PyTorch and a current JAX, from a virtual environment: ML_VENV names it (make check-ml).
Times from command to "tracing" are printed (pytest -s), not judged."""
import os
import pathlib
import subprocess

import pytest
from conftest import total
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
    # scalars of the transformer's backward pass become tensors unprofiled, two a step
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
    """A dispatch a step; every step runs the same operations: twice the steps, twice the calls, and
    the operations of a perceptron of 256, 512, 512 and 10 with a batch of 256."""
    once = traced_steps(jax_trainer, 10, "--no-calibrate")
    twice = traced_steps(jax_trainer, 20)
    jax_trainer.finish()
    assert total(once, "Execute", "calls") == 10
    assert total(twice, "Execute", "calls") == 20
    runs = [{f["name"]: f["calls"] for p in r["processes"] for f in p["functions"]
             if f["name"].startswith("jit_update/")} for r in (once, twice)]
    assert runs[0] and not [n for n in runs[0].values() if n % 10]
    assert runs[1] == {name: 2 * n for name, n in runs[0].items()}
    # forward, weights' gradients, and inputs' gradients but the first
    layers = [256 * 512, 512 * 512, 512 * 10]
    step = 2 * 256 * (2 * sum(layers) + sum(layers[1:]))
    assert [r["processes"][0]["compute"]["flops"] for r in (once, twice)] == [10 * step, 20 * step]


def test_jax_matrix_products(jax_trainer):
    """Down in the libraries that multiply, from several threads: every step does the same, so each
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
