# SPDX-License-Identifier: BSD-2-Clause
"""NVTX 3, inlined: recorded if `run` can give the program a library to call; otherwise the report says
why not."""
import json
import os
import subprocess

from conftest import PERFX, WORKLOADS, check_expectations, expectations, functions

OPTIONS = ["--no-calibrate", "--memory", "off", "-F", "nvtx3:work"]


def traced(tmp_path, *options, **environment):
    file = tmp_path / "report.json"
    run = subprocess.run([PERFX, "run", *OPTIONS, *options, "-o", str(file), "--",
                          str(WORKLOADS / "nvtx3")], capture_output=True, text=True, timeout=60,
                         env={**os.environ, **environment})
    assert run.returncode == 0, run.stderr
    return expectations(run.stdout), json.loads(file.read_text()), run.stderr


def inlined(report):
    return [n["name"] for n in report["not_attached"] if "NVTX 3" in n["reason"]]


def test_run_sees_them(tmp_path):
    expected, report, _ = traced(tmp_path)
    check_expectations(report, expected)
    assert {n: f["calls"] for p in report["processes"] for f in p["functions"]
            for n in [f["name"]]} == {name: count for (name, _), count in expected.items()}
    assert {f["source"] for p in report["processes"] for f in p["functions"]} == {"nvtx", "symbol"}
    assert not inlined(report)


def test_domains_are_apart(tmp_path):
    """Work that continues in the second domain after the first's range has ended belongs to the
    second."""
    _, report, _ = traced(tmp_path)
    (work,) = functions(report, "work")
    parents = {p["name"]: p["calls"] for p in work["parents"]}
    assert parents == {"breit: Ä→𝄞": 400, "registered": 400, "of the second": 400}
    for name in ("of the first", "of the second"):
        (row,) = functions(report, name)
        assert row["timed"] >= 400 and row["unwound"] == 0


def test_a_library_of_the_users_stays(tmp_path):
    expected, report, said = traced(tmp_path, NVTX_INJECTION64_PATH="/nonexistent/tool.so")
    assert [line for line in said.splitlines() if "NVTX_INJECTION64_PATH" in line
            and "/nonexistent/tool.so" in line and line.startswith("perfx-trace: ")]
    assert inlined(report) == ["nvtx3"]
    assert functions(report, "work")[0]["calls"] == expected["work", "calls"]
    assert not functions(report, "outer")


def test_nothing_is_given_where_marks_are_off(tmp_path):
    _, report, _ = traced(tmp_path, "--host-level", "0")
    assert not functions(report, "outer")


def test_attached_it_says_so(program, tracer):
    process = program(WORKLOADS / "nvtx3", "wait")
    trace = tracer(process.pid, *OPTIONS)
    process.go()
    process.finish()
    report = trace.stop()
    assert inlined(report) == ["nvtx3"]
    assert not functions(report, "outer")
