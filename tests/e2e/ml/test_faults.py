# SPDX-License-Identifier: BSD-2-Clause
"""Planted faults, and a healthy trainer, with a current PyTorch and a current JAX; as
test_verdict.py."""
import pytest
from test_ml import jax_python, torch_python  # noqa: F401, fixtures
from test_verdict import judge

pytestmark = pytest.mark.alone

# Long enough for another compilation, and for a program older than its warm-up.
TIMES = {"seconds": 10, "warm_seconds": 5}


def test_a_recompiling_jax(jax_python):  # noqa: F811
    judged = judge("recompiling", python=jax_python, **TIMES)
    assert judged.first["kind"] == "Recompilation"
    assert judged.first["severity"] in ("high", "medium")
    assert judged.first["place"]["function"] == "Jax.step"


def test_guards_of_torch_compile(torch_python):  # noqa: F811
    """Recorded from the first steps on, because after about 150 all lengths are compiled."""
    judged = judge("guards", python=torch_python, seconds=10)
    assert judged.verdict.startswith("RECOMPILING")
    assert "Guards.forward (planted.py:" in judged.verdict


@pytest.mark.parametrize("fault, fixed", [("jax", []), ("recompiling", ["--fixed"])])
def test_a_healthy_jax(jax_python, fault, fixed):  # noqa: F811
    judged = judge(fault, *fixed, python=jax_python, **TIMES)
    assert [f for f in judged.findings if f["severity"] != "low"] == []
