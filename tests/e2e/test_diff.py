# SPDX-License-Identifier: BSD-2-Clause
"""Differences between two recordings: a program with known changes, and the interface for scripts."""
import json
import re
import subprocess

import captures
import pytest
from captures import SECOND
from conftest import PERFX, WORKLOADS, Program, ended, run, until_attached

MIB = 1 << 20
MS = SECOND // 1000


def record(file, factor, mib, runs):
    """Records `paces FACTOR MIB`; returns its expectations."""
    p = Program(WORKLOADS / "paces", str(factor), str(mib))
    t = subprocess.Popen([PERFX, "record", "-p", str(p.pid), "-d", "60", "--memory", "all", "-o", str(file),
                          "-F", "paces:{paced,steady,filled}"], stderr=subprocess.PIPE, text=True)
    try:
        until_attached(t)
        p.go(runs)
        expected = p.finish()
        assert ended(t) == 0, t.stderr.read()
    finally:
        p.kill()
        t.kill()
    return expected


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """B takes four times as long in `paced`, holds 24 MiB more, and is traced for two runs instead of one."""
    place = tmp_path_factory.mktemp("diff")
    a, b = place / "a.perfx", place / "b.perfx"
    return a, b, record(a, 1, 8, 1), record(b, 4, 32, 2)


@pytest.mark.alone
def test_known_changes(pair):
    """The ratio of the means equals that of the program's own clock; the peak is the requested one."""
    a, b, in_a, in_b = pair
    result = run("diff", a, b, "-f", "json")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    diff = json.loads(result.stdout)
    process, = diff["processes"]
    found = {f["name"]: f for f in process["functions"]}
    for name in ("paced", "steady", "filled"):
        f = found[name]
        assert f["in"] == "both"
        assert [f["calls"][side] for side in "ab"] == [x[name, "calls"] for x in (in_a, in_b)]
    for name in ("paced", "steady"):
        own = [x[name, "own_ns"] / x[name, "calls"] for x in (in_a, in_b)]
        assert found[name]["avg_ns"]["ratio"] == pytest.approx(own[1] / own[0], rel=0.05)
    assert found["paced"]["time"] == "slower" and found["paced"]["regression"]
    assert found["paced"]["avg_ns"]["ratio"] > 2
    heap, = [m for m in process["memory"] if m["domain"] == "host"]
    assert heap["exact"] and heap["peak"] == "more" and heap["regression"]
    assert heap["peak_bytes"]["b"] - heap["peak_bytes"]["a"] == 24 * MIB
    place = process["places"][0]
    assert place["place"].startswith("filled") and place["in"] == "both"
    assert place["live_at_peak_bytes"] == {"a": 8 * MIB, "b": 32 * MIB, "change": 3, "ratio": 4}


@pytest.mark.alone
def test_gate(pair):
    a, b, _, _ = pair
    result = run("diff", a, b, "--fail-on", "5%")
    assert result.returncode == 4
    assert len(result.stderr.splitlines()) == 1 and "regressions of more than 5 %" in result.stderr
    assert "regression" in result.stdout
    assert run("diff", a, a, "--fail-on", "5%").returncode == 0
    assert run("diff", a, b, "--fail-on", "5000%").returncode == 0
    better = json.loads(run("diff", b, a, "-f", "json").stdout)
    paced, = [f for f in better["processes"][0]["functions"] if f["name"] == "paced"]
    assert paced["time"] == "faster" and not paced["regression"]


@pytest.mark.parametrize("form", ["text", "md", "json"])
def test_twice_the_same(pair, form, tmp_path):
    a, b, _, _ = pair
    out = tmp_path / {"text": "d.txt", "md": "d.md", "json": "d.json"}[form]
    text = run("diff", a, b, "-f", form).stdout
    assert run("diff", a, "-o", out, b).returncode == 0
    assert out.read_text() == text


