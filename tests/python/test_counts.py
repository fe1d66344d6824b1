# SPDX-License-Identifier: BSD-2-Clause
"""tests/run counts the results of small projects, and never loses a failure."""
import os
import re
import shutil
import signal
import subprocess
import textwrap

import pytest
from project import TOP

BESIDE_OTHERS = 'import os, signal, time, pytest\nbeside_others = "PYTEST_XDIST_WORKER" in os.environ\n'
FAILS_BESIDE_OTHERS = """
    @pytest.mark.parametrize("number", range(4))
    def test_flaky(number):
        assert not beside_others
"""
ALONE_FAILS = """
    @pytest.mark.alone
    def test_alone():
        assert False
"""


@pytest.fixture
def project(tmp_path):
    """Runs tests/run in a folder with the given end-to-end tests (files) or unit test programs (units)."""
    def write(path, text, mode=0o644):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def run(kind, files=(), units=(), **environment):
        write(tmp_path / "build/perfx-trace", "#!/bin/sh\n", 0o755)
        write(tmp_path / "pytest.ini", "[pytest]\nmarkers = alone\n")
        for number, text in enumerate(files):
            write(tmp_path / f"tests/e2e/test_{number}.py", BESIDE_OTHERS + textwrap.dedent(text))
        names = [tmp_path / f"unit_{number}" for number in range(len(units))]
        for name, text in zip(names, units):
            write(name, f'#!/bin/sh\nexec 3>"${{1#--tap=}}"\n{text}\n', 0o755)
        (tmp_path / "tests").mkdir(exist_ok=True)
        shutil.copy(TOP / "tests/run", tmp_path / "tests")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PERFX_"))}
        # a shell starts what it has in the background with interrupts ignored, and so it is in all below
        result = subprocess.run([tmp_path / "tests/run", kind], capture_output=True, text=True, timeout=120,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                                env=clean | {"BUILD": "build", "UNIT": " ".join(map(str, names))} | environment)
        return result.returncode, result.stdout

    return run


def last_line(output):
    return output.splitlines()[-1]


def test_everything_passes(project):
    status, output = project("bpf", ["def test_a(): pass", "def test_b(): pytest.skip('no device here')",
                                     "@pytest.mark.alone\ndef test_c(): pass"])
    assert status == 0 and last_line(output) == "2 passed, 0 failed, 1 skipped"
    assert "no device here" in output and "flaky" not in output


def test_flaky_tests_take_nothing_from_other_failures(project):
    """More tests recover than fail, and each failure is still counted."""
    files = [FAILS_BESIDE_OTHERS, "def test_fails_always(): assert False" + textwrap.dedent(ALONE_FAILS)]
    status, output = project("bpf", files)
    assert status == 1 and last_line(output) == "4 passed, 2 failed, 0 skipped"
    assert "\nflaky, 4:" in output and "  tests/e2e/test_0.py::test_flaky[3]\n" in output
    assert "\nfailed:\n  tests/e2e/test_1.py::test_alone\n  tests/e2e/test_1.py::test_fails_always\n" in output


@pytest.mark.parametrize("flaky, counts", [("", "5 passed, 0 failed, 0 skipped"),
                                           ("fail", "1 passed, 4 failed, 0 skipped")])
def test_flaky_tests_fail_a_run_that_asks_for_it(project, flaky, counts):
    status, output = project("bpf", [FAILS_BESIDE_OTHERS, "@pytest.mark.alone\ndef test_passes(): pass"],
                             PERFX_FLAKY=flaky)
    assert last_line(output) == counts and status == bool(flaky)


def test_an_interrupted_run_has_failed(project):
    """The interrupted run counts as one failure, beside failed tests; unfinished tests have no result."""
    interrupts = """
        def test_interrupts():
            if beside_others:
                time.sleep(2)
                os.kill(os.getppid(), signal.SIGINT)
                time.sleep(30)

        def test_never_runs():
            pass
    """
    status, output = project("bpf", [FAILS_BESIDE_OTHERS, textwrap.dedent(interrupts) + textwrap.dedent(ALONE_FAILS)])
    assert status == 1 and last_line(output) == "4 passed, 2 failed, 0 skipped"
    assert re.search(r"^  pytest -n .*: ended with status 2$", output, re.M)


def test_errors_and_crashes_are_failures(project):
    status, output = project("bpf", [
        "import no_such_module",
        "@pytest.fixture\ndef bad():\n    assert 0\n\ndef test_setup(bad): pass",
        "@pytest.fixture\ndef bad():\n    yield\n    assert 0\n\ndef test_teardown(bad): pass",
        "def test_crashes(): os._exit(3)"])
    assert status == 1 and last_line(output).startswith("0 passed, ")
    failed = re.search(r"^failed:\n((?:  .*\n)+)", output, re.M)[1]
    for name in ("test_0.py", "test_1.py::test_setup", "test_2.py::test_teardown", "test_3.py::test_crashes"):
        assert f"  tests/e2e/{name}\n" in failed


def test_no_tests_are_a_failure(project):
    assert project("unit")[0] == 1
    status, output = project("bpf", ["unused = 1"])
    assert status == 1 and not output.endswith(" 0 failed, 0 skipped\n")


@pytest.mark.parametrize("program, counts", [
    ("printf 'ok - a::b\\nok - a::c # SKIP no device\\n' >&3", "1 passed, 0 failed, 1 skipped"),
    ("printf 'ok - a::b\\nnot ok - a::c\\n' >&3; exit 1", "1 passed, 1 failed, 0 skipped"),
    ("printf 'ok - a::b\\n' >&3; exit 1", "1 passed, 1 failed, 0 skipped"),
    ("printf 'ok - a::b\\n' >&3; kill -SEGV $$", "1 passed, 1 failed, 0 skipped"),
    ("printf 'ok - a::b\\n' >&3; echo ERROR: LeakSanitizer: detected memory leaks", "1 passed, 1 failed, 0 skipped"),
    ("", "0 passed, 1 failed, 0 skipped")])
def test_unit_programs(project, program, counts):
    passed, *rest = counts.split(" ", 1)
    status, output = project("unit", units=[program, "printf 'ok - d::e\\n' >&3"])
    assert last_line(output) == f"{int(passed) + 1} {rest[0]}"
    assert status == (0 if " 0 failed" in counts else 1)
