# SPDX-License-Identifier: BSD-2-Clause
"""Exports have the report's values, and other tools read them."""
import gzip
import json
import re
import resource
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import captures
import pytest
from captures import SECOND
from conftest import PERFX, WORKLOADS, Program, ended, run, run_unprivileged, until_attached

FUNCTIONS = ["-F", "exceptions:{*catcher,*rethrower,*switched,*tail,*guarded,*frame,*method}"]
FORMATS = ["perfetto", "chrome", "pprof", "folded", "speedscope", "openmetrics", "otlp", "sqlite"]
PROTOS = Path(__file__).resolve().parents[2] / "user" / "export"
needs_protoc = pytest.mark.skipif(not shutil.which("protoc"), reason="no protoc here")


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    file = tmp_path_factory.mktemp("export") / "run.perfx"
    p = Program(WORKLOADS / "exceptions")
    t = subprocess.Popen([PERFX, "record", "-p", str(p.pid), "-d", "60", "--no-calibrate", "-o", str(file),
                          *FUNCTIONS], stderr=subprocess.PIPE, text=True)
    try:
        until_attached(t)
        p.go()
        p.finish()
        assert ended(t) == 0
    finally:
        p.kill()
        t.kill()
    return file


@pytest.fixture(scope="module")
def functions(capture):
    """(calls, calls with a time, self time) by name."""
    report = json.loads(run("report", capture, "-f", "json").stdout)
    sums = {}
    for process in report["processes"]:
        for f in process["functions"]:
            calls, timed, self_ns = sums.get(f["name"], (0, 0, 0))
            sums[f["name"]] = (calls + f["calls"], timed + f["timed"], self_ns + f.get("self_ns", 0))
    assert len(sums) > 3
    return sums


def exported(capture, form, path):
    result = run("export", capture, "-f", form, "-o", path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    return path.read_bytes()


def counts(names):
    return {name: names.count(name) for name in set(names)}


def test_chrome(capture, functions, tmp_path):
    text = exported(capture, "chrome", tmp_path / "r.json").decode()
    assert re.search(r'"rank":\s+(\d+)', text)
    events = json.loads(text)["traceEvents"]
    # steps of a period are on a track of their own
    calls = [e for e in events if not e["name"].startswith("ProfilerStep#")]
    timed = [e["name"] for e in calls if e["ph"] == "X"]
    assert counts(timed) == {name: t for name, (_, t, _) in functions.items() if t}
    assert counts([e["name"] for e in calls if e["ph"] in "Xi"]) == {n: c for n, (c, _, _) in functions.items()}
    assert all("dur" in e and "cat" in e for e in events if e["ph"] == "X")


def decoded(data, message, proto):
    return subprocess.run(["protoc", f"--decode={message}", f"-I{PROTOS}", proto], input=data, check=True,
                          capture_output=True).stdout.decode()


@needs_protoc
def test_perfetto(capture, functions, tmp_path):
    text = decoded(exported(capture, "perfetto", tmp_path / "r"), "Trace", "perfetto.proto")
    assert not re.search(r"^\s*\d+[:{ ]", text, re.M), "a field that the .proto lacks"
    names, begun, instants, open_ones = {}, [], [], {}
    events = []
    for packet in text.split("packet {")[1:]:
        names.update((int(i), n) for i, n in re.findall(r'event_names {\s+iid: (\d+)\s+name: "(.*)"', packet))
        found = re.search(r"type: (TYPE_\w+)\s+(?:name_iid: (\d+)\s+)?track_uuid: (\d+)", packet)
        if found:
            time = int(re.search(r"timestamp: (\d+)\n  trusted", packet)[1])
            events.append((time, len(events), *found.groups()))
    for _, _, kind, name, track in sorted(events):  # Perfetto's order: by time, then as in the file
        stack = open_ones.setdefault(track, [])
        if kind == "TYPE_SLICE_BEGIN":
            stack.append(name)
            if name:  # steps of a period have no interned name
                begun.append(names[int(name)])
        elif kind == "TYPE_SLICE_END":
            stack.pop()
        elif kind == "TYPE_INSTANT":
            instants.append(names[int(name)])
    assert not any(open_ones.values())
    assert counts(begun) == {name: t for name, (_, t, _) in functions.items() if t}
    assert counts(begun + instants) == {name: c for name, (c, _, _) in functions.items()}


@needs_protoc
def test_perfetto_samples(capture, tmp_path):
    """Every sample on a CPU is exported once, after the records that it refers to."""
    text = decoded(exported(capture, "perfetto", tmp_path / "r"), "Trace", "perfetto.proto")
    known = {kind: set() for kind in ("function_names", "mapping_paths", "mappings", "frames", "callstacks")}
    refers = {"function_name_id": "function_names", "path_string_ids": "mapping_paths", "mapping_id": "mappings",
              "frame_ids": "frames", "callstack_iid": "callstacks"}
    samples = 0
    for packet in text.split("packet {")[1:]:
        for kind, ids in known.items():
            ids.update(re.findall(rf"^    {kind} {{\s+iid: (\d+)", packet, re.M))
        for field, kind in refers.items():
            assert set(re.findall(rf"{field}: (\d+)", packet)) <= known[kind], packet
        samples += "perf_sample {" in packet
    processes = json.loads(run("report", capture, "-f", "json").stdout)["processes"]
    assert samples == sum(p["samples"]["on_cpu"] for p in processes) > 0
    assert known["callstacks"]


@needs_protoc
def test_pprof(capture, functions, tmp_path):
    data = gzip.decompress(exported(capture, "pprof", tmp_path / "r.pb.gz"))
    text = decoded(data, "Profile", "pprof.proto")
    assert not re.search(r"^\s*\d+[:{ ]", text, re.M)
    strings = re.findall(r'^string_table: "(.*)"', text, re.M)
    function_of = dict(re.findall(r"^function {\s+id: (\d+)\s+name: (\d+)", text, re.M))
    sums = {}
    for sample in re.findall(r"^sample {(.*?)^}", text, re.M | re.S):
        leaf = re.search(r"location_id: (\d+)", sample)[1]
        values = [int(v) for v in re.findall(r"value: (\d+)", sample)]
        name = strings[int(function_of[leaf])]
        if values[0]:
            calls, self_ns = sums.get(name, (0, 0))
            sums[name] = (calls + values[0], self_ns + values[1])
    assert sums == {name: (c, s) for name, (c, _, s) in functions.items()}


def test_folded_and_speedscope(capture, functions, tmp_path):
    """Self time by the innermost function is equal in both."""
    want = {name: s for name, (_, _, s) in functions.items() if s}
    sums = {}
    for line in exported(capture, "folded", tmp_path / "r").decode().splitlines():
        stack, weight = line.rsplit(" ", 1)
        name = stack.split(";")[-1]
        sums[name] = sums.get(name, 0) + int(weight)
    assert sums == want
    scope = json.loads(exported(capture, "speedscope", tmp_path / "s"))
    sums = {}
    for profile in scope["profiles"]:
        if profile["name"].endswith(": time"):  # and not the samples
            for stack, weight in zip(profile["samples"], profile["weights"]):
                name = scope["shared"]["frames"][stack[-1]]["name"]
                sums[name] = sums.get(name, 0) + weight
    assert sums == want


def test_openmetrics(capture, functions, tmp_path):
    text = exported(capture, "openmetrics", tmp_path / "r").decode()
    assert text.endswith("# EOF\n")
    rows = re.findall(r'^perfx_function_calls_total{.*function="(.*?)",offset=.*} (\d+)$', text, re.M)
    sums = {}
    for name, calls in rows:
        sums[name] = sums.get(name, 0) + int(calls)
    assert sums == {name: c for name, (c, _, _) in functions.items()}
    series = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))