@pytest.mark.parametrize("forms", ["json json", "json perfx", "perfx json"])
def test_json_reports_say_the_same(pair, forms, tmp_path):
    """With a JSON report in place of a capture, only names of files differ."""
    a, b, _, _ = pair
    reports = [tmp_path / name for name in ("a.json", "b.json")]
    for capture, report in zip((a, b), reports):
        assert run("report", capture, "-o", report).returncode == 0
    inputs = [report if form == "json" else capture
              for form, report, capture in zip(forms.split(), reports, (a, b))]
    result = run("diff", *inputs, "--fail-on", "5%")
    expected = run("diff", a, b, "--fail-on", "5%")
    assert (result.returncode, result.stderr) == (4, expected.stderr)
    assert unnamed(result.stdout) == unnamed(expected.stdout)


def unnamed(text):
    """Without the line that names the files, however it is wrapped."""
    head, rest = re.split(r"\bA:\s", text, maxsplit=1)
    return head + rest[rest.index("\n\n"):]


# --- steps and ranges, by hand ---

def training(path, steps, waits):
    """Steps of 50 ms in a range, plus their wait for data."""
    records = [captures.host(), captures.process("trainer", "./trainer"), captures.peak(10**11, 10**10),
               captures.usage(SECOND, 0), captures.marked(1, "enumerate(DataLoader)#It.__next__"),
               captures.marked(2, "forward", 7), captures.function(3, "mm", "/lib/m.so"),
               captures.marked(4, "Optimizer.step#SGD.step"), captures.context(1, 0, 1), captures.context(2, 0, 2),
               captures.context(3, 2, 3), captures.context(4, 0, 4)]
    at = SECOND
    for i in range(steps):
        wait = waits + i % 3 * MS // 10
        records += [captures.span(at, wait, wait, 1), captures.computed(at + wait, 20 * MS, 3, 10**9, 10**7, depth=1),
                    captures.span(at + wait, 40 * MS, 20 * MS, 2),
                    captures.span(at + wait + 40 * MS, 10 * MS, 10 * MS, 4)]
        at += wait + 50 * MS
    captures.write(path, [records + [captures.usage(at, at - SECOND), captures.end(at)]])
    return path


@pytest.mark.parametrize("form", ["perfx", "json"])
def test_steps(form, tmp_path):
    """Slower by the wait; faster in the other direction; equal to itself."""
    files = [training(tmp_path / "a", 20, 10 * MS), training(tmp_path / "b", 30, 25 * MS)]
    if form == "json":
        reports = [file.with_suffix(".json") for file in files]
        for file, report in zip(files, reports):
            assert run("report", file, "-o", report).returncode == 0
        files = reports
    a, b = files
    result = run("diff", a, b, "-f", "json", "--fail-on", "5%")
    assert result.returncode == 4
    diff = json.loads(result.stdout)
    steps = diff["processes"][0]["steps"]
    assert steps["in"] == "both" and steps["time"] == "slower" and steps["regression"]
    assert steps["count"]["a"] == 20 and steps["count"]["b"] == 30
    assert steps["avg_ns"]["b"] - steps["avg_ns"]["a"] == pytest.approx(15 * MS, rel=0.01)
    assert steps["breakdown"]["data"]["ratio"] == pytest.approx(25.1 / 10.1, rel=0.01)
    assert steps["flops"] == {"a": 10**9, "b": 10**9, "change": 0, "ratio": 1}
    assert steps["mfu"]["ratio"] == pytest.approx(60.1 / 75.1, rel=0.01)
    ranges = {f["name"]: f for f in diff["processes"][0]["functions"] if f.get("kind") == "range"}
    assert ranges["enumerate(DataLoader)#It.__next__"]["time"] == "slower"
    assert ranges["forward"]["time"] == "same" and ranges["forward"]["flops_per_call"]["ratio"] == 1
    assert run("diff", a, a, "--fail-on", "5%").returncode == 0
    back = json.loads(run("diff", b, a, "-f", "json").stdout)["processes"][0]["steps"]
    assert back["time"] == "faster" and not back["regression"]
    same = run("diff", a, a)
    assert same.stdout.startswith("Steps: no significant change (")
    only = json.loads(run("diff", a, written(tmp_path / "none", "mm", 20, 20 * MS), "-f", "json").stdout)
    assert only["processes"][0]["steps"]["in"] == "a" and only["processes"][0]["steps"]["time"] == "unknown"


