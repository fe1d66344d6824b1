# SPDX-License-Identifier: BSD-2-Clause
"""Exports with ranges and steps, read by the installed ones of their target programs. TOOLS_PYTHON may
name a Python with HolisticTraceAnalysis, pandas or prometheus_client."""
import collections
import csv
import functools
import json
import os
import re
import shutil
import subprocess
import sys

import captures
import pytest
from captures import SECOND
from conftest import PERFX, TOP, WORKLOADS, ended, run, until_attached
from test_export import decoded, needs_protoc

MS = SECOND // 1000
STEPS = 12
WHOLE = STEPS - 1  # the start of the first one is unknown
DATA, FORWARD, MM, BACKWARD, OPTIMIZER, COPY, PREPARE, OUTLIVES = range(1, 9)
NAMES = {DATA: "enumerate(DataLoader)#It.__next__", FORWARD: "forward", MM: "at::_ops::mm::call",
         BACKWARD: "torch::autograd::Engine::execute", OPTIMIZER: "Optimizer.step#SGD.step",
         COPY: "copy", PREPARE: "prepare", OUTLIVES: "out|lives <b>\x1b[1m=1+1"}
APART = 8


@functools.cache
def python_with(module):
    """A Python with this package, or None."""
    candidates = [os.environ.get("TOOLS_PYTHON"), sys.executable,
                  os.path.join(os.environ.get("ML_VENV", "/nonexistent"), "bin", "python")]
    for python in filter(None, candidates):
        if shutil.which(python) and not subprocess.run([python, "-c", f"import {module}"],
                                                       capture_output=True).returncode:
            return python
    return None


def needs(module):
    return pytest.mark.skipif(not python_with(module), reason=f"no Python with {module} here (TOOLS_PYTHON)")


