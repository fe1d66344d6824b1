# SPDX-License-Identifier: BSD-2-Clause
"""--timeline: every context switch, and who woke whom, of programs that count their own."""
import collections
import json
import re
import shutil
import subprocess
import time

import pytest
from browser import CHROMIUM, Browser
from conftest import PERFX, WORKLOADS, Program, ended, run, until_attached
from test_export import decoded, exported

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


@pytest.fixture(scope="module", name="recording")
def fixture_recording(tmp_path_factory):
    """Two threads that wake each other: the capture, and what they say of themselves."""
    capture = tmp_path_factory.mktemp("timeline") / "run.perfx"
    process = Program(WORKLOADS / "handoff")
    trace = subprocess.Popen(
        [PERFX, "record", "-p", str(process.pid), "-d", "60", "--timeline", "--max-overhead", "off", "--no-calibrate",
         "--memory", "off", "--sample", "off", "-F", "handoff:hand_over", "-o", capture], stderr=subprocess.PIPE,
        text=True)
    try:
        until_attached(trace)
        process.go()
        expected = process.finish()
        assert ended(trace) == 0
    finally:
        process.kill()
        trace.kill()
    return capture, expected


@pytest.mark.kernel
@pytest.mark.skipif(not shutil.which("protoc"), reason="no protoc here")
def test_two_threads_that_wake_each_other(recording, tmp_path):
    """Their switches and CPU times are those that the kernel tells them; states follow each other without
    a gap; and each wake of one is an arrow from the other."""
    capture, expected = recording
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


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")
def test_the_figure(recording, tmp_path):
    """The HTML report has the last slices: a thread's do not overlap, each wake is of the other thread,
    calls are below, and the script draws them and says what is under the pointer."""
    capture, expected = recording
    page = tmp_path / "r.html"
    assert run("report", capture, "-o", page).returncode == 0
    figure = re.search(r'<figure class=timeline>.*?<script type="application/json">(.*?)</script>', page.read_text(),
                       re.DOTALL)
    data = json.loads(figure[1])
    assert {t["name"] for t in data["threads"]} == {f"handoff, tid {expected[n, 'tid']}" for n in ("ping", "pong")}
    for thread in data["threads"]:
        boxes = sorted(thread["slices"])
        assert len(boxes) > 1000
        assert all(a[1] <= b[0] for a, b in zip(boxes, boxes[1:]))
        assert {data["names"][call[3]] for call in thread["calls"]} <= {"hand_over"}
    assert sum(len(thread["calls"]) for thread in data["threads"]) > 1000
    assert data["wakes"] and all(by != of for _, by, of in data["wakes"])
    browser = Browser()
    try:
        browser.open(page)
        told = browser.eval("""(() => {
            const canvas = document.querySelector(".timeline canvas"), box = canvas.getBoundingClientRect();
            canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + 700, clientY: box.top + 7}));
            return document.querySelector(".timeline .status").textContent;
        })()""")
        assert re.match(r"handoff, tid \d+: (runs: CPU \d|waits: futex|is ready, no CPU is free: runnable)", told), told
        assert browser.complaints == []
    finally:
        browser.close()


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
