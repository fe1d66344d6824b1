# SPDX-License-Identifier: BSD-2-Clause
"""Cost of a hit of an empty BPF program on this machine, by the probed instruction, with and without
return probe: the minimum for every tracer that uses probes."""

import os

import subjects
import tracers
from output import median, progress

# Functions of calls_per_second, whose first cheap instructions are one of each kind.
FUNCTIONS = ["nop5_branch", "push_branch", "test_branch", "lea_ret"]
WINDOW_MS = 200
ROUNDS = 3


def site_of(report):
    """The place of perfx-trace's entry probe: (kind, offset)."""
    (probe,) = [p for p in report["overhead"]["probes"] if p["at"] == "entry"]
    return probe["site"], probe["offset"]


class Costs:
    def __init__(self, options):
        self.options = options
        self.bench = os.path.join(options.build, "bench")
        self.ns = {}  # (site, whether the return is probed too): ns a call

    def measure_function(self, function):
        with subjects.Calls(self.bench, function) as subject:
            tracer = tracers.Perfx(self.options.build, subject.pid, "--memory", "off", "-F",
                                   f"calls_per_second:{function}", "--return", "probe")
            site, offset = site_of(tracer.stop())
            for by_return in (False, True):
                added = []
                for _ in range(ROUNDS):
                    base = subject.run(WINDOW_MS)[2]
                    empty = tracers.Empty(self.bench, subject.pid, subject.path, [offset],
                                          by_return)
                    added.append(subject.run(WINDOW_MS)[2] - base)
                    empty.stop()
                self.ns[site, by_return] = median(added)

    def measure(self):
        for function in FUNCTIONS:
            progress(f"floors: {function}")
            self.measure_function(function)
        progress("")
        return self.shown()

    def shown(self):
        return {f"{site}{' and return' * by_return}": ns
                for (site, by_return), ns in self.ns.items()}

    def of(self, report):
        """ns that the hits of a report would have cost."""
        dearest = max(self.ns.values())
        return sum(p["hits"] * self.ns.get((p["site"], p["return"] == "probe"), dearest)
                   for p in report["overhead"]["probes"])
