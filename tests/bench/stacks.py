# SPDX-License-Identifier: BSD-2-Clause
"""What call stacks and samples cost.

    A frame of a stack                   ns    min    max
      native                             61      …
      Python                             88
    …
    current PyTorch 2.15.0, cnn: 9.80 ms a step   on / off    min    max  its CPU  …  tool's CPU, %
      nothing                                        1.002    …              1.001           0.0
      perfx-trace                                    1.031    …              1.029           2.1
      py-spy record                                  1.4      …

Two of the same trainer take turns, five steps each; one of them is traced. So whatever else the
machine does meets both, and a ratio is known to some thousandths in a minute.

A frame is what an allocation costs more for each function that it is beneath, from some ten to a
hundred: with the stack's hash, and without what the allocation's own record costs.
"""

import os
import subprocess
import tempfile
import time

import bpf_stats
import subjects
import tracers
from output import median, number, progress, say, spread, table

SHALLOW, DEEP = 20, 150
PYTHON_SHALLOW, PYTHON_DEEP = 10, 100
TENSOR_DEPTH = 1
WINDOWS_MS = 200
REPEATS = 4  # of shallow and deep under one tracer
SETTLE_SECONDS = 10
BLOCK_SECONDS = 4
BUDGET_SECONDS = 3  # by then what costs too much has been given up
KIB_PER_MIB = 1024

ALL_ALLOCATIONS = ["-F", "!*", "--memory", "all", "--sample", "off", "--off-cpu", "off"]
TENSORS = ["-F", "!*", "--memory", "tensor", "--sample", "off", "--off-cpu", "off"]
SAMPLES_ALONE = ["-F", "!*", "--memory", "off", "--off-cpu", "off"]

MODELS = ["cnn", "transformer"]
PERFX = {"perfx-trace": [],
         "  without stacks": ["--stacks", "off"],
         "  without stacks, samples, waits": ["--stacks", "off", "--sample", "off", "--off-cpu",
                                              "off"]}
NOISE = "nothing"
PEERS = {"py-spy record": ("py-spy", "pip install py-spy"),
         "perf record --call-graph dwarf": ("perf", "apt-get install linux-perf"),
         "memray attach": ("memray", "pip install memray")}


class Depths(subjects.Subject):
    """stack_depths.cc or stack_depths.py."""

    def run(self, depth, ms=WINDOWS_MS):
        self.tell(f"run {depth} {ms}")
        return float(self.line().split()[1])


def native(options):
    return Depths([os.path.join(options.build, "bench/stack_depths")])


def python(interpreter, options, what):
    return Depths([interpreter, os.path.join(options.source, "tests/bench/stack_depths.py"), what])


def process_cpu_seconds(pid):
    """CPU time of all threads, including ended ones: the clock of another process
    (clock_getcpuclockid)."""
    return time.clock_gettime(~pid << 3 | 2)


def deepest(report):
    """Frames of the stack that allocates most often."""
    hotspots = [h for p in report["processes"] for m in p["memory"] for h in m["hotspots"]]
    return len(max(hotspots, key=lambda h: h["allocs"])["stack"]) if hotspots else None


