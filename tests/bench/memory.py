# SPDX-License-Identifier: BSD-2-Clause
"""The slowdown of PyTorch trainers by each level of memory tracing, beside its floor and peers.

    current PyTorch 2.15.0, cnn: 9.80 ms a step   on / off    min    max  floor  hits/step  dropped
      --memory tensor                                1.021  1.015  1.030  1.018        120        0
      --memory all                                   1.7    …
      bpftrace, malloc and free counted              9.1    …

The floor is what an empty BPF program on the same instructions would do: 1 + the hits of a step,
each at what a hit of its kind costs here (the floors module), by the untraced step. heaptrack is
preloaded into a trainer of its own; all others come to a running one and go again.
"""

import os

import floors
import subjects
import tracers
from output import median, number, progress, say, spread, table

MODELS = ["cnn", "transformer", "tiny"]
BLOCK_SECONDS = 2
WARM_STEPS = 5
LIVE_BLOCKS = 1_000_000
RSS_AIM_BYTES = 192 << 20

# Functions are left out: what is measured is memory's part.
ONLY_MEMORY = ["-F", "!*"]
LEVELS = {
    "default": [],
    "--memory tensor": ["--memory", "tensor"],
    "--memory sampled": ["--memory", "sampled"],
    "--memory all": ["--memory", "all"],
}
BPFTRACE, MEMLEAK, HEAPTRACK = "bpftrace, malloc and free counted", "bcc memleak", "heaptrack"
PEERS = {BPFTRACE: ("bpftrace", "bpftrace"), MEMLEAK: ("memleak-bpfcc", "bpfcc-tools"),
         HEAPTRACK: ("heaptrack", "heaptrack")}


def start_peer(name, subject):
    """A peer that attaches to a running process."""
    libc = subject.mapped("libc.so.6")
    if name == MEMLEAK:
        command = [tracers.find("memleak-bpfcc"), "-p", str(subject.pid), "3600"]
    else:
        script = f"uprobe:{libc}:malloc {{ @m = count(); }} uprobe:{libc}:free {{ @f = count(); }}"
        command = [tracers.find("bpftrace"), "-p", str(subject.pid), "-e", script]
    return tracers.Patched(command, subject.pid, libc)


class Row:
    """One tracer on one trainer, over the rounds."""

    def __init__(self):
        self.ratio = []
        self.floor = []
        self.hits_per_step = []
        self.dropped = 0
        self.said = []


class Trainers:
    """A trainer, and one that runs under heaptrack from its start."""

    def __init__(self, python, options, model):
        arguments = ["--model", model, "--workers", "0"]
        self.plain = subjects.Trainer(python, options.source, *arguments)
        self.under_heaptrack = None
        if tracers.find("heaptrack"):
            file = os.path.join(options.build, "bench-heaptrack")
            self.under_heaptrack = subjects.Trainer(
                python, options.source, *arguments, prefix=["heaptrack", "-r", "-o", file])
        steps = max(10, round(BLOCK_SECONDS * 200 / self.plain.run(30)[0]) * 5)
        self.steps = steps

    def close(self):
        self.plain.close()
        if self.under_heaptrack:
            self.under_heaptrack.close()


