#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Products of NumPy arrays of many shapes. The operations beside each case are worked out by hand: a
multiply-add is 2, of complex numbers 8; 0 if NumPy does not call BLAS, and for a dot product."""

import argparse

import numpy as np

import ranges


def array(*sizes, dtype=np.float32):
    return np.ones(sizes, dtype)


def products():
    a, b = array(30, 50), array(50, 40)
    for name, flops in (("float32", 120000), ("float64", 120000), ("complex64", 480000),
                        ("complex128", 480000), ("int64", 0), ("float16", 0)):
        x, y = a.astype(name), b.astype(name)
        yield name, lambda x=x, y=y: x @ y, flops
    yield "mixed", lambda: a @ b.astype(np.float64), 120000
    yield "dot", lambda: np.dot(a, b), 120000
    yield "transposed", lambda: b.T @ a.T, 120000
    yield "large", lambda: array(512, 300) @ array(300, 400), 122880000
    # one triangle of the 30×30
    yield "by its own transpose", lambda: a @ a.T, 45000
    yield "transpose by itself", lambda: a.T @ a, 75000
    yield "float64 by its own transpose", lambda: a.astype(float) @ a.astype(float).T, 90000
    yield "rows far apart", lambda: array(300, 50)[::10] @ b, 120000
    yield "into a place", lambda: np.matmul(a, b, out=array(30, 40)), 120000
    yield "einsum", lambda: np.einsum("ij,jk->ik", a, b, optimize=True), 120000
    yield "tensordot", lambda: np.tensordot(array(2, 3, 5), array(5, 2, 7), ([2, 0], [0, 1])), 420
    yield "inner", lambda: np.inner(a, b.T.copy()), 120000


def edges():
    a, b = array(30, 50), array(50, 40)
    yield "no rows", lambda: a[:0] @ b, 0
    yield "no columns", lambda: a @ b[:, :0], 0
    yield "nothing between", lambda: a[:, :0] @ b[:0], 0
    yield "vector", lambda: a @ array(50), 3000
    yield "vector by matrix", lambda: array(30) @ a, 3000
    yield "column", lambda: a @ array(50, 1), 3000
    yield "row", lambda: array(1, 30) @ a, 3000
    yield "vectors", lambda: array(50) @ array(50), 0
    yield "outer", lambda: np.outer(array(50), array(50)), 0


def batches():
    yield "batch", lambda: array(7, 30, 50) @ array(7, 50, 40), 840000
    yield "batch of one", lambda: array(1, 30, 50) @ array(1, 50, 40), 120000
    yield "batch of none", lambda: array(0, 30, 50) @ array(0, 50, 40), 0
    yield "broadcast", lambda: array(2, 1, 30, 50) @ array(7, 50, 40), 1680000
    yield "batch by vector", lambda: array(7, 30, 50) @ array(50), 21000
    yield "matrix_power", lambda: np.linalg.matrix_power(array(20, 20) / 20, 8), 48000
    yield "multi_dot", lambda: np.linalg.multi_dot([array(3, 5), array(5, 4), array(4, 2)]), 140


def make(_):
    return [*products(), *edges(), *batches()]


if __name__ == "__main__":
    ranges.main(argparse.ArgumentParser(description=__doc__), make)
