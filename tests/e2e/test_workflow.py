# SPDX-License-Identifier: BSD-2-Clause
"""The steps of docs/examples/github-actions.yaml, as a runner calls them, with a repository of two versions. `gh` is a
script that keeps the comments of one pull request; everything else is real, but sudo, which root does not need."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, PERFX, TOP

PROGRAM = """
#include <time.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
__attribute__((noipa)) void paced(void) { long end = now() + LENGTH; while (now() < end); }
__attribute__((noipa)) void steady(void) { long end = now() + 300000; while (now() < end); }
int main(void) { for (int i = 0; i < 500; i++) { paced(); steady(); } return 0; }
"""
GH = """#!/usr/bin/python3
import json, os, subprocess, sys
path, arguments = os.environ["COMMENTS"], sys.argv[2:]
comments = json.load(open(path)) if os.path.exists(path) else []
assert sys.argv[1] == "api"
if "--jq" in arguments:
    assert arguments[:2] == ["--paginate", "repos/owner/name/issues/7/comments"]
    sys.exit(subprocess.run(["jq", "-r", arguments[3]], input=json.dumps(comments).encode()).returncode)
key, _, file = arguments[arguments.index("--field") + 1].partition("=@")
body = {"id": 100 + len(comments), key: open(file).read()}
if arguments[:2] == ["--method", "PATCH"]:
    assert arguments[2] == f"repos/owner/name/issues/comments/{comments[1]['id']}"
    comments[1] |= {key: body[key]}
else:
    assert arguments[0] == "repos/owner/name/issues/7/comments"
    comments.append(body)
json.dump(comments, open(path, "w"))
"""


def git(folder, *argv):
    return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", folder, *argv], check=True,
                          capture_output=True, text=True).stdout.strip()


def make_repository(folder):
    """The base's commit; the working tree is the pull request's."""
    git(folder.parent, "init", "-q", folder)
    (folder / "Makefile").write_text("train: train.c\n\tcc -O2 -g -o train train.c\n")
    for length in (300000, 900000):
        (folder / "train.c").write_text(PROGRAM.replace("LENGTH", str(length)))
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"{length} ns")
    return git(folder, "rev-parse", "HEAD~")


def make_wheel(folder):
    """As `make wheel` does, of this build's program: its name."""
    prefix = folder / "prefix"
    for file, place in ((PERFX, "bin"), (BUILD / "libperfx.so.1", "lib")):
        (prefix / place).mkdir(parents=True)
        shutil.copy(file, prefix / place)
    (folder / "licenses").mkdir()
    made = subprocess.run([sys.executable, "-B", "-c", "import sys, build_wheel\n"
                           "print(build_wheel.build_tool_wheel(*sys.argv[1:]))", folder, prefix, folder / "licenses"],
                          cwd=TOP / "python", check=True, capture_output=True, text=True)
    return folder / made.stdout.strip()


class Runner:
    """Runs the steps in their order: each a bash of its own, with what earlier ones have put into the runner's files."""

    def __init__(self, place, steps, environment):
        self.place, self.steps = place, steps
        self.environment = {**os.environ, **environment, "RUNNER_TEMP": str(place / "temp")}
        shutil.rmtree(place / "temp", ignore_errors=True)
        (place / "temp").mkdir()
        self.files = {name: place / "temp" / name for name in ("GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}

    def run(self):
        """Exit statuses by the steps' names, and the outputs of steps."""
        statuses = {}
        for step in self.steps:
            path = [line for line in self.read("GITHUB_PATH")] + [str(self.place / "bin"), os.environ["PATH"]]
            environment = {**self.environment, "PATH": ":".join(path), **{k: str(v) for k, v in self.files.items()}}
            done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                                  cwd=self.place / "source", env=environment, capture_output=True, text=True)
            print(step["name"], done.stdout, done.stderr)
            statuses[step["name"]] = done.returncode
        return statuses, dict(line.split("=", 1) for line in self.read("GITHUB_OUTPUT"))

    def read(self, name):
        return self.files[name].read_text().splitlines() if self.files[name].exists() else []


@pytest.mark.long
def test_the_steps_of_the_workflow(tmp_path):
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((TOP / "docs/examples/github-actions.yaml").read_text())
    steps = [step for step in workflow["jobs"]["compare"]["steps"] if "run" in step]
    assert workflow["env"]["THRESHOLD"] == "5%" and "pull_request" in workflow[True]  # YAML's `on`
    for folder in ("bin", "source"):
        (tmp_path / folder).mkdir()
    for name, script in (("gh", GH), ("sudo", "#!/bin/sh\nexec \"$@\"\n")):
        (tmp_path / "bin" / name).write_text(script)
        (tmp_path / "bin" / name).chmod(0o755)
    comments = tmp_path / "comments"
    comments.write_text(json.dumps([{"id": 100, "body": "LGTM"}]))
    environment = {**{key: value for key, value in workflow["env"].items() if "${{" not in value},
                   "RUN": "./train", "OPTIONS": "-F 'train:{paced,steady}' --no-calibrate", "NUMBER": "7",
                   "BASE": make_repository(tmp_path / "source"), "WHEEL": str(make_wheel(tmp_path)),
                   "GITHUB_REPOSITORY": "owner/name", "COMMENTS": str(comments), "PIP_NO_INDEX": "1"}

    statuses, outputs = Runner(tmp_path, steps, environment).run()
    assert statuses == {step["name"]: int(step["name"].startswith("Fail if")) for step in steps}
    assert outputs == {"status": "4"} and "status == '4'" in steps[-1]["if"]
    _, comment = json.loads(comments.read_text())
    assert comment["body"].startswith("<!-- perfx-trace -->\n### perfx-trace\n\n**`")
    assert re.search(r"^\| \+[\d.]+\s% \|.*\| regression \| `paced` \|$", comment["body"], re.M)
    assert re.search(r"^Regressions of more than 5\s%: [12]$", comment["body"], re.M)

    # the pull request is mended: the comment is replaced, and the last step is not reached
    git(tmp_path / "source", "worktree", "remove", "--force", tmp_path / "temp/base")
    git(tmp_path / "source", "checkout", "-q", environment["BASE"])
    statuses, outputs = Runner(tmp_path, steps[:-1], {**environment, "THRESHOLD": "5000%"}).run()
    assert set(statuses.values()) == {0} and outputs == {"status": "0"}
    _, comment = json.loads(comments.read_text())
    assert re.search(r"^Regressions of more than 5000\s%: 0$", comment["body"], re.M)
