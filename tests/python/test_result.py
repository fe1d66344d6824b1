# SPDX-License-Identifier: BSD-2-Clause
"""perfx.profile with scripts as tracers, and the renderers."""
import csv
import io
import json
import os
import re
import textwrap
import types

import perfx
import pytest
from perfx import _profile

NAME = "a|b <x> `c` \x1b[31m\n_d_"


def report(pid, rows):
    return {
        "schema": "perfx.report/1", "verdict": "It ran.",
        "tool": {"name": "perfx-trace", "version": "0.1.0"},
        "capture": {"duration_ns": 2_500_000, "start_unix_ns": 7, "partial": True},
        "losses": {"ring_drops": 3, "map_full": 0}, "overhead": {"estimated_percent": 0.5},
        "processes": [{"pid": pid + 1, "functions": [{"name": "child", "calls": 9}]},
                      {"pid": pid, "functions": rows}]}


ROWS = [
    {"name": NAME, "module": "m", "calls": 2, "total_ns": 1_000_000, "self_ns": 1_000_000,
     "avg_ns": 500_000, "min_ns": 400_000, "max_ns": 600_000, "p50_ns": 500_000},
    {"name": "=step", "module": "[perfx]", "calls": 1234, "total_ns": 2_000_000, "avg_ns": 1620},
    {"name": "only counted", "calls": 1, "total_ns": 0},
]


@pytest.fixture
def result():
    return perfx.ProfileResult(report(5, ROWS), 5)


def test_stats(result):
    assert [(s.name, s.total_duration_ms, s.call_count, s.avg_duration_ms) for s in result.stats] == [
        ("=step", 2.0, 1234, 0.00162), (NAME, 1.0, 2, 0.5), ("only counted", 0.0, 1, None)]
    assert result["only counted"].self_duration_ms is None and len(result) == 3
    assert "=step" in result and "child" not in result
    with pytest.raises(KeyError):
        result["child"]
    assert result.metadata["losses"] == {"ring_drops": 3}
    assert repr(result) == "<ProfileResult of 3 functions in 2.5 ms>"


def test_plain(result):
    assert str(result) == result.render(perfx.Plain()) == textwrap.dedent("""\
        Function                   Calls  Total ms  Self ms  Avg ms
        -----------------------------------------------------------
        =step                      1,234     2.000        -   0.002
        a|b <x> `c` \\x1b[31m\\n_d_      2     1.000    1.000   0.500
        only counted                   1     0.000        -       -
        3 functions in 2.5 ms; incomplete: ring_drops 3""")


def test_json(result):
    assert json.loads(result.render(perfx.Json())) == result.to_dict()
    bare = result.render(perfx.Json(indent=None, include_metadata=False))
    assert "\n" not in bare and list(json.loads(bare)) == ["functions"]
    assert json.loads(bare)["functions"][1]["name"] == NAME


def test_csv(result):
    rows = list(csv.reader(io.StringIO(result.render(perfx.Csv(delimiter=";"))), delimiter=";"))
    assert rows[0][:4] == ["name", "total_duration_ms", "call_count", "avg_duration_ms"]
    assert rows[1][:4] == ["'=step", "2.0", "1234", "0.00162"]
    assert rows[2][0] == "a|b <x> `c` \\x1b[31m\\n_d_" and rows[3][3] == ""
    bare = result.render(perfx.Csv(include_header=False))
    assert len(bare.splitlines()) == 3 and bare.startswith("'=step,2.0,")


def test_markdown(result):
    lines = result.render(perfx.Markdown()).splitlines()
    assert lines[0] == "| Function | Calls | Total ms | Self ms | Avg ms |"
    assert lines[3] == ("| a\\|b \\<x\\> \\`c\\` \\\\x1b\\[31m\\\\n\\_d\\_ "
                        "| 2 | 1.000 | 1.000 | 0.500 |")
    assert result._repr_markdown_() == result.render(perfx.Markdown())


def test_file(result, tmp_path):
    prefix = tmp_path / "run"
    assert result.render(perfx.File(prefix)).splitlines() == [
        f"{prefix}.txt", f"{prefix}.json", f"{prefix}.csv", f"{prefix}.md"]
    assert (tmp_path / "run.txt").read_text() == str(result) + "\n"
    assert json.loads((tmp_path / "run.json").read_text()) == result.to_dict()
    assert result.render(perfx.File(str(prefix) + "2", perfx.Csv())) == f"{prefix}2.csv"


def test_own_renderer(result, tmp_path):
    class Names(perfx.Renderer):
        suffix = ".names"

        def render(self, result):
            return ",".join(row.name for row in result.stats[2:])

    assert result.render(Names()) == "only counted"
    assert result.render(perfx.File(tmp_path / "x", Names())).endswith("x.names")
    with pytest.raises(TypeError):
        perfx.Renderer()


def test_rich(result):
    pytest.importorskip("rich")
    text = result.render(perfx.Rich())
    assert "=step" in text and "1,234" in text and "\x1b[31m\n" not in text


