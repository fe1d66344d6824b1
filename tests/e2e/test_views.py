# SPDX-License-Identifier: BSD-2-Clause
"""Record once, report many times; and reports on different outputs."""
import csv
import io
import itertools
import json
import os
import random
import re
import subprocess

import pytest
from conftest import (PERFX, TOP, WORKLOADS, Program, check_expectations, consistent, ended, on_terminal, run,
                      run_unprivileged, total, until_attached)

FUNCTIONS = ["-F", "exceptions:{*catcher,*rethrower,*switched,*tail,*guarded,*frame,*method}"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A capture of a program with a known answer, and that answer."""
    file = tmp_path_factory.mktemp("capture") / "run.perfx"
    os.chmod(file.parent, 0o755)
    p = Program(WORKLOADS / "exceptions")
    t = subprocess.Popen([PERFX, "record", "-p", str(p.pid), "-d", "60", "--interval", "50ms", "-o",
                          str(file), *FUNCTIONS], stderr=subprocess.PIPE, text=True)
    try:
        until_attached(t)
        p.go()
        expected = p.finish()
        assert ended(t) == 0, t.stderr.read()
    finally:
        p.kill()
        t.kill()
    return file, expected


def report_of(capture, form, *options):
    result = run("report", capture, "-f", form, *options)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def test_what_was_recorded_is_the_truth(recorded):
    capture, expected = recorded
    report = json.loads(report_of(capture, "json"))
    consistent(report)
    check_expectations(report, expected)
    assert "record" in report["tool"]["command"]
    assert not report["capture"]["partial"]
    assert report["overhead"]["ns_per_hit"] > 0


@pytest.mark.parametrize("form", ["json", "md", "text", "html", "csv", "tsv", "line"])
def test_twice_the_same(form, recorded):
    """Replay reads no clock, no /proc and no symbols, so reports are equal to the byte."""
    capture, _ = recorded
    assert report_of(capture, form) == report_of(capture, form)


def test_all_formats_say_the_same(recorded):
    """Calls of every function, in JSON, are also in Markdown and text."""
    capture, expected = recorded
    calls = {f"{value:,}" for (_, key), value in expected.items() if key == "calls"}
    for form in ("md", "text"):
        text = report_of(capture, form, "--top", "100")
        assert not [number for number in calls if number not in text], form


def test_live_counts_are_the_replayed_ones(program, tracer, recorded):
    """The same program, traced live once more: equal counts. That one recording gives the same report
    both ways, to the byte, is tested in test_capture.py."""
    capture, _ = recorded
    p = program(WORKLOADS / "exceptions")
    t = tracer(p.pid, *FUNCTIONS)
    p.go()
    p.finish()
    live, replayed = t.stop(), json.loads(report_of(capture, "json"))

    def counts(report):
        return {(f["name"], f["offset"], f["module"]):
                (f["calls"], f["timed"], f["unwound"],
                 sorted((q["name"], q["calls"]) for q in f["parents"]))
                for f in report["processes"][0]["functions"]}

    assert counts(live) == counts(replayed)


def test_probes_that_were_never_hit_are_counted(recorded):
    capture, _ = recorded
    brief, full = (json.loads(report_of(capture, "json", *options))["overhead"] for options in ((), ("--full",)))
    assert full["probes_left_out"] == 0
    assert brief["probes"] == [p for p in full["probes"] if p["hits"]]
    assert brief["probes_left_out"] == len(full["probes"]) - len(brief["probes"]) > 0


def shapes(text):
    """The start of each line up to its first number: headings, table headers, beginnings of sentences."""
    words = (line.split() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines())
    return {" ".join(itertools.takewhile(lambda word: not re.search(r"[0-9]", word), line)) for line in words if line}


def test_the_readme_shows_reports_of_this_build():
    """The README's report has the headings and tables of reports in tests/golden, which this build writes."""
    readme = (TOP / "README.md").read_text()
    shown = re.search(r"^## A report\n(.*?)^## ", readme, re.M | re.S).group(1)
    blocks = [block for block in re.findall(r"(?:^    .*\n|^\n)+", shown, re.M) if block.strip()]
    report = shapes(blocks[0])
    golden = set().union(*(shapes(path.read_text()) for path in (TOP / "tests/golden").glob("*.txt")))
    tables = {line for line in report if re.match("(Self %|CPU|At peak) ", line)}
    assert len(tables) == 4  # functions, lines, native functions, memory
    for line in tables:  # narrow tables have fewer columns
        assert any(set(line.split()) <= set(known.split()) for known in golden), line
    for line in ("Findings", "Where in the code", "How it was measured", "wall", "Per step: data", "Cost:",
                 "saves up to"):
        assert line in report and any(known.startswith(line) for known in golden), line
    assert "at::_ops::" not in shown and "→" not in shown and "advice: " in shown


def test_needs_no_root(recorded):
    capture, expected = recorded
    mode = capture.stat().st_mode
    for folder in capture.parents:  # pytest's own folders are closed to other users
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    os.chmod(capture, 0o644)
    result = run_unprivileged("report", capture, "-f", "json")
    os.chmod(capture, mode)
    assert result.returncode == 0, result.stderr
    assert total(json.loads(result.stdout), "catcher", "calls") == expected["catcher", "calls"]


def test_no_file_for_others_to_write(recorded):
    assert recorded[0].stat().st_mode & 0o022 == 0


def table_of(capture, table, *options):
    return list(csv.DictReader(io.StringIO(report_of(capture, "csv", "--table", table, *options))))


def test_csv_is_the_json_report(recorded):
    """Equal row by row and column by column; an empty field is missing from JSON."""
    capture, _ = recorded
    report = json.loads(report_of(capture, "json"))
    key = lambda f: (f["name"], f["module"], int(f["offset"]))
    functions = {key(f): f for p in report["processes"] for f in p["functions"]}
    rows = table_of(capture, "functions")
    assert len(rows) == len(functions) > 3
    for row in rows:
        function = functions[key(row)]
        for column in set(row) - {"pid", "comm", "self_percent"}:
            assert row[column] == str(function.get(column, "")), (row["name"], column)
    assert [int(r["pid"]) for r in table_of(capture, "processes")] == [
        p["pid"] for p in report["processes"]]
    assert len(table_of(capture, "findings")) == sum(len(p["findings"]) for p in report["processes"])
    assert len(table_of(capture, "callers")) == sum(len(f["parents"]) for f in functions.values())


def test_order_and_selection(recorded):
    capture, _ = recorded
    calls = [int(r["calls"]) for r in table_of(capture, "functions", "--sort", "calls")]
    assert calls == sorted(calls, reverse=True) and len(set(calls)) > 2
    assert len(table_of(capture, "functions", "--top", "2")) == 2
    names = [f["name"] for f in json.loads(report_of(capture, "json", "--sort", "name"))
             ["processes"][0]["functions"]]
    assert names == sorted(names)
    assert table_of(capture, "functions", "--process", "exceptions") == table_of(capture, "functions")
    header, *rest = report_of(capture, "tsv").splitlines()
    assert header.startswith("pid\tcomm\t") and report_of(capture, "tsv", "--no-header").splitlines() == rest
    assert report_of(capture, "line").startswith("[PERF] ")


@pytest.mark.parametrize("options, says", [
    (["-f", "csv", "--table", "nothing"], "functions, callers"),
    (["-f", "csv", "--sort", "nothing"], "total_ns"),
    (["-f", "csv", "--table", "threads", "--sort", "calls"], "on_cpu_ns"),
    (["-f", "md", "--table", "threads"], "-f csv"),
    (["--no-header"], "-f csv"),
    (["--process", "nobody"], "nobody"),
    (["-f", "xml"], "csv"),
])
def test_what_cannot_be_selected(options, says, recorded):
    result = run("report", recorded[0], *options)
    assert result.returncode == 2 and result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and says in result.stderr


# --- templates ---

def test_template(recorded, tmp_path):
    """Values are those of the JSON report, also in a live report."""
    capture, _ = recorded
    report = json.loads(report_of(capture, "json"))
    form = tmp_path / "form"
    form.write_text("{{verdict}}\n{{#processes}}\n{{comm}}:{{#functions:3}} {{name}}={{calls}}{{^@last}},{{/@last}}"
                    "{{/functions}}\n{{/processes}}\n{{capture.duration_ns:ns}}{{^capture.partial}} whole{{/capture.partial}}\n")
    result = run("report", capture, "--template", form)
    assert (result.returncode, result.stderr) == (0, "")
    verdict, functions, end = result.stdout.splitlines()
    assert verdict == report["verdict"] and end.endswith("s whole")
    process, = report["processes"]
    assert functions == "exceptions: " + ", ".join(f"{f['name']}={f['calls']}" for f in process["functions"][:3])
    out = tmp_path / "out"
    assert run("report", capture, "--template", form, "-o", out).returncode == 0
    assert out.read_text() == result.stdout


def test_template_mistakes(recorded, tmp_path):
    capture, _ = recorded
    form = tmp_path / "form"
    for text, options, says in (("\n{{#a}}", [], f"{form}:2: a"), ("{{a:zz}}", [], "percent"), ("x", ["-f", "md"], "-f"),
                                ("x", ["--table", "threads"], "-f csv"), (None, [], "No such file")):
        form.unlink(missing_ok=True)
        if text is not None:
            form.write_text(text)
        result = run("report", capture, "--template", form, *options)
        assert (result.returncode, result.stdout) == (2, "")
        assert len(result.stderr.splitlines()) == 1 and says in result.stderr
    # before anything is traced
    form.write_text("{{#a}}")
    result = run("-p", os.getpid(), "-d", "1", "--template", form)
    assert result.returncode == 2 and "has no end" in result.stderr and len(result.stderr.splitlines()) == 1


# --- damage ---

def test_truncated_anywhere(recorded, tmp_path):
    """Cut at fifty places: always a report that says what is missing; never a crash."""
    whole = recorded[0].read_bytes()
    everything = json.loads(report_of(recorded[0], "json"))
    calls = total(everything, "frame", "calls")
    chance = random.Random(4)
    places = sorted(chance.sample(range(17, len(whole)), 46)) + [
        17, 40, len(whole) // 2, len(whole) - 1]
    inside = 0
    for at in places:
        cut = tmp_path / "cut.perfx"
        cut.write_bytes(whole[:at])
        result = run("report", cut, "-f", "json")
        assert result.returncode == 0, (at, result.stderr)
        report = json.loads(result.stdout)
        assert report["capture"]["partial"], at
        assert "truncated" in report["capture"]["partial_reasons"], at
        assert total(report, "frame", "calls") <= calls
        inside += report["losses"]["truncated_bytes"] > 0
    # a cut between two records loses no bytes, but is rare
    assert inside >= len(places) * 8 // 10


def test_no_header(recorded, tmp_path):
    """A file that is shorter than the header is an error, in one line."""
    whole = recorded[0].read_bytes()
    for length in (0, 1, 8, 15):
        file = tmp_path / f"{length}.perfx"
        file.write_bytes(whole[:length])
        result = run("report", file)
        assert result.returncode == 1
        assert len(result.stderr.splitlines()) == 1 and str(file) in result.stderr


def test_garbled_anywhere(recorded, tmp_path):
    """Damaged bytes: it ends by itself, with a report or an error; JSON stays valid."""
    whole = recorded[0].read_bytes()
    chance = random.Random(5)
    for _ in range(30):
        data = bytearray(whole)
        for _ in range(20):
            data[chance.randrange(16, len(data))] = chance.randrange(256)
        file = tmp_path / "garbled.perfx"
        file.write_bytes(data)
        result = run("report", file, "-f", "json")
        assert result.returncode in (0, 1), result.stderr
        if result.returncode == 0:
            json.loads(result.stdout)


# --- outputs ---

@pytest.mark.parametrize("suffix, beginning", [
    ("json", "{"), ("md", "### "), ("txt", "")])  # the verdict may differ on a busy machine
def test_suffix_decides(suffix, beginning, recorded, tmp_path):
    file = tmp_path / f"report.{suffix}"
    file.write_text("what was there before, and longer than a report " * 3000)
    result = run("report", recorded[0], "-o", file)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    text = file.read_text()
    assert text.startswith(beginning)
    assert "what was there before" not in text
    form = {"txt": "text"}.get(suffix, suffix)
    assert text == report_of(recorded[0], form)


def test_format_wins_over_suffix(recorded, tmp_path):
    file = tmp_path / "report.txt"
    assert run("report", recorded[0], "-f", "json", "-o", file).returncode == 0
    json.loads(file.read_text())


def test_dash_is_stdout(recorded):
    result = run("report", recorded[0], "-f", "json", "-o", "-")
    assert result.returncode == 0
    json.loads(result.stdout)


def test_a_file_that_stdout_appends_to_is_kept(recorded, tmp_path):
    """`>> log`: earlier output of a shell script is kept."""
    log = tmp_path / "log"
    command = f'(echo before; "{PERFX}" report "{recorded[0]}"; echo after) > "{log}"'
    assert subprocess.run(["sh", "-c", command]).returncode == 0
    text = log.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "\0" not in text
    assert "How it was measured" in text


def test_stdout_closed_early(recorded):
    """| head: no error, no message, no signal."""
    for form in ("text", "json"):
        result = subprocess.run(["bash", "-c", f'"{PERFX}" report "{recorded[0]}" -f {form} | head -1;'
                                 ' echo "${PIPESTATUS[0]}"'], capture_output=True, text=True)
        assert result.stdout.splitlines()[-1] == "0"
        assert result.stderr == ""
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run([PERFX, "report", str(recorded[0])], stdout=writer,
                            stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert result.returncode == 0 and result.stderr == ""


def test_stdout_full(recorded):
    with open("/dev/full", "w", encoding="utf8") as full:
        result = subprocess.run([PERFX, "report", str(recorded[0])], stdout=full,
                                stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert "no space" in result.stderr and len(result.stderr.splitlines()) == 1


# --- width, colors ---

ESCAPE = re.compile("\x1b\\[[0-9;]*m")


def width(text):
    return max(len(line) for line in ESCAPE.sub("", text).splitlines())


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A capture with very long names: templates like at::_ops in the workload."""
    file = tmp_path_factory.mktemp("wide") / "run.perfx"
    p = Program(WORKLOADS / "exceptions")
    t = subprocess.Popen([PERFX, "record", "-p", str(p.pid), "-d", "60", "--no-calibrate", "-o",
                          str(file), *FUNCTIONS, "-F", "libstdc++*:std::*basic_string*append*",
                          "-F", "libc.so*:{malloc,free}"], stderr=subprocess.PIPE, text=True)
    try:
        until_attached(t)
        p.go()
        p.finish()
        assert ended(t) == 0
    finally:
        p.kill()
        t.kill()
    return file


def test_eighty_columns_when_nobody_knows(wide):
    for options in ([], ["--top", "200"]):
        text = report_of(wide, "text", *options)
        assert width(text) <= 80, max(text.splitlines(), key=len)
        assert "\x1b" not in text


def test_as_wide_as_the_terminal(wide):
    narrow = on_terminal(80, "report", wide)
    broad = on_terminal(140, "report", wide)
    assert width(narrow) <= 80
    assert 80 < width(broad) <= 140
    assert ESCAPE.sub("", narrow) == report_of(wide, "text")


def test_colour_on_a_terminal_only(wide, tmp_path):
    assert "\x1b[" in on_terminal(80, "report", wide)
    assert "\x1b" not in on_terminal(80, "report", wide, NO_COLOR="1")
    # output to a file does not depend on the terminal
    assert on_terminal(140, "report", wide, "-o", tmp_path / "report.txt") == ""
    assert (tmp_path / "report.txt").read_text() == report_of(wide, "text")


def test_no_control_character_of_the_target_reaches_the_terminal(tmp_path):
    """A hostile file name is shown, not interpreted."""
    evil = tmp_path / "evil\x1b[2J\nname"
    evil.write_bytes((WORKLOADS / "calls").read_bytes())
    evil.chmod(0o755)
    p = Program(evil)
    try:
        for form in ("text", "md", "json"):
            result = run("-p", p.pid, "-d", "100ms", "--no-calibrate", "-f", form, "-F", "evil*:outer")
            assert result.returncode == 0
            for text in (result.stdout, result.stderr):
                assert "\x1b" not in text
            if form == "json":
                assert "evil\x1b[2J\nname" in json.loads(result.stdout)["processes"][0]["cmdline"][0]
    finally:
        p.kill()
