# SPDX-License-Identifier: BSD-2-Clause
"""Cost of an annotation, untraced, in C beside a USDT probe and NVTX's range, and in Python; and
traced, beside a USDT probe that perfx-trace and bpftrace count."""
import os
import subprocess

import tracers
from output import median, progress, say, spread, table

NAMES = {"usdt": "USDT probe: a nop", "flops": "perfx_flops", "mark": "perfx_mark",
         "counter": "perfx_counter", "scope": "PERFX_SCOPE", "start-end": "perfx_range_start + end",
         "nvtx": "nvtxRangePush + Pop", "track": "Python: @perfx.track",
         "python-scope": "Python: with perfx.scope"}

TRACED = [("mark", "perfx_mark"), ("counter", "perfx_counter"), ("scope", "PERFX_SCOPE (two markers)"),
          ("start-end", "perfx_range_start + end"), ("flops", "perfx_flops"),
          ("usdt", "USDT probe, --usdt bench:plain")]
PEER = [("usdt", "USDT probe, bpftrace: count()"), ("mark", "perfx_mark, bpftrace: count()")]

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


class Watching(tracers.Patched):
    """Its program has ended before the tracer is stopped."""

    def stop(self):
        tracers.Peer.stop(self)


class Annotations:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims

    def commands(self):
        yield [os.path.join(self.options.build, "bench", "markers")]
        library = os.path.abspath(os.path.join(self.options.build, "libperfx.so.1"))
        yield ["env", f"PERFX_LIBRARY={library}", "/usr/bin/python3", "-B", "-c",
               PYTHON.format(source=self.options.source)]

    def traced(self, attach):
        """Time of each annotation in the program while a tracer is attached."""
        path = os.path.abspath(os.path.join(self.options.build, "bench", "markers"))
        program = subprocess.Popen([path, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            pid = int(program.stdout.readline().split()[1])
            tracer = attach(pid, path)
            out, _ = program.communicate("go\n", timeout=120)
            tracer.stop()
        finally:
            program.kill()
        figures = {name: float(ns) for name, ns in map(str.split, out.splitlines())}
        return {name: ns - figures["loop"] for name, ns in figures.items()}

    def by_perfx(self, pid, _path):
        return tracers.Perfx(self.options.build, pid, "--usdt", "bench:plain", "--no-calibrate",
                             "--memory", "off", "--ring-size", "64M")

    @staticmethod
    def by_bpftrace(pid, path):
        script = " ".join(f"usdt:{path}:{probe} {{ @[\"{probe}\"] = count(); }}"
                          for probe in ("bench:plain", "perfx:mark"))
        return Watching([tracers.find("bpftrace"), "-p", str(pid), "-e", script], pid, path)

    def run_traced(self):
        say(f"annotations: what one costs traced, ns, {self.options.rounds} rounds, without the loop")
        ways = {"perfx-trace": self.by_perfx}
        if tracers.find("bpftrace"):
            ways["bpftrace"] = self.by_bpftrace
        else:
            say("  no bpftrace here")
        found = {way: {} for way in ways}
        for _ in range(self.options.rounds):
            for way, attach in ways.items():
                progress(f"annotations, {way}")
                for name, ns in self.traced(attach).items():
                    found[way].setdefault(name, []).append(ns)
        progress("")
        rows = [[label, *spread(found["perfx-trace"].get(name))] for name, label in TRACED]
        rows += [[label, *spread(found["bpftrace"].get(name))] for name, label in PEER
                 if "bpftrace" in found]
        table(["", "median", "min", "max"], rows)
        say()
        return found

    def run(self):
        return {"untraced": self.run_untraced(), "traced": self.run_traced()}

    def run_untraced(self):
        say(f"annotations: what one costs untraced, ns, {self.options.rounds} rounds, without the loop")
        found = {}
        for _ in range(self.options.rounds):
            progress("annotations")
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

