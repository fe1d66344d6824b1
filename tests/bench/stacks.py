# SPDX-License-Identifier: BSD-2-Clause
"""What call stacks cost: ns a frame of a warm walk, by the kernel's account of the programs' run
time; and of PyTorch trainers how many stacks are whole, the memory of the unwind tables and the CPU
time of compiling them."""

import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import time

import subjects
import tracers
from output import median, number, progress, say, table

DEPTHS = (4, 104)
WAYS = ("unwind", "fp", "off")
WINDOW_S = 1
TRAINER_S = 10
ACCOUNT = "/proc/sys/kernel/bpf_stats_enabled"
FRAME_AIM_NS, TABLES_AIM_MB, CPU_AIM_MS, WHOLE_AIM = 80, 10, 500, 95


@contextlib.contextmanager
def accounted():
    with open(ACCOUNT, "r+", encoding="ascii") as file:
        before = file.read()
        file.write("1")
    try:
        yield
    finally:
        with open(ACCOUNT, "w", encoding="ascii") as file:
            file.write(before)


def programs_of(pid):
    """Ids of the BPF programs that a process holds."""
    infos = []
    for info in glob.glob(f"/proc/{pid}/fdinfo/*"):
        with contextlib.suppress(FileNotFoundError), open(info, encoding="ascii") as file:
            infos.append(file.read())
    return {int(found[1]) for info in infos if (found := re.search(r"^prog_id:\s+(\d+)", info, re.M))}


def run_times(pid):
    """(ns, runs) of the allocation programs that a tracer holds, by id."""
    held = programs_of(pid)
    shown = subprocess.run([tracers.find("bpftool"), "prog", "show", "--json"],
                           capture_output=True, text=True, check=True).stdout
    return {p["id"]: (p.get("run_time_ns", 0), p.get("run_cnt", 0)) for p in json.loads(shown)
            if p["id"] in held and p.get("name", "").startswith("perfx_on_memory")}


class Deep(subjects.Subject):
    def __init__(self, bench, depth):
        super().__init__([os.path.join(bench, "deep_calls"), str(depth)])

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Stacks:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims

    def walk_ns(self, depth, way):
        """Of all programs that one malloc and its free run."""
        with Deep(os.path.join(self.options.build, "bench"), depth) as subject:
            tracer = tracers.Perfx(self.options.build, subject.pid, "--memory", "all", "--sample",
                                   "off", "--no-calibrate", "--stacks", way)
            time.sleep(WINDOW_S)
            before = run_times(tracer.process.pid)
            time.sleep(WINDOW_S)
            after = run_times(tracer.process.pid)
            tracer.stop()
        runs = {i: (after[i][0] - ns, after[i][1] - count) for i, (ns, count) in before.items()}
        # free is one run; a malloc is a run at its entry and one at its return
        frees = min(count for _, count in runs.values() if count)
        return sum(ns for ns, _ in runs.values()) / frees

    def frames(self):
        rows = {}
        for way in WAYS:
            rounds = [[self.walk_ns(depth, way) for depth in DEPTHS]
                      for _ in range(self.options.rounds)]
            shallow, deep = (median([r[i] for r in rounds]) for i in range(2))
            rows[way] = {"shallow_ns": shallow, "deep_ns": deep,
                         "frame_ns": (deep - shallow) / (DEPTHS[1] - DEPTHS[0])}
            progress(f"stacks: {way}")
        progress("")
        table(["ns a malloc and free, --stacks", *(f"{d} calls" for d in DEPTHS), "a frame"],
              [[way, number(r["shallow_ns"]), number(r["deep_ns"]), number(r["frame_ns"])]
               for way, r in rows.items()])
        self.aims.add("a frame, unwound", rows["unwind"]["frame_ns"], FRAME_AIM_NS, " ns")
        return rows

    def trainer(self, python):
        with subjects.Trainer(python, self.options.source) as subject:
            subject.chunk()
            tracer = tracers.Perfx(self.options.build, subject.pid, "--memory", "tensor")
            until = time.monotonic() + TRAINER_S
            while time.monotonic() < until:
                subject.chunk()
            report = tracer.stop()
        stacks = report["processes"][0]["stacks"]
        tables = [re.search(r"(\d+) pages of code, (\d+) KiB, (\d+) ms", line)
                  for line in tracer.said if "unwind tables:" in line]
        return {**{key: stacks[key] for key in ("taken", "complete", "guessed")},
                "pages": int(tables[-1][1]), "tables_mb": int(tables[-1][2]) / 1024,
                "cpu_ms": int(tables[0][3]), "cpu_end_ms": int(tables[-1][3])}

    def trainers(self):
        rows = {}
        os.environ["PERFX_DEBUG"] = "1"
        for python in ("/usr/bin/python3", os.path.join(self.options.venv, "bin/python3")):
            version = subjects.torch_version(python)
            if not version:
                continue
            name = f"PyTorch {version}"
            progress(f"stacks: {name}")
            rows[name] = r = self.trainer(python)
            self.aims.add(f"unwind tables, {name}", r["tables_mb"], TABLES_AIM_MB, " MiB")
            self.aims.add(f"CPU time of attaching them, {name}", r["cpu_ms"], CPU_AIM_MS, " ms")
            self.aims.add(f"stacks not whole, {name}", 100 - 100 * r["complete"] / r["taken"],
                          100 - WHOLE_AIM, " %")
        del os.environ["PERFX_DEBUG"]
        progress("")
        table(["trainer, --memory tensor", "stacks", "whole %", "guessed", "pages", "MiB", "CPU ms"],
              [[name, number(r["taken"]), f"{100 * r['complete'] / r['taken']:.1f}",
                *(number(r[key]) for key in ("guessed", "pages", "tables_mb", "cpu_ms"))]
               for name, r in rows.items()])
        return rows

    def run(self):
        say(f"Call stacks; median of {self.options.rounds} rounds")
        with accounted():
            frames = self.frames()
        results = {"frames": frames, "trainers": self.trainers()}
        say()
        return results
