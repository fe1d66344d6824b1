# SPDX-License-Identifier: BSD-2-Clause
"""FAISS: an exhaustive search, in native code with threads of OpenMP."""
import faiss
import numpy
from truth import Truth

faiss.omp_set_num_threads(1)
rng = numpy.random.default_rng(0)
index = faiss.IndexFlatL2(64)
index.add(rng.standard_normal((50_000, 64), dtype=numpy.float32))
queries = rng.standard_normal((64, 64), dtype=numpy.float32)
truth = Truth()
while truth.going():
    index.search(queries, 10)
truth.finish()
