# SPDX-License-Identifier: BSD-2-Clause
"""XGBoost: a step is a boosting round."""
import numpy
import xgboost
from truth import Truth

rng = numpy.random.default_rng(0)
X = rng.standard_normal((20000, 50), dtype=numpy.float32)
y = (X[:, :5].sum(1) > 0).astype(numpy.float32)
matrix = xgboost.DMatrix(X, y)
booster = xgboost.Booster({"objective": "binary:logistic", "max_depth": 6, "nthread": 2, "tree_method": "hist"}, [matrix])
truth = Truth()
while truth.going():
    booster.update(matrix, len(truth.ends_ns))
    truth.step()
truth.finish()