def test_rich_is_missing(result, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rich.console", None)
    with pytest.raises(ImportError, match="pip install rich"):
        result.render(perfx.Rich())


def test_dataframe(result):
    pytest.importorskip("pandas")
    frame = result.to_dataframe()
    assert list(frame["name"]) == ["=step", NAME, "only counted"]
    assert frame["call_count"].sum() == 1237
    assert list(perfx.ProfileResult(report(5, []), 5).to_dataframe()) == list(frame)


@pytest.fixture
def tracer(tmp_path, monkeypatch):
    """Makes perfx-trace a script; returns the file of its arguments."""
    def make(script):
        path = tmp_path / "perfx-trace"
        path.write_text(f"#!/bin/bash\nprintf '%s\\n' \"$@\" > {tmp_path}/arguments\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PERFX_TRACE", str(path))
        return tmp_path / "arguments"

    return make


# In Python: bash cannot trap a signal that was ignored when it began, as in a background job.
TRACES_UNTIL_SIGINT = """exec /usr/bin/python3 -c "
import signal, sys
signal.signal(signal.SIGINT, lambda *_: {})
print('perfx-trace: tracing it: 3 probes', file=sys.stderr, flush=True)
while True:
    signal.pause()
"
"""
TRACES = TRACES_UNTIL_SIGINT.format("sys.exit(print(open('{}').read()) or 0)")


def test_profile(tracer, tmp_path, heard):
    saved = tmp_path / "report"
    saved.write_text(json.dumps(report(os.getpid(), ROWS)))
    arguments = tracer(TRACES.format(saved))

    def work(x, *, fn=None):
        return x, fn

    value, stats = perfx.profile(work, 1, fn=2)
    assert value == (1, 2) and stats["=step"].call_count == 1234
    assert heard.paths == ["work"]
    assert arguments.read_text().splitlines()[:2] == ["-p", str(os.getpid())]
    perfx.Profiler("-F", "lib:x").profile(perfx.track(work, name="mine"), 3)
    assert heard.paths == ["work", "mine"]  # once, not inside another
    assert arguments.read_text().splitlines()[-2:] == ["-F", "lib:x"]


class Notebook:
    """Stands for IPython in a kernel: keeps each state of its lines."""

    kernel = True

    def __init__(self):
        self.lines = []

    def display(self, data, raw, display_id):
        assert raw and display_id
        self.update(data, raw)
        return self

    def update(self, data, raw):
        assert raw
        self.lines.append(data["text/plain"])


HTML = """if [ "$1" = report ]; then echo "<p title='$2'>$*"; cp "$2" TMP/seen; exit; fi
while [ $# -gt 0 ]; do [ "$1" != --capture ] || echo capture > "$2"; shift; done
"""


@pytest.mark.parametrize("where", ["notebook", "option", "nowhere"])
def test_html(tracer, tmp_path, monkeypatch, where):
    """In a notebook, without an option, a capture is kept for as long as the result."""
    notebook = Notebook()
    if where == "notebook":
        monkeypatch.setitem(__import__("sys").modules, "IPython",
                            types.SimpleNamespace(get_ipython=lambda: notebook, display=notebook))
    (tmp_path / "report").write_text(json.dumps(report(os.getpid(), ROWS)))
    arguments = tracer(HTML.replace("TMP", str(tmp_path)) + TRACES.format(tmp_path / "report"))
    options = ["--capture", str(tmp_path / "mine")] if where == "option" else []
    _, stats = perfx.Profiler(*options).profile(lambda: 1)
    if where == "nowhere":
        assert stats.html() is None and stats._repr_html_() is None
        assert "--capture" not in arguments.read_text()
        return
    shown = stats._repr_html_()
    assert (tmp_path / "seen").read_text() == "capture\n"
    path = arguments.read_text().splitlines()[1]
    assert shown.startswith("<iframe srcdoc=\"&lt;p title=&#x27;" + path) and 'sandbox="allow-scripts"' in shown
    assert (path == str(tmp_path / "mine")) == (where == "option")
    del stats
    assert os.path.exists(path) == (where == "option")
    if where == "notebook":
        assert notebook.lines[0] == "perfx: attaching 0 s"
        assert re.fullmatch(r"perfx: attaching \d+ s, recording \d+ s, making the report \d+ s", notebook.lines[-1])


def test_profile_of_what_fails(tracer, tmp_path):
    tracer(TRACES.format(tmp_path / "nothing"))
    with pytest.raises(ZeroDivisionError):
        perfx.profile(lambda: 1 / 0)


def never():
    pytest.fail("it must not be called")


def test_no_privilege(tracer):
    tracer("echo 'perfx-trace: BPF programs may not be loaded' >&2; exit 77")
    with pytest.raises(perfx.ProfilingError) as error:
        perfx.profile(never)
    text = str(error.value)
    assert "sudo" in text and "setcap" in text and "may not be loaded" in text


def test_no_tracer(monkeypatch, tmp_path):
    monkeypatch.setenv("PERFX_TRACE", str(tmp_path / "nowhere"))
    with pytest.raises(perfx.ProfilingError, match="PERFX_TRACE"):
        perfx.profile(never)
    monkeypatch.delenv("PERFX_TRACE")
    monkeypatch.setattr(_profile.shutil, "which", lambda *_, **__: None)
    with pytest.raises(perfx.ProfilingError, match="make install"):
        perfx.profile(never)


def test_tracer_that_fails(tracer):
    tracer("echo 'perfx-trace: no such file' >&2; exit 1")
    with pytest.raises(perfx.ProfilingError, match="ended with 1\n.*no such file"):
        perfx.profile(never)


def test_tracer_that_hangs(tracer):
    tracer("exec sleep 60")
    with pytest.raises(perfx.ProfilingError, match="did not attach within 0.2 s"):
        perfx.Profiler(timeout=0.2).profile(never)


def test_tracer_that_dies_meanwhile(tracer):
    tracer(TRACES_UNTIL_SIGINT.format("sys.exit('broken')"))
    with pytest.raises(perfx.ProfilingError, match="ended with 1") as error:
        perfx.profile(lambda: 42)
    assert error.value.result == 42


def test_coroutine_functions_are_refused():
    async def main():
        pass

    with pytest.raises(TypeError, match="asyncio.run"):
        perfx.profile(main)
