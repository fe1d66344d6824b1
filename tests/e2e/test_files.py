# SPDX-License-Identifier: BSD-2-Clause
"""--files: calls of the C library on files and sockets, equal to what the program knows."""
import sys

import pytest

from conftest import WORKLOADS, Program, Tracer

pytestmark = pytest.mark.kernel


def rows_of(report):
    process, = report["processes"]
    return {row["name"]: row for row in process["files"]}


def test_files_and_peers(tmp_path):
    """Files of a folder are one row by suffix, a single file has its own name; a socket has its peer's."""
    program = Program(WORKLOADS / "files", tmp_path)
    program.go()
    tracer = Tracer(program.pid, "--memory", "off")
    program.go()
    assert "files" not in tracer.stop()["processes"][0]  # the default
    tracer = Tracer(program.pid, "--files", "on", "--memory", "off")
    program.go(3)
    report = tracer.stop()
    rows = rows_of(report)
    expected = program.finish()
    assert any("io_uring" in one["reason"] for one in report["not_attached"]) == expected.pop(("io_uring", "used"))
    fetched = [[expected.pop(("mapped.st", f"{key}@{run}")) for run in range(5)][2:]
               for key in ("faults", "fault_bytes")]
    found = {(name, key): rows[f"tcp 127.0.0.1:{name}" if name.isdigit() else f"{tmp_path}/{name}"][key] * 5 // 3
             for name, key in expected}
    assert found == expected
    bins, log = rows[f"{tmp_path}/*.bin"], rows[f"{tmp_path}/out.log"]
    assert bins["stored_bytes"] == 0 and bins["errors"] == 0  # just written
    assert bins["file_system"] == log["file_system"] != ""
    mapped = rows[f"{tmp_path}/mapped.st"]
    assert [mapped["faults"], mapped["fault_bytes"]] == [sum(runs) for runs in fetched]
    assert 0 < bins["read_ns"] + bins["open_ns"] == bins["total_ns"]
    assert [(t["tid"], t["reads"], t["read_bytes"]) for t in bins["threads"]] == [
        (program.pid, bins["reads"], bins["read_bytes"])]
    assert {line["function"] for line in bins["lines"]} <= {"use_files", "open_in"}
    assert bins["lines"] and all(line["sampled_ns"] > 0 for line in bins["lines"])
    server, = (row for name, row in rows.items() if name.startswith("tcp ") and (name[14:], "reads") not in expected)
    # its first wait for a request began before the recording
    thread, = server["threads"]
    assert thread["tid"] != program.pid and thread["read_bytes"] == server["read_bytes"]
    assert server["read_bytes"] == (3 * 5 - 1) * 100 and server["write_bytes"] == 3 * 5 * 5000


READS_AND_EXECUTES_ITSELF = """
import os, sys, time
path, *rest = sys.argv[1:]
if rest:
    print("ready", os.getpid(), flush=True)
os.read(0, 3)
end = time.monotonic() + 0.03
while time.monotonic() < end:
    open(path).close()
print("done", flush=True)
if rest:
    os.execv(sys.executable, [sys.executable, __file__, *rest])
"""


def test_files_of_a_program_that_executes_another(tmp_path):
    """A thread keeps its id over exec; its calls count for the new program, with the line that calls."""
    script, *read = (tmp_path / name for name in ("reads.py", "read.before", "read.after"))
    script.write_text(READS_AND_EXECUTES_ITSELF)
    for path in read:
        path.write_bytes(bytes(100))
    program = Program(sys.executable, script, *read)
    tracer = Tracer(program.pid, "--files", "on", "--memory", "off")
    program.go(2)
    program.finish()
    rows = [[row for row in process.get("files", []) if row["name"] in map(str, read)]
            for process in tracer.stop()["processes"]]
    assert [[row["name"] for row in of_process] for of_process in rows] == [[str(path)] for path in read]
    line = 1 + READS_AND_EXECUTES_ITSELF.splitlines().index("    open(path).close()")
    (before,), _ = rows
    assert [(of["file"], of["line"]) for of in before["lines"]] == [(str(script), line)]
