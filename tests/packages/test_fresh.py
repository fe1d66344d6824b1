# SPDX-License-Identifier: BSD-2-Clause
"""Runs the commands of the README in a fresh Debian 12, on a copy of this source. Logs: build/fresh-*.log."""
import re
import subprocess

import pytest
from systems import BUILD, TOP, fresh

HOME = "/root/perfx-trace"
# Packages that only `make test` needs.
OF_TESTS = {"chromium", "heaptrack", "bpftrace", "gdb", "libopenblas-dev", "libcriterion-dev"}


def copy_source(system):
    """Copies the files of the working tree that git does not ignore, as a clone would have them."""
    files = subprocess.check_output(["git", "-c", "safe.directory=*", "-C", TOP, "ls-files", "-z", "--cached",
                                     "--others", "--exclude-standard"])
    archive = subprocess.run(["tar", "-C", TOP, "--null", "-T", "-", "-c"], input=files, stdout=subprocess.PIPE,
                             check=True).stdout
    system.path(HOME).mkdir()
    subprocess.run(["tar", "-C", system.path(HOME), "-x"], input=archive, check=True)


@pytest.fixture(scope="module")
def machine():
    with fresh("bookworm") as system:
        system.run("apt-get", "update")
        system.run("apt-get", "install", "-y", "--no-install-recommends", "git", "make")
        copy_source(system)
        yield system


def make(machine, goal=""):
    """Runs `make GOAL` in the system; returns its exit status and output."""
    log = BUILD / f"fresh-{goal or 'make'}.log"
    print(f"make {goal} in a fresh Debian 12: {log}", flush=True)
    with open(log, "w+", encoding="utf8") as out:
        status = machine.start("sh", "-c", f"cd {HOME} && make {goal}", stdin=subprocess.DEVNULL, stdout=out,
                               stderr=subprocess.STDOUT).wait()
        out.seek(0)
        return status, out.read()


def test_these_are_the_commands_of_the_readme():
    assert re.findall(r"^    sudo (make \w+) +# ", (TOP / "README.md").read_text(), re.M) == ["make demo", "make test"]


def test_make_names_missing_tools(machine):
    status, output = make(machine)
    assert status == 2
    assert re.fullmatch(r"Makefile:\d+: \*\*\* cc, clang, bpftool, .*are missing: sudo make deps\. +Stop\.\n", output)


def test_demo(machine):
    status, output = make(machine, "demo")
    assert status == 0, output[-3000:]
    assert "deps: downloading " in output and re.search(r"^deps: +\d+ % \S", output, re.M)
    report = machine.path(f"{HOME}/demo-report.md").read_text()
    assert "planted.py" in report and "## How it was measured" in report
    installed = set(machine.run("dpkg-query", "-W", "-f", "${Package}\n").split())
    assert "python3-torch" in installed and not OF_TESTS & installed


def test_test(machine):
    status, output = make(machine, "test")
    assert status == 0, output[-6000:]
    assert re.fullmatch(r"\d{4,} passed, 0 failed, \d+ skipped", output.splitlines()[-1])