class Memory:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims
        self.pythons = subjects.pythons(options)
        self.missing = {name: package for name, (tool, package) in PEERS.items()
                        if not tracers.find(tool)}
        self.failed = {}
        self.costs = floors.Costs(options)

    # --- one measurement each ---

    def with_perfx(self, row, trainers, options, off_ms):
        tracer = tracers.Perfx(self.options.build, trainers.plain.pid, *ONLY_MEMORY, *options)
        warm = trainers.plain.run(WARM_STEPS)[0]
        ms = trainers.plain.run(trainers.steps)[0]
        report = tracer.stop()
        steps = subjects.rounded(trainers.steps) + subjects.rounded(WARM_STEPS)
        row.hits_per_step.append(report["overhead"]["hits"] / steps)
        row.floor.append(1 + self.costs.of(report) / steps / (off_ms * 1e6))
        row.dropped += report["losses"]["memory_drops"]
        row.said = [line for line in tracer.said if line.startswith("perfx-trace: memory")]
        return ms if warm else None

    def with_peer(self, name, trainers):
        if name == HEAPTRACK:
            return trainers.under_heaptrack.run(trainers.steps)[0]
        tracer = start_peer(name, trainers.plain)
        try:
            trainers.plain.run(WARM_STEPS)
            # a fifth of the steps: it may take ten times as long
            return trainers.plain.run(max(WARM_STEPS, trainers.steps // 5))[0]
        finally:
            tracer.stop()

    def one(self, name, row, trainers, off_ms):
        if name in LEVELS:
            return self.with_perfx(row, trainers, LEVELS[name], off_ms)
        try:
            return self.with_peer(name, trainers)
        except RuntimeError as error:
            self.failed[name] = str(error)
            return None

    # --- all of one trainer ---

    def measure(self, which, python, model):
        names = [*LEVELS, *(p for p in PEERS if p not in self.missing)]
        rows = {name: Row() for name in names}
        trainers = Trainers(python, self.options, model)
        off = []
        try:
            before = trainers.plain.run(trainers.steps)[0]
            for _ in range(self.options.rounds):
                for name in [n for n in names if n not in self.failed]:
                    progress(f"memory: {which} PyTorch, {model}, {name}")
                    ms = self.one(name, rows[name], trainers, before)
                    after = trainers.plain.run(trainers.steps)[0]
                    # between two untraced neighbours, so that a drift is not taken for a slowdown
                    if ms:
                        rows[name].ratio.append(2 * ms / (before + after))
                    off.append(after)
                    before = after
        finally:
            trainers.close()
        progress("")
        return {"off_ms": off, "rows": rows}

    def show(self, version, which, model, result):
        lines = []
        for name, row in result["rows"].items():
            ours = name in LEVELS
            lines.append(["  " + name] + spread(row.ratio, 3) +
                         [number(median(row.floor), 3), number(median(row.hits_per_step)),
                          number(row.dropped) if ours else "-"])
        table([f"{which} PyTorch {version}, {model}: "
               f"{number(median(result['off_ms']), 2)} ms a step",
               "on / off", "min", "max", "floor", "hits/step", "dropped"], lines)
        for line in result["rows"]["default"].said:
            say(f"    by default: {line.removeprefix('perfx-trace: ')}")
        self.judge(f"{which} {model}", result["rows"])

    def judge(self, what, rows):
        got = {name: median(row.ratio) for name, row in rows.items()}
        floor = {name: median(row.floor) for name, row in rows.items()}
        for name in ("--memory tensor", "--memory all"):
            self.aims.add(f"{what}, {name} against 1.25 of its floor", got[name],
                          floor[name] and 1.25 * floor[name], digits=3)
        counting = got.get(BPFTRACE)
        self.aims.add(f"{what}, what --memory all adds against a quarter of what bpftrace adds",
                      got["--memory all"] and got["--memory all"] - 1,
                      counting and (counting - 1) / 4, digits=3)
        self.aims.add(f"{what}, what --memory sampled adds against what --memory all adds",
                      got["--memory sampled"] and got["--memory sampled"] - 1,
                      got["--memory all"] and got["--memory all"] - 1, digits=3)

    # --- the tracer's own memory ---

    def live_blocks(self):
        """The tracer's anonymous memory with this number of live blocks in one program."""
        command = [os.path.join(self.options.build, "workloads/memory_many"), str(LIVE_BLOCKS)]
        with subjects.Subject(command) as subject:
            tracer = tracers.Perfx(self.options.build, subject.pid, "--memory", "all")
            before = tracer.rss_anon_bytes()
            subject.tell("go")
            subject.line()
            after = tracer.rss_anon_bytes()
            report = tracer.stop()
        (entry,) = report["processes"][0]["memory"]
        say(f"A million live blocks ({number(entry['allocs'])} seen): the tracer's anonymous memory "
            f"{before / (1 << 20):.0f} → {after / (1 << 20):.0f} MiB, "
            f"{(after - before) / LIVE_BLOCKS:.0f} bytes a block")
        self.aims.add("tracer's anonymous RSS with a million live blocks", after / (1 << 20),
                      RSS_AIM_BYTES / (1 << 20), " MiB")
        return {"before": before, "after": after}

    def run(self):
        say(f"Memory of PyTorch trainers, median of {self.options.rounds} rounds")
        results = {"hit_ns": self.costs.measure()}
        say("  a hit of an empty program: " + ", ".join(
            f"{site} {number(ns)} ns" for site, ns in self.costs.shown().items()))
        for which, python, version in subjects.with_torch(self.pythons):
            for model in MODELS:
                result = self.measure(which, python, model)
                self.show(version, which, model, result)
                results[f"{which} {model}"] = result
        for name, package in self.missing.items():
            say(f"  {name} is not here: apt-get install {package}")
        for name, error in self.failed.items():
            say(f"  {name}: {error}")
        results["live_blocks"] = self.live_blocks()
        say()
        return results