@pytest.mark.parametrize("form", FORMATS)
def test_same_bytes_without_root_and_to_stdout(capture, form, tmp_path):
    first = exported(capture, form, tmp_path / "a")
    assert first == exported(capture, form, tmp_path / "a")  # what was there is replaced
    result = subprocess.run([PERFX, "export", str(capture), "-f", form], capture_output=True)
    assert (result.stdout, result.stderr, result.returncode) == (first, b"", 0)
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        Path(folder).chmod(0o777)
        copy = Path(folder, "run.perfx")
        shutil.copy(capture, copy)
        copy.chmod(0o644)
        result = run_unprivileged("export", copy, "-f", form, "-o", f"{folder}/out")
        assert (result.returncode, result.stderr) == (0, "")
        assert Path(folder, "out").read_bytes() == first


def of_report(report):
    """The rows of the JSON report, as the database has them: (table, process, row)."""
    for p in report["processes"]:
        gpu, steps = p.get("gpu", {}), p.get("steps", {})
        rows = {"processes": [p], "functions": p["functions"], "threads": p["threads"], "findings": p["findings"],
                "steps": steps.get("series", []), "memory": p.get("memory", []), "lines": p.get("lines", []),
                "hotspots": [h for m in p.get("memory", []) for h in m.get("hotspots", [])],
                "callers": [c for f in p["functions"] for c in f["parents"]],
                "waits": p.get("blocked", []), "gpu_kernels": gpu.get("kernels", []),
                "gpu_copies": gpu.get("copies", []), "gpu_syncs": gpu.get("syncs", [])}
        yield from ((table, p["pid"], row) for table, found in rows.items() for row in found)


# as CSV has them
OTHERWISE = {("threads", "comm"), ("callers", "name"), ("hotspots", "stack"), ("waits", "stack"), ("memory", "allocator"),
             ("gpu_kernels", "grid"), ("gpu_kernels", "block"), ("processes", "container")}


