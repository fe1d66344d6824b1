# SPDX-License-Identifier: BSD-2-Clause
"""Calls per second that are recorded without loss, the tracer's cost, and the calls and totals beyond
that rate, from the kernel's overflow sums."""

import os
import threading

import subjects
import tracers
from output import number, progress, say, table

RUN_MS = 2000
CPUS = os.cpu_count() or 1
# A function that is cheap to probe, calls a second that are asked for (0: as many as there can be),
# threads. The last one's ring is so small that it overflows on any machine.
FUNCTION = "nop5_branch"
STEPS = [(100_000, 1), (200_000, 1), (500_000, CPUS), (1_000_000, CPUS), (1_500_000, CPUS),
         (2_000_000, CPUS), (3_000_000, CPUS), (0, 1), (0, CPUS), (0, 2 * CPUS), (0, 8 * CPUS),
         (0, CPUS, "--ring-size", "64K")]


class Peak:
    """Highest anonymous memory of a process, by frequent samples."""

    def __init__(self, tracer):
        self.tracer = tracer
        self.bytes = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.done.wait(0.02):
            self.bytes = max(self.bytes, self.tracer.rss_anon_bytes())

    def stop(self):
        self.done.set()
        self.thread.join()
        return self.bytes


class Rate:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims
        self.bench = os.path.join(options.build, "bench")

    def measure(self, rate, threads, *tracing):
        progress(f"rate: {rate or 'all'} calls a second, {threads} threads")
        with subjects.Calls(self.bench, FUNCTION, threads) as subject:
            tracer = tracers.Perfx(self.options.build, subject.pid, "-F",
                                   f"calls_per_second:{FUNCTION}", *tracing)
            peak = Peak(tracer)
            cpu = tracer.cpu_seconds()
            calls, seconds, _ = subject.run(RUN_MS, rate)
            # the ring's rest is taken at the tracer's next tick
            threading.Event().wait(0.1)
            cpu = tracer.cpu_seconds() - cpu
            rss = peak.stop()
            report = tracer.stop()
        rows = [row for process in report["processes"] for row in process["functions"]]
        drops = report["losses"]["ring_drops"]
        return {"asked": rate, "threads": threads, "options": tracing, "calls": calls,
                "per_second": calls / seconds,
                "calls_reported": sum(row["calls"] for row in rows), "ring_drops": drops,
                "booked": sum(row.get("booked", 0) for row in rows), "rss_anon_peak_bytes": rss,
                "cpu_seconds": cpu, "cpu_percent": 100 * cpu / seconds,
                "cpu_seconds_per_million": cpu / calls * 1e6}

    def run(self):
        say(f"Calls a second, each a record ({FUNCTION}; the ring is 8 MiB unless said)")
        results = [self.measure(*step) for step in STEPS]
        progress("")
        table(["options", "asked", "threads", "a second", "ring drops", "of all",
               "calls are exact", "CPU %", "CPU s/million", "MiB"],
              [[" ".join(r["options"]), number(r["asked"]) if r["asked"] else "all", r["threads"],
                number(r["per_second"]), number(r["ring_drops"]),
                f"{100 * r['ring_drops'] / r['calls']:.2f} %",
                "yes" if r["calls"] == r["calls_reported"]
                else f"{r['calls_reported'] - r['calls']:+,}",
                number(r["cpu_percent"]), number(r["cpu_seconds_per_million"], 3),
                number(r["rss_anon_peak_bytes"] / (1 << 20), 1)] for r in results])
        lossless = [r["per_second"] for r in results if not r["ring_drops"]]
        say(f"  highest rate without loss: {number(max(lossless, default=None))} a second")
        beyond = [r for r in results if r["ring_drops"]]
        if beyond:
            exact = sum(r["calls"] == r["calls_reported"] for r in beyond)
            booked = sum(r["booked"] for r in beyond)
            say(f"  beyond it: {booked:,} calls in the overflow sums for "
                f"{sum(r['ring_drops'] for r in beyond):,} drops; calls exact in {exact} of "
                f"{len(beyond)} runs")
        self.aims.add("tracer's anonymous RSS at any rate",
                      max(r["rss_anon_peak_bytes"] for r in results) / (1 << 20), 64, " MiB", 1)
        say()
        return results
