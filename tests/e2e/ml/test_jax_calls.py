# SPDX-License-Identifier: BSD-2-Clause
"""Calls of jitted functions of a running JAX process: by name, as many as the script makes; their
operations belong to them on any thread; compilations and transfers."""
import collections
import subprocess

import pytest
from conftest import PERFX, functions
from test_ml import jax_python, jax_trainer, traced_steps  # noqa: F401
from test_xla import jax, operations, traced  # noqa: F401

ROUND = {"multiply": 2, "attend": 1, "integers": 1, "convolve": 1, "convolve_groups": 1, "nested": 1}


def jitted(report):
    """{function: calls} of the functions that JAX names."""
    return {f["name"]: f["calls"] for p in report["processes"] for f in p["functions"]
            if f["source"] == "jax" and not f["module"] and f["calls"]}


def others(report, name):
    return sum(f["calls"] for f in functions(report, name) if f["source"] == "jax")


def check_owners(report):
    """Each run of an operation belongs to the function of its module, or to an operation that runs it
    (a loop)."""
    found = operations(report)
    assert found
    for name, row in found.items():
        module = name.split("/")[0]
        parents = collections.Counter()
        for parent in row["parents"]:
            parents[parent["name"]] += parent["calls"]
        owner = module.removeprefix("jit_")
        assert all(p == owner or p.startswith(f"{module}/") for p in parents), (name, parents)
        assert sum(parents.values()) == row["calls"]


@pytest.mark.parametrize("rounds", [1, 20])
def test_calls_by_name(rounds, jax):  # noqa: F811
    report = traced(jax, f"run {rounds}")
    assert jitted(report) == {name: n * rounds for name, n in ROUND.items()}
    assert not functions(report, "Execute")
    check_owners(report)


def test_on_several_threads(jax):  # noqa: F811
    report = traced(jax, "threads 5")
    assert jitted(report) == {name: n * 15 for name, n in ROUND.items()}
    check_owners(report)


def test_compiled_anew(jax):  # noqa: F811
    """Three shapes: three modules of one function."""
    report = traced(jax, "new 4")
    assert jitted(report) == {"multiply": 12}
    assert others(report, "CompileAndLoad") == 3
    check_owners(report)
    again = traced(jax, "new 4")
    assert jitted(again) == {"multiply": 12}
    assert others(again, "CompileAndLoad") == 0


def test_loops_belong_to_their_caller(jax):  # noqa: F811
    report = traced(jax, "loop 3")
    assert jitted(report) == {"loop": 3}
    check_owners(report)


def test_transfers(jax):  # noqa: F811
    report = traced(jax, "move 9")
    assert others(report, "BufferFromHostBuffer") == 9
    assert others(report, "AcquireExternalReference") == 9
    assert not jitted(report)


@pytest.mark.parametrize("options", [(), ("-F", "libjax_common*:dnnl_sgemm")])
def test_steps_by_a_jitted_function(options, jax_trainer):  # noqa: F811
    report = traced_steps(jax_trainer, 10, "--no-calibrate", "--step-range", "update", *options)
    (steps,) = [p["steps"] for p in report["processes"] if "steps" in p]
    assert (steps["count"], steps["by"]) == (10, "update")
    assert sum(steps["breakdown"].values()) == steps["total_ns"]


def test_report_says_what_is_enqueued(jax_trainer, tmp_path):  # noqa: F811
    capture = tmp_path / "run.perfx"
    report = traced_steps(jax_trainer, 5, "--no-calibrate", "--capture", str(capture))
    (update,) = [f for f in functions(report, "update") if f["source"] == "jax"]
    assert "gflops_per_s" not in update
    # XLA chooses the thread: the caller or one of its pool
    assert [p["compute"]["flops"] for p in report["processes"]][0] > 0
    text = subprocess.run([PERFX, "report", str(capture), "-f", "md"], capture_output=True,
                          text=True, timeout=60).stdout
    assert "when its work is enqueued" in text


def test_names_are_off_at_level_0(jax):  # noqa: F811
    report = traced(jax, "run 1", options=["--host-level", "0", "-F", "libjax_common*:dnnl_sgemm"])
    assert not jitted(report)
