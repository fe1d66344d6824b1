# SPDX-License-Identifier: BSD-2-Clause
"""Annotations without a duration, and the library that receives them."""
import ctypes
import os
import subprocess
import sys
import threading

import perfx
import pytest
from perfx import _library
from project import TOP

LIBRARY = TOP / os.environ.get("BUILD", "build") / "libperfx.so.1"


def test_points(heard):
    perfx.mark("here")
    perfx.counter("loss", 0.5)
    perfx.counter_add("tokens")
    perfx.counter_add(b"bytes", 4096)
    perfx.flops(1e9)
    perfx.memory.alloc("pool", 0x1000, 64)
    perfx.memory.free("pool", 0x1000)
    perfx.start()
    perfx.stop()
    assert heard.events == [
        ("mark", b"here"), ("counter", b"loss", 0.5), ("counter_add", b"tokens", 1),
        ("counter_add", b"bytes", 4096), ("flops", 10**9), ("memory_alloc", b"pool", 0x1000, 64),
        ("memory_free", b"pool", 0x1000), ("trace_start",), ("trace_stop",)]


def steps(heard):
    return "".join({"step_begin": "(", "step_end": ")"}[event[0]] for event in heard.events)


def test_steps_as_blocks(heard):
    for _ in range(3):
        with perfx.step():
            pass
    with pytest.raises(KeyError), perfx.step():
        raise KeyError
    assert steps(heard) == "()()()()"


def test_steps_as_boundaries(heard):
    def other():
        with perfx.step():
            pass

    for _ in range(3):
        perfx.step()
    threading.Thread(target=other).start()
    while steps(heard) != "()()(()":
        pass
    perfx.step().end()
    assert steps(heard) == "()()(())()"


def test_hostile_names():
    """The library does not read the name, so any name is passed on."""
    if not perfx.available:
        pytest.skip("libperfx is not built")
    for name in ("", "x" * (1 << 20), "\0", "\ud800", "=1+1", "\x1b[31m", b"\xff\xfe", "näme"):
        perfx.mark(name)
        with perfx.scope(name):
            perfx.counter(name, float("nan"))
    for wrong in (None, 5, ["x"]):
        with pytest.raises(TypeError):
            perfx.mark(wrong)


def in_new_python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(TOP / "python"),
                          **environment}, capture_output=True, text=True, timeout=60, check=False)


def test_without_library_marks_do_nothing():
    code = ("import perfx\nwith perfx.scope('x'), perfx.step(): perfx.counter('c', 1)\n"
            "print(perfx.available, perfx.track(len)('abc'))")
    run = in_new_python(code, PERFX_LIBRARY="/nowhere/libperfx.so.1")
    assert run.stdout == "False 3\n" and run.returncode == 0
    assert "RuntimeWarning: perfx: libperfx.so.1 not found" in run.stderr


def test_library():
    if not LIBRARY.is_file():
        pytest.skip("libperfx is not built")
    run = in_new_python("import perfx\nprint(perfx.available)", PERFX_LIBRARY=str(LIBRARY))
    assert (run.stdout, run.stderr) == ("True\n", "")
    functions = _library.Functions(ctypes.PyDLL(str(LIBRARY)))
    ids = {functions.range_start_in(b"r", 0) for _ in range(1000)}
    assert len(ids) == 1000 and 0 not in ids
    for number in ids:
        functions.range_end(number)