def check_same_as_report(file, tmp_path):
    """Every value of every row of the JSON report is in the database, and what it lacks is NULL there. Returns the
    number of values."""
    exported(file, "sqlite", tmp_path / "r.sqlite")
    report = json.loads(run("report", file, "-f", "json").stdout)
    db = sqlite3.connect(tmp_path / "r.sqlite")
    db.row_factory = sqlite3.Row
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    compared, rows = 0, {}
    for table, pid, row in of_report(report):
        if table not in rows:
            rows[table] = iter(db.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall())
        found = next(rows[table])
        assert found["pid"] == pid
        for key in {*found.keys(), *row} - {k for t, k in OTHERWISE if t == table}:
            value, other = row.get(key), found[key] if key in found.keys() else None
            if key in row and key in found.keys():
                compared += 1
                if isinstance(value, (dict, list)):
                    value, other = json.dumps(value), json.dumps(json.loads(other))
                assert other == (pytest.approx(value, rel=1e-8) if isinstance(value, float) else value), (table, key)
    assert all(next(left, None) is None for left in rows.values())
    assert dict(db.execute("SELECT loss, count FROM losses").fetchall()) == report["losses"]
    assert db.execute("SELECT verdict, duration_ns, command FROM capture").fetchone()[:2] == (
        report["verdict"], report["capture"]["duration_ns"])
    wrong = db.execute("""SELECT label, calls, timed, total_ns, count(start_ns), count(duration_ns), sum(duration_ns)
        FROM functions f LEFT JOIN spans s USING (process, function) WHERE booked = 0 GROUP BY process, function
        HAVING count(start_ns) != calls OR count(duration_ns) != timed OR sum(duration_ns) != total_ns""").fetchall()
    assert not wrong, [tuple(row) for row in wrong]
    for (view,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
        db.execute(f"SELECT * FROM {view}").fetchall()
    # sums alone: the same without calls
    assert run("export", file, "--of", "sums", "-o", tmp_path / "sums.sqlite").returncode == 0
    sums = sqlite3.connect(tmp_path / "sums.sqlite")
    assert sums.execute("SELECT count(*) FROM spans").fetchone()[0] == 0
    assert sums.execute("SELECT * FROM functions").fetchall() == [
        tuple(row) for row in db.execute("SELECT * FROM functions").fetchall()]
    return compared


def test_sqlite_is_the_report(capture, tmp_path):
    assert check_same_as_report(capture, tmp_path) > 100
    for file in sorted((Path(__file__).resolve().parents[1] / "golden" / "captures").glob("*.perfx")):
        assert check_same_as_report(file, tmp_path) > 20, file


def test_suffix_decides(capture, tmp_path):
    for suffix, form in (("pftrace", "perfetto"), ("trace.json", "chrome"), ("pb.gz", "pprof")):
        file = tmp_path / f"r.{suffix}"
        assert run("export", capture, "-o", file).returncode == 0
        assert file.read_bytes() == exported(capture, form, tmp_path / "other")


@pytest.mark.parametrize("options, code, says", [
    ([], 2, "-f perfetto"),
    (["-f", "xml"], 2, "openmetrics"),
    (["-o", "r.json"], 2, ".trace.json"),
    (["-f", "folded", "-o", "/nonexistent/x"], 1, "/nonexistent/x"),
])
def test_what_does_not_go(capture, options, code, says):
    result = run("export", capture, *options)
    assert result.returncode == code and len(result.stderr.splitlines()) == 1 and says in result.stderr


def test_no_capture(tmp_path):
    file = tmp_path / "no.perfx"
    file.write_text("no")
    result = run("export", file, "-f", "folded")
    assert result.returncode == 1 and "a text file; needed: a capture" in result.stderr
    assert run("export", "-f", "folded").returncode == 2


def test_cut_capture(capture, tmp_path):
    """The existing part, and a message that it is incomplete."""
    data = capture.read_bytes()
    cut = tmp_path / "cut.perfx"
    cut.write_bytes(data[:len(data) * 2 // 3])
    result = run("export", cut, "-f", "chrome")
    assert result.returncode == 0 and "cut off" in result.stderr
    json.loads(result.stdout)


def test_closed_and_full(capture):
    for form in FORMATS:
        result = subprocess.run(["bash", "-c", f'"{PERFX}" export "{capture}" -f {form} | head -c 1 >/dev/null;'
                                 ' echo "${PIPESTATUS[0]}"'], capture_output=True, text=True)
        assert result.stdout.splitlines()[-1] == "0" and result.stderr == ""
        with open("/dev/full", "wb") as full:
            result = subprocess.run([PERFX, "export", str(capture), "-f", form], stdout=full,
                                    stderr=subprocess.PIPE, text=True)
        assert result.returncode == 1 and "no space" in result.stderr


@pytest.mark.long
@pytest.mark.parametrize("form", ["perfetto", "chrome"])
def test_memory_does_not_grow_with_calls(form, tmp_path):
    """Two million calls inside an outermost call that does not end."""
    file = tmp_path / "large.perfx"
    start = [captures.process("p", "p"), captures.function(1, "f", "/lib/f"), captures.context(1, 0, 1)]
    calls = [captures.span(SECOND + 1000 * i, 500, 500, 1, depth=1) for i in range(20000)]
    captures.write(file, [start] + [calls] * 100 + [[captures.end(3 * SECOND)]])
    limit = 48 << 20
    result = subprocess.run([PERFX, "export", str(file), "-f", form, "-o", str(tmp_path / "out")],
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
                            capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
