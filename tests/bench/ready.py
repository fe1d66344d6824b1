# SPDX-License-Identifier: BSD-2-Clause
"""Time from the command to the line "tracing PID", by phase; bpftrace beside it."""

import os
import re
import subprocess
import time

import attach
import calls
import subjects
import tracers
from output import median, number, progress, say, spread, table

AIM_MS = 400
LOAD_AIM_MS = 300


class Jax(subjects.Subject):
    """train_jax.py at its gate."""

    def __init__(self, python, source):
        super().__init__([python, os.path.join(source, "tests/workloads/train_jax.py"), "--gate",
                          "--quiet"])


def has_jax(python):
    return os.path.exists(python) and not subprocess.run([python, "-c", "import jax"],
                                                         capture_output=True).returncode


class Ready:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims
        current = os.path.join(options.venv, "bin/python3")
        self.targets = {"C": lambda: subjects.Calls(os.path.join(options.build, "bench"),
                                                     calls.FUNCTIONS[0])}
        for python in ("/usr/bin/python3", current):
            version = subjects.torch_version(python)
            if version:
                self.targets[f"PyTorch {version}"] = (
                    lambda python=python: subjects.Trainer(python, options.source))
        if has_jax(current):
            self.targets["JAX"] = lambda: Jax(current, options.source)

    def with_perfx(self, pid, *options):
        """ms by phase, and `all` from the command on."""
        tracer = tracers.Perfx(self.options.build, pid, *options)
        tracer.stop()
        line = next(line for line in tracer.said if line.startswith("perfx-trace: ready in "))
        phases = {name: int(ms) for name, ms in re.findall(r"(\w+) (\d+)(?:,|$)", line.split(":")[-1])}
        return {"all": tracer.attach_seconds * 1000, **phases}

    def with_bpftrace(self, pid):
        """Only PyTorch's matrix products, about a hundred functions, because the kernel takes 50 ms to
        remove each, and with all operators bpftrace takes minutes to end. Measured once; ms until it
        counts, or None."""
        library = attach.library_of(pid)
        if not library or "bpftrace" in tracers.missing():
            return None
        probe = f'uprobe:{library}:_ZN2at4_ops*mm*4callE* {{ }} interval:ms:1 {{ print("on"); exit(); }}'
        start = time.perf_counter()
        process = tracers.start([tracers.find("bpftrace"), "-p", str(pid), "-e", probe],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        lines = iter(process.stdout.readline, "")
        on = any(line.startswith("on") for line in lines)
        on_ms = (time.perf_counter() - start) * 1000
        process.communicate()
        return on_ms if on else None

    def measure(self, start):
        with start() as subject:
            rounds, anew = [], []
            for _ in range(self.options.rounds):
                progress("ready")
                anew.append(self.with_perfx(subject.pid, "--no-cache")["all"])
                rounds.append(self.with_perfx(subject.pid))
            progress("ready: bpftrace")
            bpftrace = self.with_bpftrace(subject.pid)
        progress("")
        return {"rounds": rounds, "anew_ms": anew, "bpftrace_ms": bpftrace}

    def show(self, results):
        phases = list(dict.fromkeys(name for result in results.values()
                                    for name in result["rounds"][0] if name != "all"))
        rows = []
        for name, result in results.items():
            every = {phase: [r.get(phase, 0) for r in result["rounds"]] for phase in ("all", *phases)}
            rows.append([name] + spread(every["all"]) + [number(median(every[p])) for p in phases] +
                        [f"{median(result['anew_ms']) / median(every['all']):.2f}",
                         number(result["bpftrace_ms"])])
            self.aims.add(f"ready, {name}", median(every["all"]), AIM_MS, " ms")
            if name == "C":  # nothing to plan: beside a plan, `load` is what is left of it
                self.aims.add("load", median(every["load"]), LOAD_AIM_MS, " ms")
        table(["ms", "ready", "min", "max", *phases, "--no-cache ÷", "bpftrace"], rows)

    def run(self):
        say("From the command to “tracing”, by default, files seen before; --no-cache as a multiple "
            "of that; bpftrace on PyTorch's matrix products, once; "
            f"median of {self.options.rounds} rounds")
        os.environ["PERFX_DEBUG"] = "1"
        results = {name: self.measure(start) for name, start in self.targets.items()}
        del os.environ["PERFX_DEBUG"]
        self.show(results)
        say()
        return results