class Stacks:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims
        self.pythons = subjects.pythons(options)
        self.versions = {p: subjects.torch_version(p) for p in self.pythons.values()}
        self.failed = {}

    def perfx(self, pid, *options):
        return tracers.Perfx(self.options.build, pid, *options)

    # --- a frame ---

    def slope_ns(self, subject, shallow, deep, *options):
        """ns per additional function, under a tracer."""
        tracer = self.perfx(subject.pid, *ALL_ALLOCATIONS, *options)
        subject.run(deep)  # loads the tables
        pairs = [(subject.run(shallow), subject.run(deep)) for _ in range(REPEATS)]
        tracer.stop()
        return (median([b for _, b in pairs]) - median([a for a, _ in pairs])) / (deep - shallow)

    def frames(self):
        rows = {"native": (lambda: native(self.options), SHALLOW, DEEP),
                "Python": (lambda: python("/usr/bin/python3", self.options, "bytes"), PYTHON_SHALLOW,
                           PYTHON_DEEP)}
        found = {}
        for name, (start, *depths) in rows.items():
            with start() as subject:
                found[name] = {"on": [], "off": []}
                for _ in range(self.options.rounds):
                    progress(f"stacks: a {name} frame")
                    found[name]["off"].append(self.slope_ns(subject, *depths, "--stacks", "off"))
                    found[name]["on"].append(self.slope_ns(subject, *depths))
        progress("")
        added = {n: [on - off for on, off in zip(r["on"], r["off"])] for n, r in found.items()}
        table(["A frame of a stack, warm", "ns", "min", "max"],
              [[f"  {name}", *spread(values, 1)] for name, values in added.items()])
        self.aims.add("native frame", median(added["native"]), 80, " ns", 1)
        self.aims.add("Python frame", median(added["Python"]), 100, " ns", 1)
        return added

    # --- a tensor ---

    def tensor_ns(self, subject, *options):
        tracer = self.perfx(subject.pid, *TENSORS, *options)
        subject.run(TENSOR_DEPTH)
        values = [subject.run(TENSOR_DEPTH) for _ in range(REPEATS)]
        return median(values), deepest(tracer.stop())

    def tensors(self):
        results = {}
        for which, interpreter in self.pythons.items():
            if not self.versions[interpreter]:
                say(f"  {which} PyTorch is left out: {interpreter} has none")
                continue
            added = []
            with python(interpreter, self.options, "tensors") as subject:
                for _ in range(self.options.rounds):
                    progress(f"stacks: a tensor of {which} PyTorch")
                    off_ns, _ = self.tensor_ns(subject, "--stacks", "off")
                    on_ns, frames = self.tensor_ns(subject)
                    added.append((on_ns - off_ns) / 1000)
            name = f"{which} PyTorch {self.versions[interpreter]}"
            results[name] = {"added_us": added, "frames": frames}
        progress("")
        table(["A tensor's stack", "frames", "µs", "min", "max"],
              [[f"  {name}", number(r["frames"]), *spread(r["added_us"], 2)]
               for name, r in results.items()])
        for name, r in results.items():
            self.aims.add(f"a tensor's stack, {name}", median(r["added_us"]), 5, " µs", 2)
        return results

    # --- samples ---

    def sampled(self, trainer, steps):
        """µs per sample on a CPU, and the share of CPU time that samples stand for. Hits of the timers
        on other programs count too."""
        with bpf_stats.BpfStats() as stats:
            tracer = self.perfx(trainer.pid, *SAMPLES_ALONE)
            trainer.run(steps)
            programs = stats.programs(tracer.process.pid)
            report = tracer.stop()
        _, ns = next(times for name, times in programs.items() if name.startswith("perfx_sample_on"))
        samples = [process["samples"] for process in report["processes"]]
        return (ns / 1000 / sum(s["on_cpu"] for s in samples),
                100 * ns / sum(s["on_cpu_ns"] for s in samples))

    def samples(self):
        results = {}
        for which, interpreter in self.pythons.items():
            if not self.versions[interpreter]:
                continue
            with subjects.Trainer(interpreter, self.options.source, "--workers", "0") as trainer:
                steps = steps_of(trainer)
                rounds = [self.sampled(trainer, steps) for _ in range(self.options.rounds)]
            results[f"{which} PyTorch {self.versions[interpreter]}"] = {
                "us": [us for us, _ in rounds], "percent": [percent for _, percent in rounds]}
        progress("")
        table(["A sample of a CNN, at 99 Hz", "µs", "min", "max", "% of its CPU", "min", "max"],
              [[f"  {name}", *spread(r["us"], 1), *spread(r["percent"], 3)]
               for name, r in results.items()])
        for name, r in results.items():
            self.aims.add(f"cold sample, {name}", median(r["us"]), 25, " µs", 1)
            self.aims.add(f"share of a busy CPU, {name}", median(r["percent"]), 0.3, " %", 3)
        return results

    # --- the tracer's own ---

    def attached(self, pid, *options):
        """CPU seconds until it traces, CPU seconds of the next ten seconds, and MiB of tables by
        then."""
        tracer = tracers.Perfx(self.options.build, pid, "--no-calibrate", *options)
        attach = process_cpu_seconds(tracer.process.pid)
        time.sleep(SETTLE_SECONDS)
        settled = process_cpu_seconds(tracer.process.pid) - attach
        tracer.stop()
        return attach, settled, tables_mib(tracer.said)

    def attaching(self):
        results = {}
        os.environ["PERFX_DEBUG"] = "1"  # says how large the tables are
        for which, interpreter in self.pythons.items():
            if not self.versions[interpreter]:
                continue
            rows = {"off": [], "unwind": []}
            with subjects.Trainer(interpreter, self.options.source) as trainer:
                trainer.tell("run 1000000")
                for _ in range(self.options.rounds):
                    for stacks, row in rows.items():
                        progress(f"stacks: attaching with --stacks {stacks}")
                        row.append(self.attached(trainer.pid, "--stacks", stacks))
                trainer.process.terminate()
                trainer.process.stdout.read()
            results[f"{which} PyTorch {self.versions[interpreter]}"] = rows
        del os.environ["PERFX_DEBUG"]
        progress("")
        self.show_attaching(results)
        return results

    def show_attaching(self, results):
        lines = []
        more = {}
        for name, rows in results.items():
            for i, what in enumerate(("until it traces", f"in the next {SETTLE_SECONDS} s")):
                added = [on[i] - off[i] for on, off in zip(rows["unwind"], rows["off"])]
                more[name, i] = median(added)
                lines.append([f"  {name}, {what}", *spread([r[i] for r in rows["off"]], 2),
                              *spread(added, 2)])
        table(["The tracer's CPU seconds", "off", "min", "max", "unwind: +", "min", "max"], lines)
        for name, rows in results.items():
            sizes = [row[2] for row in rows["unwind"]]
            self.aims.add(f"attaching, {name}", more[name, 0], 0.5, " s", 2)
            self.aims.add(f"tables after {SETTLE_SECONDS} s, {name}",
                          max(sizes) if all(sizes) else None, 10, " MiB", 1)

    # --- trainers ---

    def with_perfx(self, trainer, twin, steps, options):
        tracer = self.perfx(trainer.pid, *options)
        run_for(trainer, BUDGET_SECONDS)
        cpu, start = process_cpu_seconds(tracer.process.pid), time.perf_counter()
        step = in_turns(trainer, twin, steps)
        cpu = process_cpu_seconds(tracer.process.pid) - cpu
        seconds = time.perf_counter() - start
        stacks = tracer.stop()["processes"][0].get("stacks", {})
        whole = 100 * stacks["complete"] / stacks["taken"] if stacks.get("complete") else None
        return *step, 100 * cpu / seconds, whole

    def with_peer(self, trainer, twin, steps, name):
        with tempfile.TemporaryDirectory() as place:
            peer = Recorder(name, trainer.pid, place)
            try:
                run_for(trainer, BUDGET_SECONDS)
                cpu, start = peer.cpu_seconds(), time.perf_counter()
                step = in_turns(trainer, twin, steps)
                cpu, seconds = peer.cpu_seconds() - cpu, time.perf_counter() - start
            finally:
                peer.stop()
        return *step, 100 * cpu / seconds, None

    def under(self, name, trainer, twin, steps):
        """Step time relative to the twin's, the tool's CPU in percent, and the percentage of complete
        stacks."""
        if name == NOISE:
            return *in_turns(trainer, twin, steps), 0, None
        if name in PERFX:
            return self.with_perfx(trainer, twin, steps, PERFX[name])
        return self.with_peer(trainer, twin, steps, name)

    def measure(self, interpreter, which, model):
        rows = {name: {"ratio": [], "cpu_ratio": [], "tool_percent": [], "whole_percent": []}
                for name in (NOISE, *PERFX, *PEERS)}
        off = []
        arguments = [interpreter, self.options.source, "--model", model, "--workers", "0"]
        with subjects.Trainer(*arguments) as trainer, subjects.Trainer(*arguments) as twin:
            twin.run(30)
            steps = steps_of(trainer)
            before = in_turns(trainer, twin, steps)
            for _ in range(self.options.rounds):
                for name, row in rows.items():
                    if (which, name) in self.failed:
                        continue
                    progress(f"stacks: {which} PyTorch, {model}, {name.strip()}")
                    try:
                        *on, percent, whole = self.under(name, trainer, twin, steps)
                    except RuntimeError as error:
                        self.failed[which, name] = str(error)
                        continue
                    after = in_turns(trainer, twin, steps)
                    off.append(twin.run(5)[0])
                    # the two are not quite alike: by what they are to each other untraced
                    row["ratio"].append(2 * on[0] / (before[0] + after[0]))
                    row["cpu_ratio"].append(2 * on[1] / (before[1] + after[1]))
                    row["tool_percent"].append(percent)
                    if whole is not None:
                        row["whole_percent"].append(whole)
                    before = after
        progress("")
        return {"off_ms": off, "rows": rows}

    def trainers(self):
        results = {}
        for which, interpreter in self.pythons.items():
            if not self.versions[interpreter]:
                continue
            for model in MODELS if which == "current" else MODELS[:1]:
                r = results[f"{which} {model}"] = self.measure(interpreter, which, model)
                table([f"{which} PyTorch {self.versions[interpreter]}, {model}: "
                       f"{number(median(r['off_ms']), 2)} ms a step", "on / off", "min", "max",
                       "its CPU", "min", "max", "tool's CPU, %", "whole, %"],
                      [[f"  {name}", *spread(row["ratio"], 3), *spread(row["cpu_ratio"], 3),
                        number(median(row["tool_percent"]), 1),
                        number(median(row["whole_percent"]), 2)] for name, row in r["rows"].items()])
                ours = r["rows"]["perfx-trace"]
                self.aims.add(f"{which} {model}, on / off", median(ours["ratio"]), 1.05, digits=3)
                self.aims.add(f"{which} {model}, on / off, its CPU time", median(ours["cpu_ratio"]),
                              1.05, digits=3)
                whole = median(ours["whole_percent"])
                self.aims.add(f"{which} {model}, stacks that are not whole", whole and 100 - whole, 5,
                              " %", 2)
        for (which, name), reason in self.failed.items():
            say(f"  {name}, {which} PyTorch: {reason}")
        return results

    def run(self):
        say(f"Call stacks and samples, median of {self.options.rounds} rounds")
        result = {"frames": self.frames(), "tensors": self.tensors(), "samples": self.samples(),
                  "attaching": self.attaching(), "trainers": self.trainers()}
        say()
        return result


