# SPDX-License-Identifier: BSD-2-Clause
""".ci/deps: a group that does not exist is an error, and the Makefile names none."""
import re
import subprocess

from project import TOP


def groups(text):
    """Of the table: the first word of its rows."""
    return set(re.findall(r"^(\w+) +\S+ +\S+ +(?:command|module|header|library|python) ", text, re.M))


def test_an_unknown_group_is_an_error():
    result = subprocess.run([TOP / ".ci/deps", "tests"], capture_output=True, text=True)
    assert result.returncode == 2
    assert "no such group: tests" in result.stderr and "build test lint" in result.stderr


def test_the_groups_of_the_makefile_exist():
    named = re.findall(r"@\.ci/deps (\w[\w ]*)", (TOP / "Makefile").read_text())
    assert named and {g for n in named for g in n.split()} <= groups((TOP / ".ci/deps").read_text())