def test_json_that_is_no_report(tmp_path):
    """One line says what is wrong; no contents cause a crash."""
    good, bad = training(tmp_path / "a", 20, 10 * MS), tmp_path / "bad.json"
    report = tmp_path / "a.json"
    assert run("report", good, "-o", report).returncode == 0
    for text, says in (("{", "line 1"), ('{"schema": "x"}', "perfx.report/1"), ("{}", "perfx.report/1"),
                       ('{"schema": ["perfx.report/1"]}', "perfx.report/1")):
        bad.write_text(text)
        result = run("diff", good, bad)
        assert (result.returncode, result.stdout) == (1, "")
        assert len(result.stderr.splitlines()) == 1 and says in result.stderr and str(bad) in result.stderr
    whole = json.loads(report.read_text())
    for value in (None, -1, 1e300, 2**62, "x" * 100, "+0x", " (:", [], [None], {}, [{}], {"a": []}):
        bad.write_text(json.dumps(spoilt(whole, value)))
        result = run("diff", bad, report, "-f", "json")
        assert result.returncode == 0, result.stderr
        json.loads(result.stdout)


def spoilt(what, value, depth=0):
    """Every second member replaced, except those on the path."""
    if isinstance(what, dict):
        return {k: v if k == "schema" else value if (i + depth) % 2 and not isinstance(v, (dict, list))
                else spoilt(v, value, depth + 1) for i, (k, v) in enumerate(what.items())}
    if isinstance(what, list):
        return [spoilt(v, value, depth + 1) for v in what] + [value]
    return what


# --- by hand ---

def written(path, name, calls, length):
    records = [captures.host(), captures.process("trainer", "./trainer"), captures.function(1, name, "/lib/m.so"),
               captures.context(1, 0, 1)]
    for i in range(calls):
        records.append(captures.span(SECOND + i * 10 * MS, length + i % 3 * 1000, length, 1))
    captures.write(path, [records + [captures.end(2 * SECOND)]])
    return path


def test_a_gate_that_saw_nothing_is_shut(tmp_path):
    a, b = written(tmp_path / "a", "f", 50, MS), written(tmp_path / "b", "g", 50, MS)
    few = written(tmp_path / "few", "f", 4, 2 * MS)
    for other in (b, few):
        result = run("diff", a, other, "--fail-on", "5%")
        assert result.returncode == 2 and "nothing to compare" in result.stderr
        assert run("diff", a, other).returncode == 0


@pytest.mark.parametrize("name", ["a|b`<i>\x1b[31m", "=1+1", "<script>", "x" * 5000, ""])
def test_hostile_names(name, tmp_path):
    a, b = written(tmp_path / "a", name, 50, MS), written(tmp_path / "b", name, 50, 2 * MS)
    text = run("diff", a, b)
    assert text.returncode == 0 and "\x1b" not in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 80
    rows = [l for l in run("diff", a, b, "-f", "md").stdout.splitlines() if l.startswith("|")]
    assert len({l.count("|") for l in rows if "m.so" in l or "Function" in l}) == 1
    assert json.loads(run("diff", a, b, "-f", "json").stdout)["processes"][0]["functions"][0]["name"] == name


@pytest.mark.parametrize("options, says", [
    (["A"], "two capture files"),
    (["A", "A", "A"], "two capture files"),
    (["A", "A", "--fail-on", "much"], "try 5%"),
    (["A", "A", "--fail-on", "0"], "try 5%"),
    (["A", "A", "-f", "html"], "text, md, json"),
    (["A", "A", "-o", "x.csv"], "text, md, json"),
    (["A", "A", "--process", "nobody"], "nobody"),
])
def test_what_cannot_be_compared(options, says, tmp_path):
    a = written(tmp_path / "a", "f", 50, MS)
    result = run("diff", *[str(a) if o == "A" else o for o in options])
    assert result.returncode == 2 and result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and says in result.stderr


def test_no_capture(tmp_path):
    a, other = written(tmp_path / "a", "f", 50, MS), tmp_path / "other"
    other.write_text("something else entirely")
    for second in (other, tmp_path / "missing"):
        result = run("diff", a, second)
        assert result.returncode == 1 and str(second) in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert run("report", a, "--fail-on", "5%").returncode == 2
