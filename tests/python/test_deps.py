# SPDX-License-Identifier: BSD-2-Clause
""".ci/deps: the packages of each group, and the message of make about missing tools."""
import os
import re
import shutil
import subprocess

import pytest
from project import TOP

DEPS = TOP / ".ci/deps"
MAKEFILE = (TOP / "Makefile").read_text()
# Tools that every Debian has.
DEBIAN_TOOLS = ["sh", "bash", "make", "awk", "cat", "echo", "env", "sed", "uname", "uniq", "xargs"]


def packages(*groups):
    """The packages of these groups in the table; without groups all packages."""
    rows = re.findall(r"^(\w+) +(\S+) +\S+ +(?:command|module|header|library|python) ", DEPS.read_text(), re.M)
    return {package for group, package in rows if group in groups or not groups}


def make(*argv, path=os.environ["PATH"]):
    """Runs make as from a command line, without the variables of the make that runs the tests."""
    clean = {name: value for name, value in os.environ.items() if not re.match("MAKE|MFLAGS|BPFTOOL|CLANG|CC", name)}
    return subprocess.run([shutil.which("make"), *argv], cwd=TOP, capture_output=True, text=True,
                          env=clean | {"PATH": str(path)}, check=False)


def test_an_unknown_group_is_an_error():
    result = subprocess.run([DEPS, "tests"], capture_output=True, text=True)
    assert result.returncode == 2
    assert "no such group: tests" in result.stderr and "build demo test lint" in result.stderr


def test_the_groups_of_the_makefile_exist():
    named = re.findall(r"@\.ci/deps (\w[\w ]*)", MAKEFILE)
    assert named and all(packages(group) for groups in named for group in groups.split())


def test_the_demo_installs_the_builds_packages_and_pytorch():
    groups = re.search(r"^demo:\n\t@\.ci/deps (.*)", MAKEFILE, re.M)[1].split()
    assert groups == ["build", "demo"]
    assert packages("demo") == {"python3", "python3-torch"}
    assert not packages("build") & {"chromium", "heaptrack", "bpftrace", "gdb", "libopenblas-dev"}


@pytest.mark.parametrize("tools, missing", [
    (["CLANG=clang-of-nobody"], "clang-of-nobody is"),
    (["CC=no-such-cc -m64", "BPFTOOL=/nowhere/bpftool"], "no-such-cc -m64, /nowhere/bpftool are")])
def test_make_names_missing_tools_at_once(tools, missing):
    result = make(*tools)
    assert result.returncode == 2 and result.stdout == ""
    assert re.fullmatch(rf"Makefile:\d+: \*\*\* {missing} missing: sudo make deps\. +Stop\.\n", result.stderr)
    assert make(*tools, "help").returncode == 0


def test_make_on_a_machine_without_tools(tmp_path):
    for tool in DEBIAN_TOOLS:
        (tmp_path / tool).symlink_to(shutil.which(tool))
    result = make("BPFTOOL=other-bpftool", path=tmp_path)
    assert result.returncode == 2
    [line] = result.stderr.splitlines()
    assert "*** cc, clang, other-bpftool, pkg-config, xxd are missing: sudo make deps." in line
