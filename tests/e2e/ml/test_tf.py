# SPDX-License-Identifier: BSD-2-Clause
"""A current TensorFlow, from its own virtual environment: TF_VENV names it (make check-ml). Calls,
operations, steps and products of a running trainer equal those of the script."""
import json
import os
import pathlib
import subprocess

import pytest
import trainers
from conftest import functions, total
from trainers import Trainer, attached

# Forced, so that small operations are traced on a busy machine, too.
QUICK = ["--no-calibrate", "--memory", "off", "--host-level", "2"]
# Forward, for the weights, and for the inputs of the second layer; batch 32, 128, 64 and 10 wide.
STEP = 2 * (2 * 32 * 128 * 64 + 3 * 32 * 64 * 10)
EAGER = 2 * 20 * 30 * 40


@pytest.fixture(scope="module")
def tf_python():
    folder = os.environ.get("TF_VENV", "")
    python = pathlib.Path(folder) / "bin" / "python"
    if not folder or not python.exists():
        pytest.skip("TF_VENV names no virtual environment: make check-ml makes one where the "
                    "package registry can be reached")
    if subprocess.run([python, "-c", "import tensorflow"], capture_output=True).returncode:
        pytest.skip(f"{python} has no tensorflow")
    return str(python)


@pytest.fixture(scope="module")
def trainer(tf_python):
    t = Trainer(tf_python, "train_tf.py")
    yield t
    t.kill()


def traced(trainer, *commands, options=()):
    report = trainers.traced(trainer, commands, *QUICK, *options)
    (process,) = [p for p in report["processes"] if p["pid"] == trainer.pid]
    return report, process


def nodes(process):
    """{node name: calls}, without functions and calls from Python."""
    return {f["name"]: f["calls"] for f in process["functions"]
            if f["source"] == "tf" and not f["module"] and f["calls"]
            and not f["name"].startswith(("train_step_", "multi_step_on_iterator_"))}


def of_function(process, name):
    """Calls of a function's traced graphs, and the number of graphs (shapes)."""
    rows = [f["calls"] for f in process["functions"] if f["source"] == "tf" and f["calls"]
            and f["name"].rpartition("_")[0] == name]
    return sum(rows), len(rows)


def test_operations_by_node_name(trainer):
    graph = json.loads(trainer.command("ops 0")[-1])
    report, process = traced(trainer, "run 10")
    assert of_function(process, "train_step") == (10, 1)
    assert total(report, "TFE_Execute", "calls") == 0
    found = nodes(process)
    assert set(found.values()) == {10}
    # whatever the graph optimizer removes or adds, these must run
    products = {name for name, kind in graph.items() if kind == "MatMul"}
    assert len(products) == 5 and products <= set(found)
    assert {name for name, kind in graph.items() if kind == "AssignSubVariableOp"} <= set(found)


def test_eager_operations(trainer):
    report, process = traced(trainer, "eager 7")
    assert total(report, "TFE_Execute", "calls") == 7
    products = [f for f in process["functions"] if f["source"] == "tf" and "MatMul" in f["name"]]
    assert [f["calls"] for f in products] == [7]
    assert [(p["name"], p["calls"]) for p in products[0]["parents"]] == [("TFE_Execute", 7)]


def test_level_1_leaves_operations_out(trainer):
    _, process = traced(trainer, "run 3", options=["--host-level", "1"])
    assert of_function(process, "train_step") == (3, 1)
    assert not nodes(process)


@pytest.mark.parametrize("options", [(), ("-F", "libtensorflow_cc*:dnnl_sgemm")])
def test_steps_by_a_function(options, trainer):
    """Traced again for another shape, it is still the same step."""
    _, process = traced(trainer, "run 4", "new 3",
                        options=["--step-range", "train_step", *options])
    assert of_function(process, "train_step") == (7, 2)
    steps = process["steps"]
    assert steps["count"] == 7 and steps["by"].startswith("train_step_")
    assert sum(steps["breakdown"].values()) == steps["total_ns"]


def test_steps_of_keras(trainer):
    _, process = traced(trainer, "fit 6", options=["--step-range", "multi_step_on_iterator"])
    assert of_function(process, "multi_step_on_iterator") == (6, 1)
    assert process["steps"]["count"] == 6


def test_steps_of_keras_need_no_name(trainer):
    _, process = traced(trainer, "fit 6")
    assert of_function(process, "multi_step_on_iterator") == (6, 1)
    assert (process["steps"]["count"], process["steps"]["found_by"]) == (6, "call")


def test_products(trainer):
    report, process = traced(trainer, "run 10", "eager 7")
    assert process["compute"]["flops"] == 10 * STEP + 7 * EAGER
    assert process["compute"]["figures"].get("opaque", 0) == 0
    assert functions(report, "dnnl_threadpool_interop_sgemm")[0]["figures"]["counted"] == 57


@pytest.mark.parametrize("threads", ["1", "2"])
def test_products_that_xla_compiled_count_once(tf_python, threads):
    """XLA's thunks call the same sgemm as operators, also on pool threads."""
    trainer = Trainer(tf_python, "train_tf.py", "--threads", threads)
    try:
        report, process = traced(trainer, "xla 6")
    finally:
        trainer.kill()
    assert total(report, "dnnl_sgemm", "calls") >= 6
    assert process["compute"]["flops"] == 6 * 2 * 2 * 256 ** 3


def test_fused_products_are_not_guessed(trainer):
    """Keras's layers become _FusedMatMul, for which oneDNN does not use sgemm: two per step with
    unknown FLOPs, so those of a step are unknown."""
    _, process = traced(trainer, "fit 6")
    assert process["compute"]["figures"]["unread"] == 12
    assert "flops" not in process["steps"]
    assert process["compute"]["flops"] == 6 * 2 * (32 * 128 * 64 + 2 * 32 * 64 * 10)


def test_small_operations_may_be_left_alone(trainer):
    """By default their cost is limited by the budget; calls of functions are counted all the same."""
    tracer, _ = attached(trainer.pid, "--memory", "off")
    try:
        trainer.command("run 1500")
        report = tracer.stop()
    finally:
        tracer.kill()
    (process,) = [p for p in report["processes"] if p["pid"] == trainer.pid]
    assert of_function(process, "train_step") == (1500, 1)
    assert not any(f["unwound"] for f in process["functions"])
    assert report["losses"]["unmatched_returns"] == 0
