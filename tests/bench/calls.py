# SPDX-License-Identifier: BSD-2-Clause
"""What tracing adds to a call, by the function's first instruction and by who traces it.

    push_branch                          ns added      min      max   says   lost
      empty program, entry                    487      470      512
      empty program, entry + return           724      …
      perfx-trace --return probe              …                        812      0
"""

import os

import subjects
import tracers
from output import median, number, progress, say, spread, table

FUNCTIONS = ["push_branch", "push_ret", "endbr64_branch", "test_branch", "lea_branch",
             "nop5_branch", "lea_ret"]
WINDOW_MS = 250
WARM_MS = 50

PERFX = {
    "perfx-trace --return probe": ["--return", "probe"],
    "perfx-trace --return exit": ["--return", "exit"],
    "perfx-trace --probe-site entry": ["--return", "probe", "--probe-site", "entry"],
}
EMPTY = ["empty program, entry", "empty program, entry + return", "empty program, entry + exit"]
PEERS = {"funclatency": tracers.funclatency, "bpftrace": tracers.bpftrace}


def measure(subject):
    subject.run(WARM_MS)
    return subject.run(WINDOW_MS)[2]


def claim_ns(report, function):
    """Cost of a call by perfx-trace's own report, or None."""
    probes = [p for p in report["overhead"]["probes"] if p["name"] == function]
    calls = sum(row["calls"] for process in report["processes"] for row in process["functions"]
                if row["name"] == function)
    if not calls or any("ns_per_hit" not in p for p in probes):
        return None
    return sum(p["hits"] * p["ns_per_hit"] for p in probes) / calls


def sites(report, function):
    """Offsets in the file of the entry and of the exits."""
    probes = [p for p in report["overhead"]["probes"] if p["name"] == function]
    by_end = {at: [p["offset"] for p in probes if p["at"] == at] for at in ("entry", "exit")}
    kinds = [f"{p['at']} {p['site']}" for p in probes]
    return by_end["entry"], by_end["exit"], ", ".join(kinds)


class Row:
    """One tracer on one function, over the rounds."""

    def __init__(self):
        self.added_ns = []
        self.claimed_ns = []
        self.ring_drops = 0
        self.sites = ""


class Calls:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims
        self.bench = os.path.join(options.build, "bench")
        self.names = EMPTY + list(PERFX) + [p for p in PEERS if p not in tracers.missing()]
        self.rows = {(f, n): Row() for f in FUNCTIONS for n in self.names}
        self.base_ns = {f: [] for f in FUNCTIONS}
        self.offsets = {}
        self.failed = {}  # what cannot be attached here, and what it said

    def with_perfx(self, subject, name, base_ns):
        row = self.rows[subject.function, name]
        tracer = tracers.Perfx(self.options.build, subject.pid, "-F",
                               f"calls_per_second:{subject.function}", *PERFX[name])
        row.added_ns.append(measure(subject) - base_ns)
        report = tracer.stop()
        claim = claim_ns(report, subject.function)
        if claim is not None:
            row.claimed_ns.append(claim)
        row.ring_drops += report["losses"]["ring_drops"]
        entry, exits, row.sites = sites(report, subject.function)
        if not exits and "entry" not in name:
            self.offsets[subject.function, EMPTY[0]] = entry
            self.offsets[subject.function, EMPTY[1]] = entry
        elif exits:
            self.offsets[subject.function, EMPTY[2]] = entry + exits

    def with_empty(self, subject, name, base_ns):
        offsets = self.offsets.get((subject.function, name))
        if not offsets:
            return
        tracer = tracers.Empty(self.bench, subject.pid, subject.path, offsets,
                               by_return=name == EMPTY[1])
        self.rows[subject.function, name].added_ns.append(measure(subject) - base_ns)
        tracer.stop()

    def with_peer(self, subject, name, base_ns):
        tracer = PEERS[name](subject, base_ns)
        self.rows[subject.function, name].added_ns.append(measure(subject) - base_ns)
        tracer.stop()

    def round(self, subject):
        base_ns = measure(subject)
        self.base_ns[subject.function].append(base_ns)
        # perfx-trace first: the empty program goes where it went
        for name in list(PERFX) + [n for n in self.names if n not in PERFX]:
            progress(f"calls: {subject.function}, {name}")
            if name in PERFX:
                self.with_perfx(subject, name, base_ns)
            elif name not in self.failed:
                try:
                    (self.with_empty if name in EMPTY else self.with_peer)(subject, name, base_ns)
                except RuntimeError as error:
                    self.failed[name] = str(error)

    def run(self):
        programs = [subjects.Calls(self.bench, function) for function in FUNCTIONS]
        try:
            for _ in range(self.options.rounds):
                for program in programs:
                    self.round(program)
        finally:
            for program in programs:
                program.close()
        progress("")
        self.show()
        return self.result()

    def added(self, function, name):
        row = self.rows.get((function, name))
        return median(row.added_ns) if row else None

    def show(self):
        say(f"Cost of a call: ns added to the untraced call, median of {self.options.rounds} "
            "rounds")
        lines = []
        for function in FUNCTIONS:
            lines.append(f"  {function} (untraced {number(median(self.base_ns[function]), 1)} ns)")
            for name in self.names:
                row = self.rows[function, name]
                claim = median(row.claimed_ns)
                cells = ["  " + name, row.sites] + spread(row.added_ns) + [number(claim)]
                lines.append(cells + [number(row.ring_drops) if name in PERFX else "-"])
        table(["", "probes on", "ns", "min", "max", "it says", "ring drops"], lines, left=2)
        for tool, package in tracers.missing().items():
            say(f"  {tool} is not here: apt-get install {package}")
        for name, error in self.failed.items():
            say(f"  {name}: {error}")
        self.show_aims()
        say()

    def show_aims(self):
        by_probe, by_exit = list(PERFX)[:2]
        push = self.added("push_branch", by_probe)
        self.aims.add("span on a push function against funclatency", push,
                      self.added("push_branch", "funclatency"), " ns")
        for function in ("endbr64_branch", "test_branch", "lea_branch"):
            self.aims.add(f"{function} by return probe against 1.1 push_branch",
                          self.added(function, by_probe), push and 1.1 * push, " ns")
        # two traps, and once what the program does for a span
        floor, with_return = (self.added("push_branch", name) for name in EMPTY[:2])
        two = push and floor and 2 * floor + push - with_return
        self.aims.add("exit site on a branch against two push hits",
                      self.added("push_branch", by_exit), two, " ns")
        off = [abs(median(row.claimed_ns) / median(row.added_ns) - 1) * 100
               for (_, name), row in self.rows.items()
               if name in PERFX and row.claimed_ns and median(row.added_ns)]
        self.aims.add("what it says of its own cost, furthest off", max(off, default=None), 25,
                      " %")

    def result(self):
        return {function: {"untraced_ns": self.base_ns[function],
                           "tracers": {name: vars(self.rows[function, name])
                                       for name in self.names}}
                for function in FUNCTIONS}
