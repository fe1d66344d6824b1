# SPDX-License-Identifier: BSD-2-Clause
"""What a mark costs that nobody traces: in C beside a USDT probe and NVTX's range, and in Python."""
import os
import subprocess

from output import median, progress, say, spread, table

NAMES = {"usdt": "USDT probe: a nop", "flops": "perfx_flops", "mark": "perfx_mark",
         "counter": "perfx_counter", "scope": "PERFX_SCOPE", "start-end": "perfx_range_start + end",
         "nvtx": "nvtxRangePush + Pop", "track": "Python: @perfx.track",
         "python-scope": "Python: with perfx.scope"}

PYTHON = """
import sys, timeit
sys.path.insert(0, {source!r} + "/python")
import perfx
def plain(): pass
tracked = perfx.track(plain)
scope = perfx.scope("s")
def scoped():
    with scope: pass
N = 100000
base = timeit.timeit(plain, number=N)
for name, fn in (("track", tracked), ("python-scope", scoped)):
    print(name, (timeit.timeit(fn, number=N) - base) / N * 1e9)
"""


class Marks:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims

    def commands(self):
        yield [os.path.join(self.options.build, "bench", "markers")]
        library = os.path.abspath(os.path.join(self.options.build, "libperfx.so.1"))
        yield ["env", f"PERFX_LIBRARY={library}", "/usr/bin/python3", "-B", "-c",
               PYTHON.format(source=self.options.source)]

    def run(self):
        say(f"marks: what one costs untraced, ns, {self.options.rounds} rounds, without the loop")
        found = {}
        for _ in range(self.options.rounds):
            progress("marks")
            for command in self.commands():
                lines = subprocess.run(command, check=True, stdout=subprocess.PIPE,
                                       text=True).stdout.splitlines()
                figures = {name: float(ns) for name, ns in map(str.split, lines)}
                loop = figures.pop("loop", 0)
                for name, ns in figures.items():
                    found.setdefault(name, []).append(ns - loop)
        progress("")
        table(["", "median", "min", "max"],
              [[label, *spread(found.get(name), 2)] for name, label in NAMES.items()])
        if "nvtx" not in found:
            say("  NVTX: no nvtx3/nvToolsExt.h was found when this was built")
        self.aims.add("PERFX_SCOPE, untraced", median(found["scope"]), 10, " ns", 2)
        say()
        return found

