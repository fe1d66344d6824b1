# SPDX-License-Identifier: BSD-2-Clause
"""Markers in other tools: bpftrace, gdb and perf find their USDT notes, with exactly the program's
number of hits, names and values."""
import collections
import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import BUILD, WORKLOADS, Program, readable

LIBRARY = BUILD / "libperfx.so.1"
MARKERS = ["counter", "counter_add", "mark", "memory_alloc", "memory_free", "range_end", "range_pop",
           "range_push", "range_start", "step_begin", "step_end", "trace_start", "trace_stop"]
# a workload's name for the hits of a marker
KEYS = {"range_push": "ranges", "range_pop": "pops", "range_start": "started", "range_end": "ended",
        "mark": "marks", "counter": "counts", "counter_add": "additions", "memory_alloc": "allocs",
        "memory_free": "frees", "step_begin": "begins", "step_end": "ends", "trace_start": "starts",
        "trace_stop": "stops"}
WITHOUT_NAME = {"range_pop", "range_end", "step_begin", "step_end", "trace_start", "trace_stop"}


def tool(name):
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if not found:
        pytest.skip(f"no {name} here")
    return found


class Listener:
    """bpftrace on the markers of a file in a process."""

    def __init__(self, path, pid):
        probes = "".join(
            f"usdt:{path}:perfx:{marker} {{ @hits[\"{marker}\", "
            + ('"" ' if marker in WITHOUT_NAME else "str(arg0)") + "] = count(); }\n"
            for marker in MARKERS)
        # it attaches one after the other and prints nothing: see test_peers.py
        script = ('interval:ms:20 { printf("first\\n"); }\n' + probes +
                  f"usdt:{path}:perfx:counter /arg1 == 0x3ff0000000000000/ {{ @ones = count(); }}\n"
                  f"usdt:{path}:perfx:counter_add {{ @last = arg1; }}\n"
                  f"usdt:{path}:perfx:memory_alloc {{ @bytes = arg2; }}\n"
                  'interval:ms:20 { printf("last\\n"); }\n')
        self.process = subprocess.Popen(
            [tool("bpftrace"), "-B", "line", "-f", "json", "-p", str(pid), "-e", script],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        waiting = {"first\\n", "last\\n"}
        while waiting:
            assert readable(self.process.stdout, 60), "bpftrace says nothing"
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            waiting -= {text for text in waiting if text in line}

    def stop(self):
        self.process.terminate()
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        maps = {}
        for line in out.splitlines():
            record = json.loads(line) if line else {}
            if record.get("type") == "map":
                maps.update(record["data"])
        return maps

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def program_and_listener(kind):
    if kind == "c":
        program = Program(WORKLOADS / "markers")
        return program, Listener(WORKLOADS / "markers", program.pid)
    # `pip install` and `make install` install this file
    program = Program("/usr/bin/python3", "tests/workloads/markers.py",
                      env={**os.environ, "PERFX_LIBRARY": str(LIBRARY)})
    return program, Listener(LIBRARY, program.pid)


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["c", "python"])
def test_hits_are_exact(kind):
    program, listener = program_and_listener(kind)
    try:
        program.go(1)  # literals in untouched pages cannot be read: their names are missing
        program.go(4)
        maps = listener.stop()
        expected = program.finish()
    finally:
        listener.kill()
        program.kill()
    hits = collections.Counter()
    for key, value in maps["@hits"].items():
        marker, name = key.split(",", 1)
        hits[KEYS[marker]] += value
        if marker not in WITHOUT_NAME and name:
            assert value <= expected[name, KEYS[marker]], (name, marker)
            if kind == "python":  # its names are on the heap
                assert value == expected[name, KEYS[marker]], (name, marker)
    must = collections.Counter()
    for (_, key), value in expected.items():
        must[key] += value
    must.pop("calls", None)
    assert hits == must
    if kind == "c":
        assert maps["@ones"] == 5  # 1.0 / (0 + 1), in each run
        assert maps["@last"] == 0x4040000000000000  # 32.0
        assert maps["@bytes"] == 4096


@pytest.mark.parametrize("path", [WORKLOADS / "markers", LIBRARY], ids=["program", "library"])
def test_bpftrace_lists_them(path):
    out = subprocess.run([tool("bpftrace"), "-l", f"usdt:{path}:*"], capture_output=True, text=True,
                         check=True).stdout
    assert sorted(out.split()) == [f"usdt:{path}:perfx:{marker}" for marker in MARKERS]


def test_gdb_stops_at_them():
    out = subprocess.run(
        [tool("gdb"), "-batch", "-nx", "-ex", "break -probe-stap perfx:memory_alloc", "-ex", "run",
         "-ex", "bt", "-ex", "print $_probe_arg2", "-ex", "kill", str(WORKLOADS / "markers")],
        input="go\n", capture_output=True, text=True, timeout=60, check=False).stdout
    assert "perfx_at_memory_alloc ()" in out
    assert re.search(r"step \(number=0\)", out)
    assert "$1 = 4096" in out


def test_perf_lists_them(tmp_path):
    perf = tool("perf")
    cache = ["buildid-cache", "--add", str(LIBRARY)]
    run = subprocess.run([perf, "--buildid-dir", str(tmp_path), *cache], capture_output=True, text=True,
                         check=False)
    if run.returncode:
        pytest.skip(f"perf buildid-cache: {run.stderr.strip()}")
    out = subprocess.run([perf, "--buildid-dir", str(tmp_path), "list", "--raw-dump", "sdt"],
                         capture_output=True, text=True, check=True).stdout
    if "sdt_" not in out:
        pytest.skip("this perf reads no SDT events")
    assert {f"sdt_perfx:{marker}" for marker in MARKERS} <= set(out.split())
