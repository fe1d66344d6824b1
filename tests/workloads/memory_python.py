# SPDX-License-Identifier: BSD-2-Clause
"""CPython's small objects: some hundred thousand blocks, of which every other hundred is freed."""
import sys

kept = [[str(i) + "x" * (i % 300) for i in range(j, j + 100)] for j in range(0, 200_000, 100)]
del kept[::2]
print("ready", flush=True)
sys.stdin.readline()
sys._debugmallocstats()  # pylint: disable=protected-access
