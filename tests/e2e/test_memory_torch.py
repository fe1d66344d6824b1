# SPDX-License-Identifier: BSD-2-Clause
"""Tensors of the distribution's PyTorch and arrays of its NumPy, by arithmetic; leaks and their
places."""
import subprocess

import pytest
from memory_trainers import (check_arrays, check_leak, check_shared_batches, check_steady,
                             check_steps_balance)
from trainers import has_torch

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def python():
    if not has_torch(PYTHON):
        pytest.skip(f"{PYTHON} has no torch (Debian: python3-torch)")
    return PYTHON


def test_tensors(python):
    check_arrays(python, "torch")


def test_arrays():
    if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode:
        pytest.skip(f"{PYTHON} has no numpy (Debian: python3-numpy)")
    check_arrays(PYTHON, "numpy")


def test_steps_balance(python):
    check_steps_balance(python)


@pytest.mark.long
def test_shared_batches(python):
    check_shared_batches(python)


def test_steady_trainer_leaks_nothing(python):
    check_steady(python, 3)


@pytest.mark.long
@pytest.mark.alone  # a rate
def test_one_tensor_kept_each_step(python):
    check_leak(python, 8)
