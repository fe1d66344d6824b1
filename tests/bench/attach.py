# SPDX-License-Identifier: BSD-2-Clause
"""Time of attaching and detaching, for functions of a library as large as libtorch_cpu."""

import os
import subprocess
import time

import subjects
import tracers
from output import progress, say, spread, table

OPERATORS = "{mm,bmm,addmm,relu,convolution,add_Tensor,mul_Tensor,sum,mean,cat}"
# The counts are of PyTorch 1.13; other versions come near.
PATTERNS = {10: f"libtorch_cpu*:at::_ops::{OPERATORS}::call",
            1000: "libtorch_cpu*:at::_ops::[a-d]*::{call,redispatch}",
            5000: "libtorch_cpu*:at::_ops::{[_a-r]*,s[a-l]*}::{call,redispatch}"}
# bpftrace takes mangled names; these two are the same in all versions.
MANGLED = ["_ZN2at4_ops2mm4callERKNS_6TensorES4_", "_ZN2at4_ops4relu4callERKNS_6TensorE"]
BPFTRACE_SECONDS = 120


def library_of(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        for line in file:
            path = line.split(maxsplit=5)[-1].strip()
            if os.path.basename(path).startswith("libtorch_cpu"):
                return path
    return None


class Attach:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims
        self.rounds = min(options.rounds, 3)
        self.pythons = [p for p in subjects.pythons(options).values() if subjects.torch_version(p)]

    def with_perfx(self, pid, pattern, row):
        tracer = tracers.Perfx(self.options.build, pid, "-F", pattern)
        row["rss_anon_bytes"].append(tracer.rss_anon_bytes())
        row["attach_seconds"].append(tracer.attach_seconds)
        report = tracer.stop()
        row["detach_seconds"].append(tracer.detach_seconds)
        row["probes"] = len(report["overhead"]["probes"])
        row["functions"] = sum(p["at"] == "entry" for p in report["overhead"]["probes"])
        row["not_attached"] = sum(n.get("count", 1) for n in report["not_attached"])

    def with_bpftrace(self, pid):
        """From the command to its end, with nothing traced in between."""
        if "bpftrace" in tracers.missing():
            return None
        library = library_of(pid)
        probes = " ".join(f"uprobe:{library}:{name} {{ }}" for name in MANGLED)
        command = [tracers.find("bpftrace"), "-p", str(pid), "-e",
                   probes + " interval:ms:1 { exit(); }"]
        start = time.perf_counter()
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=BPFTRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return {"seconds": None, "said": f"not done after {BPFTRACE_SECONDS} s"}
        if done.returncode:
            return {"seconds": None, "said": done.stderr.strip().splitlines()[-1:]}
        return {"seconds": time.perf_counter() - start, "said": ""}

    def measure(self, python):
        rows = {count: {"attach_seconds": [], "detach_seconds": [], "rss_anon_bytes": []}
                for count in PATTERNS}
        with subjects.Trainer(python, self.options.source) as trainer:
            for _ in range(self.rounds):
                for count, pattern in PATTERNS.items():
                    progress(f"attach: {count} functions")
                    self.with_perfx(trainer.pid, pattern, rows[count])
            progress("attach: bpftrace")
            bpftrace = self.with_bpftrace(trainer.pid)
        progress("")
        return {"rows": rows, "bpftrace": bpftrace}

    def show(self, version, result):
        lines = [f"  PyTorch {version}"]
        for row in result["rows"].values():
            lines.append([f"  perfx-trace, {row['functions']:,} functions", f"{row['probes']:,}"] +
                         spread(row["attach_seconds"], 2) + spread(row["detach_seconds"], 2) +
                         [f"{max(row['rss_anon_bytes']) / (1 << 20):.0f}"])
        table(["", "probes", "attach s", "min", "max", "detach s", "min", "max", "MiB"], lines)
        bpftrace = result["bpftrace"]
        if bpftrace is None:
            say(f"  bpftrace is not here: apt-get install {tracers.PACKAGES['bpftrace']}")
        elif bpftrace["seconds"] is None:
            say(f"  bpftrace, {len(MANGLED)} functions: {bpftrace['said']}")
        else:
            say(f"  bpftrace, {len(MANGLED)} functions, from start to end (once): "
                f"{bpftrace['seconds']:.1f} s")
        for count, row in result["rows"].items():
            if count == 10:
                continue
            self.aims.add(f"attach, PyTorch {version}, {row['functions']:,} functions",
                          sorted(row["attach_seconds"])[len(row["attach_seconds"]) // 2], 2.0,
                          " s", 2)

    def run(self):
        say("Attaching to and detaching from a live PyTorch process: from the command to "
            f"“tracing”, from Ctrl-C to the end; median of {self.rounds} rounds")
        if not self.pythons:
            say("  no PyTorch here: apt-get install python3-torch")
        results = {}
        for python in self.pythons:
            version = subjects.torch_version(python)
            results[version] = self.measure(python)
            self.show(version, results[version])
        say()
        return results
