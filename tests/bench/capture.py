# SPDX-License-Identifier: BSD-2-Clause
"""The capture file: bytes per span on a PyTorch CNN, and the speed of writing and reading captures."""

import os
import subprocess
import tempfile

import subjects
import tracers
from output import median, number, progress, say, table

SIZES = (1_000_000, 3_000_000, 10_000_000)
STEPS = 200
BYTES_AIM = 12
REPLAY_AIM_NS = 100  # ten million a second
# every operator, and the default
TRACING = {"every operator": ("-F", "libtorch_cpu*:at::_ops::*::call", "--memory", "off"),
           "default": ("--memory", "off"), "default, with tensors": ()}


class Capture:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims
        self.bench = os.path.join(options.build, "bench", "bench_capture")

    def ask(self, *argv):
        return [int(n) for n in subprocess.run([self.bench, *argv], capture_output=True, text=True,
                                               check=True).stdout.split()]

    def synthetic(self, place, spans):
        file = os.path.join(place, "made.perfx")
        result = {"spans": spans, "write_ns": [], "replay_ns": []}
        for _ in range(self.options.rounds):
            progress(f"capture: {spans:,} spans")
            result["bytes"], took = self.ask("make", file, str(spans))
            result["write_ns"].append(took / spans)
            result["replay_ns"].append(self.ask("replay", file)[-1] / spans)
        progress("")
        return result

    def trainer(self, place, tracing):
        file = os.path.join(place, "cnn.perfx")
        python = "/usr/bin/python3"
        if not subjects.torch_version(python):
            return None
        with subjects.Trainer(python, self.options.source) as trainer:
            tracer = tracers.Perfx(self.options.build, trainer.pid, "--capture", file, *tracing)
            trainer.run(STEPS)
            tracer.stop()
        size, spans, others, took = self.ask("replay", file)
        return {"bytes": size, "spans": spans, "others": others, "replay_ns": took}

    def run(self):
        say(f"Captures, median of {self.options.rounds} rounds, CPU time")
        with tempfile.TemporaryDirectory(prefix="perfx-bench-") as place:
            made = [self.synthetic(place, spans) for spans in SIZES]
            cnn = {name: self.trainer(place, tracing) for name, tracing in TRACING.items()}
        table(["made", "bytes/span", "write ns/span", "replay ns/span", "M/s"],
              [[f"{r['spans']:,} spans", number(r["bytes"] / r["spans"], 2),
                number(median(r["write_ns"])), number(median(r["replay_ns"])),
                number(1000 / median(r["replay_ns"]), 1)] for r in made])
        table(["PyTorch CNN", "spans", "other records", "file KiB", "bytes/span", "bytes/record"],
              [[name, number(r["spans"]), number(r["others"]), number(r["bytes"] / 1024),
                number(r["bytes"] / r["spans"], 2), number(r["bytes"] / (r["spans"] + r["others"]), 2)]
               for name, r in cnn.items() if r])
        every = cnn["every operator"]
        self.aims.add("PyTorch CNN, all of the file by its spans",
                      every and every["bytes"] / every["spans"], BYTES_AIM, " bytes", 1)
        self.aims.add("replay of 10 million spans", median(made[-1]["replay_ns"]), REPLAY_AIM_NS,
                      " ns a span")
        self.aims.add("replay ns/span, 10 M against 1 M spans",
                      median(made[-1]["replay_ns"]) / median(made[0]["replay_ns"]), 1.2, digits=2)
        say()
        return {"made": made, "cnn": cnn}