def run_for(trainer, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        trainer.chunk()


def in_turns(trainer, twin, steps):
    """Step time relative to the twin's beside it, and CPU time."""
    ratios, cpus = [], {trainer: 0, twin: 0}
    for i in range(subjects.rounded(steps) // subjects.Trainer.CHUNK_STEPS):
        walls = {}
        for each in (trainer, twin) if i % 2 else (twin, trainer):
            walls[each], cpu = each.chunk()
            cpus[each] += cpu
        ratios.append(walls[trainer] / walls[twin])
    return median(ratios), cpus[trainer] / cpus[twin]


def steps_of(trainer):
    return max(10, round(BLOCK_SECONDS * 200 / trainer.run(30)[0]) * 5)


def tables_mib(said):
    """MiB in "unwind tables: 107 files, 387 pages of code, 5120 KiB, 300 ms of CPU time"."""
    lines = [line.split() for line in said if "unwind tables:" in line]
    return int(lines[-1][lines[-1].index("KiB,") - 1]) / KIB_PER_MIB if lines else None


class Recorder:
    """A peer that records stacks of a process until it is interrupted."""

    ATTACH_SECONDS = 5

    def __init__(self, name, pid, place):
        tool, package = PEERS[name]
        if not tracers.find(tool):
            raise RuntimeError(f"not here: {package}")
        output = os.path.join(place, "out")
        command = {
            "py-spy": ["record", "-r", "99", "-d", "3600", "-f", "raw", "-o", output, "-p", str(pid)],
            "perf": ["record", "-F", "99", "--call-graph", "dwarf", "-o", output, "-p", str(pid)],
            "memray": ["attach", "-f", "-o", output, str(pid)]}[tool]
        self.name = name
        self.pid = pid
        self.process = tracers.start([tracers.find(tool), *command], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE)
        self.attaches_and_goes = tool == "memray"
        self.wait_until_attached()

    def wait_until_attached(self):
        """None of them prints it; memray injects its code and ends."""
        try:
            out, err = self.process.communicate(timeout=60 if self.attaches_and_goes
                                                else self.ATTACH_SECONDS)
        except subprocess.TimeoutExpired:
            if not self.attaches_and_goes:
                return
            self.process.kill()
            out, err = self.process.communicate()
        if self.process.returncode or not self.attaches_and_goes:
            last = (err + out).strip().splitlines()[-1:]
            raise RuntimeError(f"it does not attach: {' '.join(last)}")

    def cpu_seconds(self):
        return 0 if self.attaches_and_goes else process_cpu_seconds(self.process.pid)

    def stop(self):
        if self.attaches_and_goes:
            subprocess.run([tracers.find("memray"), "detach", str(self.pid)], capture_output=True)
            return
        self.process.terminate() if self.name.startswith("perf") else self.process.send_signal(2)
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
