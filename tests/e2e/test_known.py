# SPDX-License-Identifier: BSD-2-Clause
"""Programs with a known answer: equality, on every kind of link, timed at exits and by return probe."""
import time

import pytest
from conftest import WORKLOADS, check_expectations, consistent, known_names

# program: its arguments, how often "go"
PROGRAMS = {
    "calls": ([], 3),
    "calls-static": ([], 1),
    "calls-stripped": ([], 1),
    "calls-split": ([], 1),
    "recursion": ([], 1),
    "threads": ([], 1),
    "fork": ([], 1),
    "execs": ([], 1),
    "dlopen": ([], 6),
    "longjmp": ([], 1),
    "tailcalls": ([], 2),
    "exits": ([], 1),
    "midcall": ([], 1),
    "exceptions": ([], 1),
    "exceptions-static": ([], 1),
    "unwind": ([], 1),
    "unwind-cxx": ([], 1),
    "panic": ([], 1),
}


# Their file arrives while tracing: calls made before it was attached are not seen.
LATE = {"other_work"}

# functions that are not in the program itself
ELSEWHERE = {"late_work": "late.so", "late_inner": "late.so", "other_work": "execs-other"}


def patterns(program, names):
    return [word for n in names
            for word in ("-F", f"{ELSEWHERE.get(n, program)}:{{{n},*::{n}}}")]


@pytest.mark.kernel
@pytest.mark.parametrize("link", ["session", "multi", "perf"])
@pytest.mark.parametrize("how", ["auto", "exit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_known_answer(name, how, link, links, program, tracer):
    if link not in links:
        pytest.skip(f"this kernel has no {link} links")
    path = WORKLOADS / name
    if not path.exists():
        pytest.skip(f"{name} is not built here")
    arguments, steps = PROGRAMS[name]
    traced = program(path, *arguments)
    t = tracer(traced.pid, *patterns(name, known_names(path, steps, *arguments)),
               "--return", how, "--no-calibrate", link=link)
    for _ in range(steps):
        traced.go()
        if name == "dlopen":
            time.sleep(0.5)  # until the tracer has seen the library
    expected = traced.finish()
    report = t.stop()
    consistent(report)
    check_expectations(report, seen(expected, report))


def by_return(report, name):
    return any(p["return"] == "probe" for p in report["overhead"]["probes"] if p["name"] == name)


def seen(expected, report):
    """What a tracer that arrives after "ready" can see of it."""
    result = {}
    for (name, key), value in expected.items():
        if name in LATE:
            key = "at_most"
        if key == "begun_before" and by_return(report, name):
            continue  # a return probe knows nothing of calls that began before it
        result[name, key] = value
    return result
