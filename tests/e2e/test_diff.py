# SPDX-License-Identifier: BSD-2-Clause
"""What changed from one recording to another: a program with known changes, and what a script relies on."""
import json
import subprocess

import captures
import pytest
from captures import SECOND
from conftest import PERFX, WORKLOADS, Program, ended, run

MIB = 1 << 20
MS = SECOND // 1000


def record(file, factor, mib, runs):
    """paces FACTOR MIB, recorded; what it expects."""
    p = Program(WORKLOADS / "paces", str(factor), str(mib))
    t = subprocess.Popen([PERFX, "record", "-p", str(p.pid), "-d", "60", "--memory", "all", "-o", str(file),
                          "-F", "paces:{paced,steady,filled}"], stderr=subprocess.PIPE, text=True)
    try:
        for line in t.stderr:
            if ": tracing " in line:
                break
        else:
            pytest.fail("not attached")
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


def test_known_changes(pair):
    """The ratio of the means is that of the program's own clock; the peak is what it asked for."""
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


def test_gate(pair):
    a, b, _, _ = pair
    result = run("diff", a, b, "--fail-on", "5%")
    assert result.returncode == 4
    assert len(result.stderr.splitlines()) == 1 and "worse by more than 5 %" in result.stderr
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
        assert result.returncode == 2 and "nothing to judge" in result.stderr
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
