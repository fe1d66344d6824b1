# SPDX-License-Identifier: BSD-2-Clause
"""`run --python-level 1`: each call of a Python function is a range, exactly as often as the script
makes it; also with yield, exceptions, recursion and threads."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BUILD, PERFX, TOP

SCRIPT = '''
import sys, threading

class Net:
    def forward(self, n):
        return [leaf(i) for i in range(n)]

def leaf(i):
    return i

def fails(n):
    if n:
        fails(n - 1)
    raise ValueError("expected")

def catches():
    try:
        fails(2)
    except ValueError:
        pass

def numbers(n):
    try:
        for i in range(n):
            yield leaf(i)
    finally:  # so that close() runs it
        n = 0

def delegates(n):
    yield from numbers(n)

def stops_early():
    found = numbers(10)
    next(found)
    found.close()

def worker():
    for _ in range(5):
        leaf(0)

async def waits():
    leaf(1)

def main():
    Net().forward(3)
    catches()
    assert sum(numbers(4)) == 6
    assert sum(delegates(2)) == 1
    stops_early()
    threads = [threading.Thread(target=worker) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    try:
        waits().send(None)
    except StopIteration:
        pass
    sorted([3, 1, 2], key=leaf)

for _ in range(10):
    main()
if "exit" in sys.argv:
    sys.exit(7)
'''

# Calls per main(): a generator runs once for each item, and once to its end.
EXPECTED = {"main": 1, "Net.forward": 1, "catches": 1, "fails": 3, "numbers": 5 + 3 + 2,
            "delegates": 3, "stops_early": 1, "worker": 3, "waits": 1,
            "leaf": 3 + 4 + 2 + 1 + 15 + 1 + 3}


def interpreters():
    found = {}
    for path in ["/usr/bin/python3", *sorted(map(str, pathlib.Path.home().glob(
            ".pyenv/versions/3.*/bin/python3")))]:
        version = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"],
                                 capture_output=True, text=True).stdout.split()
        if len(version) == 2 and (int(version[0]), int(version[1])) >= (3, 8):
            found.setdefault(".".join(version), path)
    return found


@pytest.fixture(params=sorted(interpreters()))
def python(request):
    return interpreters()[request.param]


def traced(tmp_path, python, *arguments, options=(), status=0, script=SCRIPT, **environment):
    (tmp_path / "script.py").write_text(script)
    file = tmp_path / "report.json"
    run = subprocess.run([PERFX, "run", "--no-calibrate", "--memory", "off", "--python-level", "1",
                          *options, "-o", str(file), "--", python, str(tmp_path / "script.py"),
                          *arguments], capture_output=True, text=True, timeout=120, cwd=tmp_path,
                         env={**os.environ, **environment})
    assert run.returncode == status, run.stderr
    return run, json.loads(file.read_text())


def own(report):
    """{qualified name: calls} of the script's functions."""
    return {f["name"].removeprefix("__main__."): f["calls"] for p in report["processes"]
            for f in p["functions"] if f["name"].startswith("__main__.")}


def hints(report):
    return [n for n in report["not_attached"] if n["name"] == "Python functions"]


def test_exact_counts(python, tmp_path):
    _, report = traced(tmp_path, python)
    found = own(report)
    named = {name: found.get(name) for name in EXPECTED}
    if "Net.forward" not in found:  # before 3.11 code has no qualified name
        named["Net.forward"] = found.get("forward")
    assert named == {name: 10 * count for name, count in EXPECTED.items()}
    assert found["<module>"] == 1
    losses = report["losses"]
    assert [losses[k] for k in ("unmatched_entries", "unmatched_returns", "ring_drops")] == [0, 0, 0]
    assert not hints(report)


