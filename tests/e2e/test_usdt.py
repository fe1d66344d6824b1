# SPDX-License-Identifier: BSD-2-Clause
"""USDT probes of real programs: counts equal those of the program; semaphores are raised during the
recording, and lowered again."""
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from conftest import WORKLOADS, Program, functions, wait_for

COLLECTOR = """
import gc, os, sys
gc.disable()
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    for _ in range(1000):
        gc.collect()
    print("done", flush=True)
"""


def semaphore(pid, path, name):
    """Address of a probe's semaphore in a process; None: it has none."""
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
    found = re.search(rf"Name: {name}\n.*Semaphore: (0x[0-9a-f]+)", notes)
    if not found or int(found[1], 16) == 0:
        return None
    headers = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True).stdout
    first = min(int(v, 16) for v in re.findall(r"LOAD\s+0x0+ (0x[0-9a-f]+)", headers))
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf8").splitlines():
        words = line.split()
        if words[-1] == str(path) and words[2] == "00000000":
            base = int(words[0].split("-")[0], 16) - first
            return base + int(found[1], 16) if "DYN" in elf_type(path) else int(found[1], 16)
    return None


def elf_type(path):
    return subprocess.run(["readelf", "-h", path], capture_output=True, text=True).stdout


def value(pid, address):
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(address)
        return int.from_bytes(memory.read(2), "little")


@pytest.fixture
def python(program):
    path = pathlib.Path(sys.executable).resolve()
    if b"gc__start" not in path.read_bytes():
        pytest.skip("this Python has no USDT probes")
    return program(path, "-c", COLLECTOR), path


def test_exceptions(program, tracer):
    throws = program(WORKLOADS / "exceptions")
    trace = tracer(throws.pid, "--usdt", "libstdcxx:*", "--host-level", "0", "--no-calibrate",
                   "--memory", "off")
    throws.go()
    expected = throws.finish()
    report = trace.stop()
    seen = {}
    for name in ("throw", "rethrow", "catch"):
        (found,) = functions(report, f"libstdcxx:{name}")
        assert found["source"] == "usdt"
        seen[name] = found["calls"]
    assert seen["rethrow"] == expected["rethrower", "unwound"]
    assert seen["catch"] == seen["throw"] + seen["rethrow"]
    assert report["losses"]["unmatched_entries"] == report["losses"]["untimed_calls"] == 0


def test_collections(python, tracer):
    process, _ = python
    trace = tracer(process.pid, "--usdt", "python:gc__*", "--host-level", "0", "--no-calibrate",
                   "--memory", "off")
    process.go()
    report = trace.stop()
    for name in ("python:gc__start", "python:gc__done"):
        assert [f["calls"] for f in functions(report, name)] == [1000]


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_semaphores_are_lowered_again(python, tracer, end):
    process, path = python
    address = semaphore(process.pid, path, "gc__start")
    if address is None:
        pytest.skip("its probes have no semaphores")
    assert value(process.pid, address) == 0
    trace = tracer(process.pid, "--usdt", "python:gc__start", "--no-calibrate", "--memory", "off")
    assert value(process.pid, address) == 1
    if end == "stopped":
        trace.stop()
    else:
        trace.process.send_signal(signal.SIGKILL)
        trace.process.wait()
    assert wait_for(lambda: value(process.pid, address) == 0)
