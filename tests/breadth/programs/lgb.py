# SPDX-License-Identifier: BSD-2-Clause
"""LightGBM: a step is a boosting round."""
import lightgbm
import numpy
from truth import Truth

rng = numpy.random.default_rng(0)
X = rng.standard_normal((50000, 50), dtype=numpy.float32)
y = (X[:, :5].sum(1) > 0).astype(numpy.float32)
booster = lightgbm.Booster({"objective": "binary", "num_threads": 2, "verbose": -1}, lightgbm.Dataset(X, y))
truth = Truth()
while truth.going():
    booster.update()
    truth.step()
truth.finish()
