# SPDX-License-Identifier: BSD-2-Clause
"""numba: compiled code in anonymous memory, called from one line."""
import numba
import numpy
from truth import Truth


@numba.njit
def collatz(n):
    longest = 0
    for start in range(1, n):
        length, value = 0, start
        while value != 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            length += 1
        longest = max(longest, length)
    return longest


def work():
    return collatz(200_000)


work()
truth = Truth()
while truth.going():
    work()
truth.finish()
