# SPDX-License-Identifier: BSD-2-Clause
"""The slowdown that a report estimates, the one that it has observed, and the trainer's own account of it.

    current PyTorch 2.15.0, cnn: 9.80 ms a step
                        measured  observed  estimated  noise  they agree
      --memory off           2.1       1.8        2.4    0.6      5 of 5

The trainer times chunks of a few steps all the time: before the tracer is there, while it records,
after it has gone. A report's agreement is within 3 points, a quarter of the larger one, or the noise.
"""

import threading
import time

import subjects
import tracers
from output import median, number, progress, say, table

MODELS = ["cnn", "transformer", "tiny"]
LEVELS = ["off", "tensor", "sampled", "all"]
QUIET_SECONDS = 2
RECORD_SECONDS = 5
SETTLED_SECONDS = 1  # until the budget has thinned what costs too much
OBSERVE = "1s"
POINTS, PART = 3, 0.25


class Steps(threading.Thread):
    """Trains continuously, and keeps each chunk's end and its time per step."""

    def __init__(self, trainer):
        super().__init__(daemon=True)
        self.trainer, self.chunks, self.going = trainer, [], True

    def run(self):
        while self.going:
            ms, _ = self.trainer.chunk()
            self.chunks.append((time.perf_counter(), ms))

    def ms(self, begin, end):
        return median([ms for ended, ms in self.chunks if begin < ended <= end])

    def stop(self):
        self.going = False
        self.join()


def agree(one, other, noise):
    allowed = max(POINTS, PART * max(abs(one), abs(other)), noise)
    return abs(one - other) <= allowed


class Row:
    def __init__(self):
        self.measured, self.observed, self.estimated, self.noise, self.agreed = [], [], [], [], 0

    def add(self, percent, overhead):
        observed = overhead.get("observed", {})
        if percent is None or "percent" not in observed or "estimated_percent" not in overhead:
            return
        self.measured.append(percent)
        self.observed.append(observed["percent"])
        self.estimated.append(overhead["estimated_percent"])
        self.noise.append(observed["noise_percent"])
        self.agreed += agree(percent, observed["percent"], observed["noise_percent"]) and agree(
            observed["percent"], overhead["estimated_percent"], observed["noise_percent"])

    def cells(self):
        return [number(median(values), 1) for values in
                (self.measured, self.observed, self.estimated, self.noise)] + [
                    f"{self.agreed} of {len(self.measured)}"]


class Estimate:
    def __init__(self, options, _aims):
        self.options = options
        self.pythons = subjects.pythons(options)

    def one(self, row, trainer, level):
        steps = Steps(trainer)
        steps.start()
        try:
            time.sleep(QUIET_SECONDS)
            begin = time.perf_counter()
            tracer = tracers.Perfx(self.options.build, trainer.pid, "-d", f"{RECORD_SECONDS}s",
                                   "--observe", OBSERVE, "--memory", level)
            attached = time.perf_counter()
            report = tracer.report()
            end = time.perf_counter()
            time.sleep(QUIET_SECONDS)
        finally:
            steps.stop()
        during = steps.ms(attached + SETTLED_SECONDS, attached + RECORD_SECONDS)
        without = [steps.ms(begin - QUIET_SECONDS, begin), steps.ms(end, end + QUIET_SECONDS)]
        if during and all(without):
            row.add(100 * (2 * during / sum(without) - 1), report["overhead"])
        return without[0]

    def measure(self, which, python, model):
        rows = {level: Row() for level in LEVELS}
        off_ms = []
        with subjects.Trainer(python, self.options.source, "--model", model, "--workers",
                              "0") as trainer:
            trainer.run(30)
            for _ in range(self.options.rounds):
                for level, row in rows.items():
                    progress(f"estimate: {which} PyTorch, {model}, --memory {level}")
                    off_ms.append(self.one(row, trainer, level))
        progress("")
        return {"off_ms": off_ms, "rows": rows}

    def run(self):
        say(f"Slowdown in percent, median of {self.options.rounds} rounds: measured by the trainer, "
            "observed and estimated in the report")
        results = {}
        for which, python, version in subjects.with_torch(self.pythons):
            for model in MODELS:
                result = self.measure(which, python, model)
                say(f"  {which} PyTorch {version}, {model}: "
                    f"{number(median(result['off_ms']), 2)} ms a step")
                table(["", "measured", "observed", "estimated", "noise", "they agree"],
                      [["  --memory " + level] + row.cells()
                       for level, row in result["rows"].items()])
                results[f"{which} {model}"] = result
        say()
        return results
