# SPDX-License-Identifier: BSD-2-Clause
"""CPython 3.14, which Debian 12 does not have: its frames, and the GPU agent that it loads by itself
(PEP 768)."""
import json
import shutil
import subprocess

import pytest
from systems import BUILD, TOP, fresh

PERFX = BUILD / "perfx-trace"
PYTHON = "/usr/bin/python3.14"


@pytest.fixture(scope="module")
def sid():
    with fresh("sid") as system:
        system.run("apt-get", "-o", "Acquire::Check-Valid-Until=false", "update")
        system.run("apt-get", "install", "-y", "--no-install-recommends", "python3.14")
        shutil.copytree(BUILD / "workloads/gpu", system.path("/gpu"))
        shutil.copy(TOP / "tests/workloads/cuda_loop.py", system.root)
        yield system


def traced(system, script, *options):
    """The program's output, the report of two seconds, and the tracer's output."""
    program = system.start(PYTHON, script[0], *script[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline().startswith("ready ")
        tracer = subprocess.run([PERFX, "-p", str(program.pid), "-d", "2s", "-f", "json", "--no-calibrate", *options],
                                capture_output=True, text=True, timeout=60, check=True)
    finally:
        said = program.communicate("", timeout=30)[0]
    assert program.returncode == 0
    return said, json.loads(tracer.stdout)["processes"][0], tracer.stderr


@pytest.mark.parametrize("mode,loaded", [("garbage", True), ("quiet", False)])
def test_the_agent_is_loaded_by_python(sid, mode, loaded, monkeypatch):
    """Python loads it when it collects garbage; otherwise one thread is held. Nothing stays in its
    /tmp."""
    monkeypatch.setenv("PERFX_DEBUG", "1")
    said, process, stderr = traced(sid, ("/cuda_loop.py", mode), "--gpu", "1")
    assert ("was loaded by its own Python" in stderr) == loaded
    assert ("the GPU agent was put in" in stderr) != loaded
    assert "agent records\n" in said
    assert process["gpu"]["agent"]["state"] == "stopped"
    assert list(sid.path("/tmp").glob("perfx*")) == []


def test_its_lines_are_sampled(sid):
    _, process, _ = traced(sid, ("/cuda_loop.py", "garbage"))
    assert process["samples"]["on_cpu"] > 0
    assert {"cuda_loop.py"} == {line["file"].rsplit("/", 1)[-1] for line in process["lines"]
                                if line["language"] == "python" and line["samples"]}
