# SPDX-License-Identifier: BSD-2-Clause
"""The slowdown of PyTorch trainers by perfx-trace at default settings: a CNN, and a tiny MLP, which has
the most hits per second. Beside it the report's estimate."""

import time

import subjects
import tracers
from output import median, number, progress, say, spread, table

RSS_AIM_BYTES = 96 << 20
TRACER_CPU_AIM_PERCENT = 5


class Cnn:
    TITLE = "CNN"
    TRAINER = []
    BLOCK_SECONDS = 3
    WARM_STEPS = 10
    AIM = ("on / off", "ratio", 1.02)

    def __init__(self, options, aims):
        self.options = options
        self.aims = aims
        self.pythons = subjects.pythons(options)
        self.missing = {"Debian's": "apt-get install python3-torch",
                        "current": f"there is none in {options.venv}"}

    def block(self, trainer, steps):
        return trainer.run(steps)

    def with_tracer(self, trainer, steps, result):
        tracer = tracers.Perfx(self.options.build, trainer.pid)
        if self.WARM_STEPS:
            trainer.run(self.WARM_STEPS)
        cpu, start = tracer.cpu_seconds(), time.perf_counter()
        ms, cpu_ms = self.block(trainer, steps)
        cpu, seconds = tracer.cpu_seconds() - cpu, time.perf_counter() - start
        result["rss_peak_bytes"].append(tracer.rss_peak_bytes())
        report = tracer.stop()
        result["on_ms"].append(ms)
        result["on_cpu_ms"].append(cpu_ms)
        result["tracer_cpu_percent"].append(100 * cpu / seconds)
        overhead = report["overhead"]
        result["said_percent"].append(overhead.get("estimated_percent"))
        result["hits_per_step"].append(overhead["hits"] / (steps + self.WARM_STEPS))
        result["probes"] = len(overhead["probes"])
        result["ring_drops"] += report["losses"]["ring_drops"]

    def measure(self, which, python):
        result = {"torch": subjects.torch_version(python), "off_ms": [], "on_ms": [], "ratio": [],
                  "off_cpu_ms": [], "on_cpu_ms": [], "cpu_ratio": [],
                  "rss_peak_bytes": [], "tracer_cpu_percent": [], "said_percent": [],
                  "hits_per_step": [], "ring_drops": 0, "probes": 0}
        if not result["torch"]:
            say(f"  {which} PyTorch is left out: {self.missing[which]}")
            return None
        with subjects.Trainer(python, self.options.source, *self.TRAINER) as trainer:
            steps = max(10, round(self.BLOCK_SECONDS * 200 / trainer.run(30)[0]) * 5)
            before = self.block(trainer, steps)
            for _ in range(self.options.rounds):
                progress(f"{self.TITLE}: {which} PyTorch {result['torch']}")
                self.with_tracer(trainer, steps, result)
                after = self.block(trainer, steps)
                result["off_ms"].append(after[0])
                result["off_cpu_ms"].append(after[1])
                # between two untraced neighbours, so that a drift is not taken for a slowdown
                for i, (on, ratio) in enumerate((("on_ms", "ratio"), ("on_cpu_ms", "cpu_ratio"))):
                    result[ratio].append(result[on][-1] * 2 / (before[i] + after[i]))
                before = after
        progress("")
        return result

    def run(self):
        say(f"PyTorch {self.TITLE}, perfx-trace at its default setting, median of "
            f"{self.options.rounds} rounds")
        results = {which: self.measure(which, python) for which, python in self.pythons.items()}
        rows = []
        for which, r in results.items():
            if not r:
                continue
            said = [s for s in r["said_percent"] if s is not None]
            rows += [
                f"  {which} PyTorch {r['torch']}: {r['probes']} probes, "
                f"{number(median(r['hits_per_step']))} hits a step, ring drops {r['ring_drops']}",
                ["  ms/step off"] + spread(r["off_ms"], 2),
                ["  ms/step on"] + spread(r["on_ms"], 2),
                ["  on / off"] + spread(r["ratio"], 3),
                ["  on / off, its CPU time"] + spread(r["cpu_ratio"], 3),
                ["  slowdown that it says, %"] + spread(said, 2),
                ["  tracer's CPU, % of one"] + spread(r["tracer_cpu_percent"], 2),
                ["  tracer's peak RSS until it ends, MiB"] +
                spread([b / (1 << 20) for b in r["rss_peak_bytes"]], 1),
            ]
        table(["", "median", "min", "max"], rows)
        for which, r in results.items():
            if r:
                what, ratio, aim = self.AIM
                self.aims.add(f"{which} PyTorch, {self.TITLE}, {what}", median(r[ratio]), aim,
                              digits=3)
                self.aims.add(f"{which} PyTorch, tracer's CPU", median(r["tracer_cpu_percent"]),
                              TRACER_CPU_AIM_PERCENT, " %", 1)
                self.aims.add(f"{which} PyTorch, tracer's peak RSS",
                              max(r["rss_peak_bytes"]) / (1 << 20), RSS_AIM_BYTES / (1 << 20),
                              " MiB", 1)
        say()
        return results


class Small(Cnn):
    """As long as a default recording, with its first second."""
    TITLE = "tiny MLP"
    TRAINER = ["--model", "tiny", "--batch", "4", "--workers", "0"]
    BLOCK_SECONDS = 10
    WARM_STEPS = 0
    AIM = ("on / off, its CPU time", "cpu_ratio", 1.05)

    def block(self, trainer, steps):
        return trainer.chunk(steps)