def test_what_an_import_runs_is_left_out(python, tmp_path):
    """At the start and inside a function; later calls are traced again."""
    for name in ("early", "lazy"):
        (tmp_path / f"{name}.py").write_text(
            "def at_import():\n    return [i for i in range(3)]\n\n"
            "class Made:\n    at_import()\n\ndef called():\n    pass\n\nat_import()\n")
    script = ("import early\nfrom early import called\ndef step():\n    import lazy\n    lazy.called()\n"
              "def fails():\n    try:\n        import nowhere\n    except ImportError:\n        called()\n"
              "for _ in range(3):\n    step()\n    fails()\ncalled()\n")
    _, report = traced(tmp_path, python, script=script)
    calls = {f["name"]: f["calls"] for p in report["processes"] for f in p["functions"]}
    assert {n: c for n, c in calls.items() if n.startswith(("__main__.", "early.", "lazy."))} == {
        "__main__.<module>": 1, "__main__.step": 3, "__main__.fails": 3, "early.called": 4, "lazy.called": 3}
    assert not any(n.startswith("importlib._bootstrap.") or n.startswith("_frozen_importlib") for n in calls)
    assert report["losses"]["unmatched_entries"] == report["losses"]["unmatched_returns"] == 0


def test_hierarchy(tmp_path):
    _, report = traced(tmp_path, "/usr/bin/python3")
    (fails,) = [f for p in report["processes"] for f in p["functions"]
                if f["name"] == "__main__.fails"]
    assert {p["name"]: p["calls"] for p in fails["parents"]} == {"__main__.catches": 10,
                                                                "__main__.fails": 20}


def test_status_and_streams_are_the_scripts(tmp_path):
    run, _ = traced(tmp_path, "/usr/bin/python3", "exit", status=7)
    assert run.stdout == ""
    assert all(line.startswith("perfx-trace: ") for line in run.stderr.splitlines())


def test_a_sitecustomize_of_the_users_runs(python, tmp_path):
    place = tmp_path / "site"
    place.mkdir()
    (place / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = __file__\n")
    script = SCRIPT + "\nimport sitecustomize\nprint(customized)\nprint(sitecustomize.__file__)\n" \
                      "print([p for p in sys.path if 'perfx' in p])\n"
    run, report = traced(tmp_path, python, script=script, PYTHONPATH=str(place))
    assert run.stdout.splitlines() == [str(place / "sitecustomize.py")] * 2 + ["[]"]
    assert own(report)["main"] == 10


def test_otherwise_the_way_is_a_hint(tmp_path):
    _, report = traced(tmp_path, "/usr/bin/python3", options=["--python-level", "0"])
    assert not own(report)
    assert "run --python-level 1" in hints(report)[0]["reason"]


def test_attached_the_way_is_a_hint(program, tracer):
    process = program("/usr/bin/python3", "-c", "import os, sys\nprint('ready', os.getpid(), flush=True)"
                                                "\nfor line in sys.stdin: print('done', flush=True)")
    trace = tracer(process.pid, "--no-calibrate", "--memory", "off")
    process.go()
    assert "@perfx.track" in hints(trace.stop())[0]["reason"]


def test_only_run_can_do_it():
    result = subprocess.run([PERFX, "-p", "1", "--python-level", "1"], capture_output=True, text=True)
    assert result.returncode == 2 and "run" in result.stderr


def test_installed(tmp_path):
    """The hooks are found beside an installed program."""
    if not shutil.which("make"):
        pytest.skip("no make")
    # the built files: other flags, or a path in another spelling, would rebuild everything
    subprocess.run(["make", "-C", TOP, "--old-file=all", "install", f"DESTDIR={tmp_path}/root",
                    "PREFIX=/usr", f"BUILD={BUILD}", "PYTHONDIR="], check=True, capture_output=True)
    (tmp_path / "script.py").write_text(SCRIPT)
    file = tmp_path / "report.json"
    subprocess.run([tmp_path / "root/usr/bin/perfx-trace", "run", "--no-calibrate", "--python-level",
                    "1", "-o", file, "--", "/usr/bin/python3", tmp_path / "script.py"], check=True,
                   capture_output=True)
    assert own(json.loads(file.read_text()))["leaf"] == 10 * EXPECTED["leaf"]
