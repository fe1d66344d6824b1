# SPDX-License-Identifier: BSD-2-Clause
"""The traced programs, which print when they are ready and run on command."""

import os
import statistics
import subprocess
import time

from output import say


def cpu_seconds(pid):
    """CPU time of the living threads of a process, to the nanosecond."""
    total = 0
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        pass
    return total / 1e9


class Subject:
    """A process that prints "ready PID" and obeys lines on its stdin."""

    def __init__(self, command, env=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        while True:
            words = self.line().split()
            if words[:1] == ["ready"]:
                break
        self.pid = int(words[1])

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            raise RuntimeError(f"{self.process.args[0]} has ended "
                               f"(status {self.process.wait()}): was it harmed?")
        return text

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def mapped(self, base):
        return mapped(self.pid, base)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Calls(Subject):
    """calls_per_second: repeated calls of one function."""

    def __init__(self, bench, function, threads=1):
        self.path = os.path.join(bench, "calls_per_second")
        self.function = function
        super().__init__([self.path, function, str(threads)])

    def run(self, ms, rate=0):
        """Returns calls, seconds and ns per call, the median over the windows."""
        self.tell(f"run {ms} {rate}")
        windows = []
        while True:
            word, calls, ns = self.line().split()
            if word == "done":
                break
            windows.append(int(ns) / int(calls))
        return int(calls), int(ns) / 1e9, statistics.median(windows) if windows else None


def mapped(pid, base):
    """Path of a file that a process has mapped, by its base name."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        for line in file:
            path = line.split(maxsplit=5)[-1].strip()
            if os.path.basename(path) == base:
                return path
    return None


class Trainer(Subject):
    """train_cnn.py at its gate."""

    def __init__(self, python, source, *options, prefix=()):
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        script = os.path.join(source, "tests/workloads/train_cnn.py")
        # With as many threads as CPUs and workers beside them, OpenMP's barriers would show how the
        # scheduler shares the CPUs and nothing else.
        threads = max(1, (os.cpu_count() or 1) // 2)
        super().__init__([*prefix, python, script, "--gate", "--quiet", "--threads", str(threads),
                          *options], env)

    CHUNK_STEPS = 5

    def chunk(self, steps=CHUNK_STEPS):
        """Returns ms per step and the process's CPU ms per step: means."""
        cpu, start = cpu_seconds(self.pid), time.perf_counter()
        self.tell(f"run {steps}")
        while not self.line().startswith("done"):
            pass
        wall = time.perf_counter() - start
        each = 1000 / steps
        return wall * each, (cpu_seconds(self.pid) - cpu) * each

    def run(self, steps):
        """Returns ms per step and the process's CPU ms per step: medians over small chunks, which short
        disturbances of the machine do not affect."""
        walls, cpus = zip(*(self.chunk() for _ in range(rounded(steps) // self.CHUNK_STEPS)))
        return statistics.median(walls), statistics.median(cpus)


def rounded(steps):
    """The number of steps that Trainer.run makes of them."""
    return -(-steps // Trainer.CHUNK_STEPS) * Trainer.CHUNK_STEPS


def pythons(options):
    """Interpreters whose PyTorch is measured, by name."""
    return {"Debian's": "/usr/bin/python3", "current": os.path.join(options.venv, "bin/python3")}


def torch_version(python):
    """Version of this interpreter's PyTorch, or None."""
    if not os.path.exists(python):
        return None
    found = subprocess.run([python, "-c", "import torch; print(torch.__version__)"],
                           capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def with_torch(pythons):
    """(name, interpreter, version of its PyTorch) of each interpreter with PyTorch; prints those
    without."""
    for name, python in pythons.items():
        version = torch_version(python)
        if version:
            yield name, python, version
        else:
            say(f"  {name} PyTorch is left out: {python} has none")
