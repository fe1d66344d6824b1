# SPDX-License-Identifier: BSD-2-Clause
"""scikit-learn's random forest by two threads: the main thread only waits for them."""
import numpy
from sklearn.ensemble import RandomForestClassifier
from truth import Truth

rng = numpy.random.default_rng(0)
X = rng.standard_normal((5000, 20))
y = X[:, :5].sum(1) > 0
truth = Truth()
while truth.going():
    RandomForestClassifier(n_estimators=40, n_jobs=2).fit(X, y)
truth.finish()
