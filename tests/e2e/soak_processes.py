# SPDX-License-Identifier: BSD-2-Clause
"""make soak: an endless recording while thousands of processes come and go (SOAK=seconds): calls are
exact, and the tracer does not grow."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from conftest import EVERYTHING, PERFX, WORKLOADS, Program, ended, run, until_attached, wait_for

# Seconds of each of the two.
SECONDS = int(os.environ.get("SOAK", "180" if EVERYTHING else "1800"))
BATCH = 20  # processes between two checks of the driver
CALLS = 150  # calls of crowd_work in each process
BLOCKS = 100  # blocks that the launcher allocates for each BATCH
# With memory traced, each process has its own probes, so fewer fit into the time.
MEMORY_SECONDS = min(SECONDS, 180)
FLIGHT = 20  # seconds
DUMP_EVERY = 12  # so that each process is whole in at least one file
# Tables fill until then: indices are reused 10 s after the flight buffer's time, and after two epochs.
WARM_UP = min(75, SECONDS // 2)
SERVED_WARM_UP = 300 if SECONDS >= 900 else SECONDS // 2
# Allowed growth in the measured part. A short run has as many processes as fill its tables: a leak of 4
# KiB per process shows.
GROWTH_MIB = 24
GROWTH_LONG_MIB = 6
LONG = 600  # measured seconds
DESCRIPTORS = 2
PORT = 9479
LOSSES = ("ring_drops", "map_full", "control_drops", "undecoded", "truncated_bytes", "stack_failures")


class Crowd(threading.Thread):
    """Starts processes until it is stopped."""

    def __init__(self):
        super().__init__()
        self.program = Program(WORKLOADS / "crowd", BATCH)
        self.started = 0
        self.stopped = False

    def run(self):
        while not self.stopped:
            self.program.go()
            self.started += BATCH

    def pause(self):
        self.stopped = True
        self.join()

    def end(self):
        self.pause()
        return self.program.finish()


def used(pid):
    """The tracer's own memory in MiB (without mapped BPF maps), descriptors, kernel memory of BPF maps
    in MiB."""
    rss = re.search(r"RssAnon:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    maps = 0
    names = os.listdir(f"/proc/{pid}/fdinfo")
    for name in names:
        try:
            info = pathlib.Path(f"/proc/{pid}/fdinfo/{name}").read_text(encoding="ascii")
        except OSError:
            continue
        if "map_id:" in info:
            maps += int(re.search(r"memlock:\s*(\d+)", info)[1])
    return int(rss[1]) / 1024, len(names), maps / 2**20


def slope(points):
    """Least squares, in units per second."""
    count = len(points)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    return (sum((x - mean_x) * (y - mean_y) for x, y in points) /
            sum((x - mean_x) ** 2 for x, _ in points))


class Dumps(threading.Thread):
    """Each process in the files of a flight recorder, which are read as they come, and removed."""

    def __init__(self, tracer):
        super().__init__()
        self.tracer = tracer
        self.lines = []
        self.seen = {}  # (pid, start, exec) → most calls
        self.losses = {}
        self.count = 0

    def run(self):
        for line in self.tracer.stderr:
            self.lines.append(line.rstrip("\n"))
            if ": the last " in line:
                self.take(pathlib.Path(line.split(": ")[1]))

    def take(self, name):
        result = run("report", name, "-f", "json", timeout=300)
        name.unlink()
        self.add(json.loads(result.stdout))
        self.count += 1

    def add(self, report):
        for process in report["processes"]:
            calls = sum(f["calls"] for f in process["functions"] if f["name"] == "crowd_work")
            key = process["pid"], process["start_ns"], process["exec"]
            self.seen[key] = max(self.seen.get(key, 0), calls)
        for loss, count in report["losses"].items():
            self.losses[loss] = max(self.losses.get(loss, 0), count)


def measure(pid, crowd, period, ask, seconds=SECONDS):
    """[(seconds, processes, MiB, descriptors, MiB of maps)] once a second; sends the tracer a request
    from time to time."""
    began = last = time.monotonic()
    points = []
    while time.monotonic() - began < seconds:
        time.sleep(1)
        points.append((time.monotonic() - began, crowd.started, *used(pid)))
        if time.monotonic() >= last + period:
            last = time.monotonic()
            ask()
    return points


def say(points):
    for i in range(0, len(points), max(1, len(points) // 20)):
        print("%5.0f s: %6d processes, %.1f MiB, %d descriptors, maps %.2f MiB" % points[i])


def check_flat(points, warm_up):
    """No growth, by regression after the warm-up, extrapolated to an hour."""
    late = [p for p in points if p[0] > warm_up]
    growth = [slope([(p[0], p[i]) for p in late]) * 3600 for i in (2, 3, 4)]
    print("in an hour: %+.1f MiB, %+.1f descriptors, maps %+.2f MiB" % tuple(growth))
    measured = late[-1][0] - late[0][0]
    assert growth[0] * measured / 3600 < (GROWTH_LONG_MIB if measured >= LONG else GROWTH_MIB)
    assert growth[1] * measured / 3600 < DESCRIPTORS and growth[2] * measured / 3600 < 1


def test_flight_recorder(kernel_log, tmp_path):
    """Each process is in one of the files, with exactly the calls that it made."""
    crowd = Crowd()
    tracer = subprocess.Popen(
        [PERFX, "record", "-p", str(crowd.program.pid), "--no-calibrate", "--memory", "off", "--flight",
         f"{FLIGHT}s", "-F", "crowd:crowd_*", "-o", str(tmp_path / "run.perfx")], stderr=subprocess.PIPE, text=True)
    until_attached(tracer)
    dumps = Dumps(tracer)
    dumps.start()
    crowd.start()
    try:
        points = measure(tracer.pid, crowd, DUMP_EVERY, lambda: tracer.send_signal(signal.SIGUSR1))
        expected = crowd.end()
        tracer.send_signal(signal.SIGINT)
        assert ended(tracer, 60) == 0, dumps.lines
        dumps.join()
    finally:
        crowd.stopped = True
        tracer.kill()
    print()
    say(points)
    calls = sum(dumps.seen.values())
    print(f"{crowd.started} processes, {calls} calls in {dumps.count} files; not whole:",
          [(process, count) for process, count in dumps.seen.items() if count not in (0, CALLS)])
    print("losses:", {loss: count for loss, count in dumps.losses.items() if count})
    assert calls == expected["crowd_work", "calls"] == CALLS * crowd.started
    assert not any("too many" in line for line in dumps.lines), dumps.lines
    for loss in LOSSES:
        assert dumps.losses[loss] == 0, loss
    check_flat(points, WARM_UP)
    assert kernel_log.about_uprobes([]) == []


def metrics():
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", text, re.M)}


def has_begun():
    try:
        return metrics()
    except urllib.error.HTTPError as error:
        assert error.code == 503
        return None


def calls_of(found, function):
    return sum(value for name, value in found.items()
               if name.startswith("perfx_function_calls_total{") and f'function="{function}"' in name)


def allocations_of(found, pid):
    return sum(value for name, value in found.items()
               if name.startswith("perfx_memory_allocations_total{") and f'pid="{pid}"' in name)


@pytest.mark.parametrize("memory, seconds, warm_up", [("off", SECONDS, SERVED_WARM_UP),
                                                      ("all", MEMORY_SECONDS, MEMORY_SECONDS // 2)])
def test_served(kernel_log, memory, seconds, warm_up):
    """Counters never fall, and are exact in the end."""
    crowd = Crowd()
    pid = crowd.program.pid
    seen = [0]

    def scrape():
        seen.append(calls_of(metrics(), "crowd_work"))

    with subprocess.Popen(
            [PERFX, "serve", "-p", str(crowd.program.pid), "--no-calibrate", "--memory", memory, "--listen",
             f"127.0.0.1:{PORT}", "-F", "crowd:crowd_*"], stderr=subprocess.PIPE, text=True) as tracer:
        try:
            until_attached(tracer)
            assert wait_for(has_begun, 30)
            before = allocations_of(metrics(), pid)
            crowd.start()
            points = measure(tracer.pid, crowd, 5, scrape, seconds)
            crowd.pause()
            made = CALLS * crowd.started
            wait_for(lambda: calls_of(metrics(), "crowd_work") >= made, 30)
            last = metrics()
            tracer.send_signal(signal.SIGINT)
            assert ended(tracer, 60) == 0
        finally:
            tracer.kill()
            crowd.stopped = True
    crowd.end()
    print()
    say(points)
    print(f"{crowd.started} processes; calls:", {name: calls_of(last, name) for name in ("crowd_work", "crowd_inner")})
    print("losses:", {name: value for name, value in last.items() if name.startswith("perfx_losses") and value})
    assert calls_of(last, "crowd_work") == made == calls_of(last, "crowd_inner")
    assert seen == sorted(seen)
    if memory == "all":
        assert allocations_of(last, pid) - before == BLOCKS * crowd.started / BATCH
    for loss in LOSSES:
        assert last[f'perfx_losses_total{{kind="{loss}"}}'] == 0, loss
    check_flat(points, warm_up)
    assert kernel_log.about_uprobes([]) == []
