# SPDX-License-Identifier: BSD-2-Clause
"""joblib's process pool: the parent only waits for four workers, twice as many as there are CPUs here."""
import os

import joblib
import numpy
from truth import Truth


def multiply(seconds):
    import time

    a = numpy.random.default_rng(0).standard_normal((400, 400))
    until = time.time() + seconds
    while time.time() < until:
        a = a @ a / 400


def main():
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with joblib.Parallel(n_jobs=2 * os.cpu_count(), backend="loky") as parallel:
        parallel(joblib.delayed(multiply)(0.1) for _ in range(8))
        truth = Truth()
        while truth.going():
            parallel(joblib.delayed(multiply)(1) for _ in range(8))
    truth.finish()


if __name__ == "__main__":
    main()