def asked(module, script, *argv):
    """A script's output, as JSON."""
    result = subprocess.run([python_with(module), "-W", "ignore", "-c", script, *map(str, argv)],
                            capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """Twelve steps of 100 ms, the eighth of 160; two copies at a time, ended by other threads; a range that
    outlives the call that opened it."""
    records = [captures.host(), captures.process("trainer", "t"), captures.peak(10**11, 10**10),
               captures.usage(SECOND, 0)]
    for number, name in NAMES.items():
        if number in (MM, PREPARE):
            records.append(captures.function(number, name, "/lib/libtorch_cpu.so"))
        elif number == BACKWARD:
            records.append(captures.torch_function(number, name, "/lib/libtorch_cpu.so"))
        else:
            records.append(captures.marked(number, name, 7 if number in (FORWARD, COPY) else 3))
        records.append(captures.context(number, FORWARD if number == MM else 0, number))
    at = SECOND
    for step in range(STEPS):
        data = (70 if step == 7 else 10) * MS
        records.append(captures.span(at, data, data, DATA))
        at += data
        records += [captures.computed(at, 20 * MS, MM, 2 * 10**9, 10**7, depth=1),
                    captures.span(at, 30 * MS, 10 * MS, FORWARD),
                    captures.span(at + 5 * MS, 40 * MS, 40 * MS, COPY, flags=APART),
                    captures.span(at + 20 * MS, 40 * MS, 40 * MS, COPY, flags=APART),
                    captures.span(at + 30 * MS, 50 * MS, 50 * MS, BACKWARD),
                    captures.span(at + 80 * MS, 10 * MS, 10 * MS, OPTIMIZER)]
        at += 90 * MS
    records += [captures.span(at, 10 * MS, 10 * MS, PREPARE),
                captures.span(at + 5 * MS, 10 * MS, 10 * MS, OUTLIVES),
                captures.usage(at + 20 * MS, SECOND), captures.end(at + 20 * MS)]
    path = tmp_path_factory.mktemp("tools") / "run.perfx"
    captures.write(path, [records])
    return path


def exported(capture, form, suffix):
    path = capture.with_suffix(suffix)
    result = run("export", capture, "-f", form, "-o", path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    return path


def slices(path):
    """(track's name, slice's name, begin, end) as in Perfetto: by time, ends first."""
    text = decoded(path.read_bytes(), "Trace", "perfetto.proto")
    tracks, names, events, found, open_ones = {}, {}, [], [], collections.defaultdict(list)
    for packet in text.split("packet {")[1:]:
        names.update(re.findall(r'event_names {\s+iid: (\d+)\s+name: "(.*)"', packet))
        if track := re.search(r'track_descriptor {\s+uuid: (\d+)(?:\s+name: "(.*)")?', packet):
            tracks[track[1]] = track[2] or "thread"
        if event := re.search(r'type: (TYPE_SLICE_\w+)\s+(?:name_iid: (\d+)\s+)?track_uuid: (\d+)'
                              r'(?:\s+categories: "step")?(?:\s+name: "(.*)")?', packet):
            time = int(re.search(r"timestamp: (\d+)\n  trusted", packet)[1])
            events.append((time, len(events), *event.groups()))
    for time, _, kind, iid, track, name in sorted(events, key=lambda e: e[:2]):
        if kind == "TYPE_SLICE_BEGIN":
            open_ones[track].append((name or names[iid], time))
        else:
            begun, start = open_ones[track].pop()
            found.append((tracks[track], begun, start, time))
    assert not any(open_ones.values())
    return found


@needs_protoc
def test_perfetto(capture):
    """Every range has its length, on its thread's track or on its own; steps are on theirs."""
    found = slices(exported(capture, "perfetto", ".pftrace"))
    steps = [(name, end - start) for track, name, start, end in found if track == "Steps"]
    assert steps == [(f"Step {i + 1}", (160 if i == 6 else 100) * MS) for i in range(WHOLE)]
    copies = [(start, end) for track, name, start, end in found if name == "copy"]
    assert [end - start for start, end in copies] == [40 * MS] * (2 * STEPS)
    assert {track for track, name, _, _ in found if name == "copy"} == {"Overlapping ranges"}
    where = {name: track for track, name, _, _ in found}
    assert where["forward"] == where["prepare"] == "thread"
    outlives = next(name for name in where if "lives" in name)
    assert "overlapping (" in where[outlives]
    assert [end - start for _, name, start, end in found if name == outlives] == [10 * MS]
    forward = [(start, end) for _, name, start, end in found if name == "forward"]
    assert [end - start for start, end in forward] == [30 * MS] * STEPS


@needs("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
def test_perfetto_by_its_own_schema(capture):
    """Perfetto's message types know every field, with the intended meaning."""
    found = asked("perfetto.protos.perfetto.trace.perfetto_trace_pb2", """
import json, sys
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
trace = schema.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
def unknown(message):
    count = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type:
            count += sum(map(unknown, value if field.is_repeated else [value]))
    return count
tracks = {p.track_descriptor.uuid: p.track_descriptor.name or
          ("thread" if p.track_descriptor.HasField("thread") else "process")
          for p in trace.packet if p.HasField("track_descriptor")}
begins = [p for p in trace.packet if p.track_event.type == schema.TrackEvent.TYPE_SLICE_BEGIN]
counts = {}
for p in begins:
    name = tracks[p.track_event.track_uuid]
    counts[name] = counts.get(name, 0) + 1
steps = [p.track_event.name for p in begins if "step" in p.track_event.categories]
print(json.dumps([sum(map(unknown, trace.packet)), counts, steps]))
""", exported(capture, "perfetto", ".pftrace"))
    assert found[0] == 0
    beside = [name for name in found[1] if "overlapping (" in name]
    assert found[1] == {"thread": 5 * STEPS + 1, "Steps": WHOLE, "Overlapping ranges": 2 * STEPS, beside[0]: 1}
    assert found[2] == [f"Step {i + 1}" for i in range(WHOLE)]


def assert_nested(events):
    """Slices of a tid are nested or disjoint."""
    by_tid = collections.defaultdict(list)
    for e in events:
        by_tid[e["tid"]].append((round(e["ts"] * 1000), -round((e["ts"] + e["dur"]) * 1000)))
    for spans in by_tid.values():
        open_ones = []
        for start, end in sorted(spans):
            while open_ones and open_ones[-1] <= start:
                open_ones.pop()
            assert not open_ones or -end <= open_ones[-1]
            open_ones.append(-end)


def test_chrome_nests(capture):
    events = [e for e in json.loads(exported(capture, "chrome", ".trace.json").read_text())["traceEvents"]
              if e["ph"] == "X"]
    assert_nested(events)
    categories = {e["name"]: e["cat"] for e in events}
    assert categories["forward"] == categories["Optimizer.step#SGD.step"] == "user_annotation"
    assert categories["ProfilerStep#11"] == "user_annotation" and categories["aten::mm"] == "cpu_op"
    assert sum(e["name"].startswith("ProfilerStep#") for e in events) == WHOLE


@pytest.mark.some(2)
@pytest.mark.parametrize("case", ["nested", "unbalanced", "threads", "train", "deep"])
def test_ranges_of_a_program(case, program, tmp_path):
    """Each call and range with a time, and each step, once; all nested, however they overlapped."""
    p, file = program(WORKLOADS / "ranges", case), tmp_path / "run.perfx"
    tracer = subprocess.Popen([PERFX, "record", "-p", str(p.pid), "-d", "60", "--no-calibrate", "--memory", "off",
                               "-F", "ranges:{work,pushes,pops}", "-o", str(file)],
                              stderr=subprocess.PIPE, text=True)
    until_attached(tracer)
    p.go(2)
    p.finish()
    assert ended(tracer) == 0
    process, = json.loads(run("report", file, "-f", "json").stdout)["processes"]
    events = [e for e in json.loads(exported(file, "chrome", ".trace.json").read_text())["traceEvents"]
              if e["ph"] == "X"]
    assert_nested(events)
    found = collections.Counter(e["name"] for e in events)
    steps = sum(found.pop(name) for name in list(found) if name.startswith("ProfilerStep#"))
    assert found == {f["name"]: f["timed"] - f["booked"] for f in process["functions"] if f["timed"]}
    assert steps == process.get("steps", {"whole": 0})["whole"]
    lengths = collections.Counter()
    for e in events:
        lengths[e["name"]] += round(e["dur"] * 1000)
    assert {f["name"]: f["total_ns"] for f in process["functions"] if f["timed"]} == {
        name: lengths[name] for name in found}
    if shutil.which("protoc"):
        found = collections.Counter(name for _, name, _, _ in slices(exported(file, "perfetto", ".pftrace")))
        assert sum(n for name, n in found.items() if not name.startswith("Step ")) == sum(
            f["timed"] for f in process["functions"])


@needs("hta")
def test_holistic_trace_analysis(capture):
    """Its steps are those of the report, and its events belong to them."""
    path = exported(capture, "chrome", ".pt.trace.json")
    found = asked("hta", """
import json, sys
from hta.common.trace import Trace
t = Trace(trace_files={0: sys.argv[1]}, trace_dir="")
t.parse_traces(use_multiprocessing=False)
frame, names = t.get_trace(0), t.symbol_table.get_sym_table()
calls = {}
for name, iteration in zip(frame["name"], frame["iteration"]):
    calls.setdefault(names[name], []).append(int(iteration))
steps = frame[frame["name"].map(lambda i: names[i].startswith("ProfilerStep"))]
from hta.trace_diff import LabeledTrace, TraceDiff
second, slow = LabeledTrace(label="a", t=t), LabeledTrace(label="b", t=t)
changes = TraceDiff.compare_traces(second, slow, control_iteration=2, test_iteration=7)["diff_duration"]
print(json.dumps([[int(i) for i in t.get_iterations(0)], calls, [float(d) for d in steps["dur"]],
                  {name: float(d) for name, d in changes.items() if d}]))
""", path)
    assert found[0] == list(range(1, WHOLE + 1))
    # -1: outside steps
    assert found[1]["aten::mm"] == found[1]["forward"] == [-1, *range(1, WHOLE + 1)]
    assert found[2] == [160000 if i == 6 else 100000 for i in range(WHOLE)]
    # why the seventh whole step is longer than the second; the steps themselves have different names
    found[3] = {name: d for name, d in found[3].items() if not name.startswith("ProfilerStep")}
    assert found[3] == {NAMES[DATA]: 60000}


@needs("hta")
def test_holistic_trace_analysis_of_a_gpu():
    """A step with two products of 15 ms, 20 kernels of 3 us, 12 ms of communication and a copy (golden_gpu.h)."""
    found = asked("hta", """
import json, os, sys
from hta.trace_analysis import TraceAnalysis
a = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=os.path.dirname(sys.argv[1]))
kinds = a.get_gpu_kernel_breakdown(visualize=False)[0]
launches = a.get_cuda_kernel_launch_stats(visualize=False)[0]
print(json.dumps([dict(zip(kinds["kernel_type"], map(float, kinds["sum"]))),
                  sorted(map(float, launches["gpu_duration"]))[-3:], sorted(map(float, launches["launch_delay"]))[-3:]]))
""", TOP / "tests/golden/gpu-step.trace.json")
    assert found[0] == {"COMPUTATION": 24960, "COMMUNICATION": 6900, "COMPUTATION overlapping COMMUNICATION": 5100,
                        "MEMORY": 1600}
    assert found[1] == [12000, 15000, 15000]
    assert found[2] == [73, 14773, 23993]  # arrows lead from launches to kernels


@pytest.mark.skipif(not shutil.which("go"), reason="no go here, and so no go tool pprof")
def test_pprof(capture):
    """Time by function, and the steps' time by phase."""
    path = exported(capture, "pprof", ".pb.gz")

    def top(index):
        result = subprocess.run(["go", "tool", "pprof", f"-sample_index={index}", "-unit=ms", "-top", str(path)],
                                capture_output=True, text=True, env=os.environ | {"HOME": str(path.parent)})
        assert result.returncode == 0, result.stderr
        return {line.split(None, 5)[5]: tuple(float(line.split()[i].removesuffix("ms")) for i in (0, 3))
                for line in result.stdout.splitlines() if re.match(r"\s*[\d.]+(ms)?\s", line)}

    steps = top("step_time")
    assert {name: flat for name, (flat, _) in steps.items() if flat} == {
        "data": 170, "forward": 330, "backward": 550, "optimizer": 110}
    assert steps["Optimizer.step#SGD.step"][1] == 1160
    time = top("time")
    assert time["forward"] == (120, 360) and time["aten::mm"][0] == 240


def test_speedscope(capture):
    scope = json.loads(exported(capture, "speedscope", ".speedscope.json").read_text())
    frames = [f["name"] for f in scope["shared"]["frames"]]
    steps, = [p for p in scope["profiles"] if p["name"].endswith(": steps")]
    sums = collections.Counter()
    for stack, weight in zip(steps["samples"], steps["weights"]):
        sums[frames[stack[0]]] += weight
    assert dict(sums) == {f"Step {i + 1}": (160 if i == 6 else 100) * MS for i in range(WHOLE)}
    assert steps["endValue"] == sum(sums.values())


@needs("prometheus_client")
def test_openmetrics(capture):
    """Read by the format's strict parser."""
    found = asked("prometheus_client", """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families
print(json.dumps({f.name: [f.type, [[s.name, s.labels, s.value] for s in f.samples]]
                  for f in families(open(sys.argv[1]).read())}))
""", exported(capture, "openmetrics", ".prom"))
    kind, samples = found["perfx_step_seconds"]
    assert kind == "summary" and ["perfx_step_seconds_count", {"pid": "42", "comm": "trainer"}, WHOLE] in samples
    phases = {labels["phase"]: value for _, labels, value in found["perfx_step_phase_seconds"][1]}
    assert phases == pytest.approx({"data": 0.17, "forward": 0.33, "backward": 0.55, "optimizer": 0.11, "other": 0,
                                     "untraced": 0})
    calls = {labels["function"]: value for _, labels, value in found["perfx_function_calls"][1]}
    assert calls["forward"] == STEPS and calls["copy"] == 2 * STEPS
    assert found["perfx_step_flops"][1][0][2] == 2 * 10**9 * WHOLE


PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(not PROMTOOL, reason="no promtool here (Debian's package prometheus)")
def test_promtool(capture):
    """It reads the older text format, in which the help of a counter belongs to the name with _total;
    it has no other complaint."""
    result = subprocess.run([PROMTOOL, "check", "metrics"], capture_output=True, text=True,
                            input=exported(capture, "openmetrics", ".prom").read_text())
    assert result.returncode in (0, 3), result.stderr
    complaints = (result.stdout + result.stderr).splitlines()
    assert not [line for line in complaints if not line.endswith("_total no help text")]


@needs("pandas")
def test_pandas(capture):
    """One call for each table."""
    for form, suffix, more in (("json", ".json", []), ("csv", ".csv", ["--table", "steps"])):
        result = run("report", capture, "-f", form, "-o", capture.with_suffix(suffix), *more)
        assert result.returncode == 0, result.stderr
    found = asked("pandas", """
import json, sys
import pandas as pd
report = json.load(open(sys.argv[1]))
functions = pd.json_normalize(report["processes"], "functions")
steps = pd.json_normalize(report["processes"], ["steps", "series"])
table = pd.read_csv(sys.argv[2])
whole = pd.read_json(sys.argv[1], typ="series")
print(json.dumps([int(functions[functions.kind == "range"].calls.sum()), int(steps.total_ns.sum()),
                  int(steps["breakdown.data"].sum()), table.columns.tolist(), int(table.total_ns.sum()),
                  table.slow.tolist(), whole["schema"]]))
""", capture.with_suffix(".json"), capture.with_suffix(".csv"))
    total = (100 * WHOLE + 60) * MS
    assert found[:3] == [5 * STEPS + 1, total, (10 * WHOLE + 60) * MS]
    assert found[3] == next(csv.reader([capture.with_suffix(".csv").read_text().splitlines()[0]]))
    assert found[4:] == [total, [i == 6 for i in range(WHOLE)], "perfx.report/1"]


@needs("pandas")
def test_sqlite_in_pandas(capture):
    exported(capture, "sqlite", ".sqlite")
    found = asked("pandas", """
import json, sqlite3, sys
import pandas as pd
db = sqlite3.connect(sys.argv[1])
read = lambda name: pd.read_sql(f"SELECT * FROM {name}", db)
steps, spans, slowest = read("steps"), read("named_spans"), read("slowest_steps")
print(json.dumps([int(steps.total_ns.sum()), int(slowest.step[0]), slowest.max_ms[0],
                  spans.groupby("label").size().to_dict(), float(spans.flops.sum())]))
""", capture.with_suffix(".sqlite"))
    assert found[:3] == [(100 * WHOLE + 60) * MS, 7, 160]
    assert found[3]["forward"] == STEPS and found[3]["copy"] == 2 * STEPS
    assert found[4] == 2 * 10**9 * STEPS


@needs("duckdb_extension_sqlite_scanner")
def test_duckdb(capture):
    """It reads each table and view by its declared types: the extension of DuckDB that PyPI has, without network."""
    exported(capture, "sqlite", ".sqlite")
    found = asked("duckdb_extension_sqlite_scanner", """
import json, pathlib, sys
import duckdb, duckdb_extension_sqlite_scanner as scanner
db = duckdb.connect()
db.execute(f"LOAD '{next(pathlib.Path(scanner.__file__).parent.rglob('*.duckdb_extension'))}'")
db.execute(f"ATTACH '{sys.argv[1]}' AS run (TYPE sqlite)")
tables = [name for (name,) in db.execute(
    "SELECT table_name FROM information_schema.tables WHERE table_catalog = 'run'").fetchall()]
rows = {name: len(db.execute(f"SELECT * FROM run.{name}").fetchall()) for name in tables}
print(json.dumps([rows, db.execute("SELECT sum(total_ns)::BIGINT FROM run.steps").fetchone()[0],
                  str(db.execute("SELECT typeof(intensity), typeof(calls) FROM run.functions").fetchone())]))
""", capture.with_suffix(".sqlite"))
    assert found[0]["steps"] == WHOLE and found[0]["spans"] == 7 * STEPS + 2
    assert found[1:] == [(100 * WHOLE + 60) * MS, "('DOUBLE', 'BIGINT')"]
