# SPDX-License-Identifier: BSD-2-Clause
"""torch.compile of new functions, one after the other: the C++ compiler and Inductor take the time."""
import os
import tempfile

os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"

import torch
from truth import Truth

torch.set_num_threads(1)
x = torch.randn(64, 64)


def new_function(i):
    def function(a):
        for _ in range(2 + i % 5):
            a = torch.sin(a) * (1 + i) + a.cos()
        return a
    return function


def compiled(i):
    torch.compiler.reset()
    return torch.compile(new_function(i))(x)


truth = Truth()
i = 0
while truth.going():
    compiled(i)
    i += 1
truth.finish()
