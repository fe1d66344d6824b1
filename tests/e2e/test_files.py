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
    rows = rows_of(tracer.stop())
    expected = program.finish()
    found = {(name, key): rows[f"tcp 127.0.0.1:{name}" if name.isdigit() else f"{tmp_path}/{name}"][key] * 5 // 3
             for name, key in expected}
    assert found == expected
    bins, log = rows[f"{tmp_path}/*.bin"], rows[f"{tmp_path}/out.log"]
    assert bins["stored_bytes"] == 0 and bins["errors"] == 0  # just written
    assert bins["file_system"] == log["file_system"] != ""
    assert 0 < bins["read_ns"] + bins["open_ns"] == bins["total_ns"]
    server, = (row for name, row in rows.items() if name.startswith("tcp ") and (name[14:], "reads") not in expected)
    # its first wait for a request began before the recording
    assert server["read_bytes"] == (3 * 5 - 1) * 100 and server["write_bytes"] == 3 * 5 * 5000


READS_AND_EXECUTES_ITSELF = """
import os, sys
path, *rest = sys.argv[1:]
if rest:
    print("ready", os.getpid(), flush=True)
os.read(0, 3)
os.read(os.open(path, os.O_RDONLY), 100)
print("done", flush=True)
if rest:
    os.execv(sys.executable, [sys.executable, __file__, *rest])
"""


def test_files_of_a_program_that_executes_another(tmp_path):
    """A thread keeps its id over exec; its calls count for the new program."""
    script, *read = (tmp_path / name for name in ("reads.py", "read.before", "read.after"))
    script.write_text(READS_AND_EXECUTES_ITSELF)
    for path in read:
        path.write_bytes(bytes(100))
    program = Program(sys.executable, script, *read)
    tracer = Tracer(program.pid, "--files", "on", "--memory", "off")
    program.go(2)
    program.finish()
    found = [[row["name"] for row in process.get("files", []) if row["name"] in map(str, read)]
             for process in tracer.stop()["processes"]]
    assert found == [[str(path)] for path in read]
