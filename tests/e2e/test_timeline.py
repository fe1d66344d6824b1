# SPDX-License-Identifier: BSD-2-Clause
"""--timeline: every context switch, and who woke whom, of programs that count their own."""
import collections
import json
import re
import shutil
import subprocess
import time

import pytest
from conftest import PERFX, WORKLOADS, ended, run, until_attached
from test_export import decoded, exported

pytestmark = pytest.mark.skipif(not shutil.which("protoc"), reason="no protoc here")

State = collections.namedtuple("State", "name from_ns to_ns woken_by flow")


def states_of(text):
    """Of each thread, in the order of the trace: its states, and the flows of the wakes that it does."""
    tids, states, wakes, begun = {}, collections.defaultdict(list), collections.defaultdict(set), {}
    thread = {}
    for packet in text.split("\npacket {"):
        field = dict(re.findall(r"^\s+(\w+): (.*)$", packet, re.MULTILINE))
        if "tid" in field:
            thread[field["uuid"]] = int(field["tid"])
        elif '    name: "State"' in packet:
            tids[field["uuid"]] = thread[field["parent_uuid"]]
        tid = tids.get(field.get("track_uuid"))
        if tid is None:
            continue
        now = int(field["timestamp"])
        if field["type"] == "TYPE_INSTANT":
            wakes[tid].add(field["flow_ids"])
        elif field["type"] == "TYPE_SLICE_BEGIN":
            names = re.findall(r'^\s+name: "(.*)"$', packet, re.MULTILINE)
            begun[tid] = State(names[-1], now, 0, field.get("string_value", ""), field.get("flow_ids"))
        else:
            states[tid].append(begun.pop(tid)._replace(to_ns=now))
    return states, wakes


@pytest.mark.kernel
def test_two_threads_that_wake_each_other(program, tmp_path):
    """Their switches and CPU times are those that the kernel tells them; states follow each other without
    a gap; and each wake of one is an arrow from the other."""
    process = program(WORKLOADS / "handoff")
    capture = tmp_path / "run.perfx"
    trace = subprocess.Popen(
        [PERFX, "record", "-p", str(process.pid), "-d", "60", "--timeline", "--max-overhead", "off", "--no-calibrate",
         "--memory", "off", "--sample", "off", "-o", capture], stderr=subprocess.PIPE, text=True)
    until_attached(trace)
    process.go()
    expected = process.finish()
    assert ended(trace) == 0
    report = json.loads(run("report", capture, "-f", "json").stdout)
    assert report["losses"]["slice_drops"] == 0
    states, wakes = states_of(decoded(exported(capture, "perfetto", tmp_path / "r"), "Trace", "perfetto.proto"))
    for name, other in (("ping", "pong"), ("pong", "ping")):
        tid = expected[name, "tid"]
        of_thread = states[tid]
        for before, after in zip(of_thread, of_thread[1:]):
            assert before.to_ns == after.from_ns, name
        runs = [s for s in of_thread if s.name.startswith("CPU ")]
        # besides: before the first and after the last handover, where main also reads "go" and writes
        assert expected[name, "switches"] <= len(runs) <= expected[name, "switches"] + 20, name
        assert sum(s.to_ns - s.from_ns for s in runs) == pytest.approx(expected[name, "cpu_ns"], rel=0.1, abs=2e6)
        woken = [s for s in of_thread if s.name == "runnable" and s.flow]
        # one that is ready again before it has left the CPU did not wait
        assert expected[name, "waits"] - 20 <= len(woken) <= expected[name, "waits"] + 2, name
        assert {s.woken_by for s in woken} == {f'"handoff (tid {expected[other, "tid"]})"'}
        assert {s.flow for s in woken} <= wakes[expected[other, "tid"]]
        assert {s.name.split(" at ")[0] for s in of_thread if s.name.startswith("futex")} == {"futex: lock"}


@pytest.mark.parametrize("when", ["25:00", "14:30:61:00", "/0", "/x", "/2d", ""])
def test_no_time_to_begin(when):
    result = run("record", "-p", "1", "-o", "x.perfx", "--at", when)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1 and f"--at '{when}': not a " in result.stderr


@pytest.mark.long  # all is attached in the ten seconds before
@pytest.mark.parametrize("period", [0, 3])
def test_it_begins_at_a_time(program, tmp_path, period):
    process = program(WORKLOADS / "handoff")
    capture = tmp_path / "run.perfx"
    then = time.localtime(time.time() + 12)
    when = f"/{period}s" if period else time.strftime("%H:%M:%S", then)
    result = run("record", "-p", str(process.pid), "--at", when, "-d", "100ms", "-o", capture)
    assert result.returncode == 0 and "late" not in result.stderr
    begun = json.loads(run("report", capture, "-f", "json").stdout)["capture"]["start_unix_ns"] / 1e9
    # by the scheduler's delay later, never earlier
    assert 0 <= (begun % period if period else begun - time.mktime(then)) < 0.5
