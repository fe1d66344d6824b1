# SPDX-License-Identifier: BSD-2-Clause
"""Programs with a known answer: equality, with every kind of link, timed at exits and by return
probe."""
import concurrent.futures
import time

import pytest
from conftest import (EVERYTHING, LINKS, WORKLOADS, Program, Tracer, check_expectations, consistent,
                      functions, known_names, patched_bytes, wait_for, working_links)

# program: its arguments, number of "go"
PROGRAMS = {
    "calls": ([], 2),
    "calls-static": ([], 1),
    "calls-stripped": ([], 1),
    "calls-split": ([], 1),
    "calls-mini": ([], 1),
    "bare": ([], 1),
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


# Their file is mapped while tracing: calls before it is attached are missing.
LATE = {"other_work"}

# functions that are not in the program itself
ELSEWHERE = {"late_work": "late.so", "late_inner": "late.so", "other_work": "execs-other"}


def patterns(program, names):
    return [word for n in names
            for word in ("-F", f"{ELSEWHERE.get(n, program)}:{{{n},*::{n}}}")]


# The same code in another kind of file, which does not matter to a link.
VARIANTS = {"calls-static", "calls-stripped", "calls-split", "calls-mini", "exceptions-static"}
SIDE_BY_SIDE = 4


def is_new(name, how, link):
    """make test does not ask other files of the same code again with exit probes. The kernel takes a
    tenth of a second to close a single link, and closes one at a time. So if there are better links,
    single links are not tested with exit probes, which auto chooses anyway, nor with other files of the
    same code."""
    if not EVERYTHING and how == "exit" and name in VARIANTS:
        return False
    better = {"session", "multi", "perf"}.intersection(working_links())
    return link != "single" or not better or (how == "auto" and name not in VARIANTS)


def pytest_generate_tests(metafunc):
    if metafunc.function is not test_known_answer:
        return
    cases = [(name, how, link) for name in PROGRAMS for how in ("auto", "exit")
             for link in LINKS if is_new(name, how, link)]
    metafunc.parametrize("name,how,link", cases, ids=["-".join(case) for case in cases])


class Runs:
    """Traces the programs side by side, each with its own tracer. The cases of one program follow each
    other, because a file that another process maps as well is attached in another way."""

    def __init__(self, cases):
        self.started = []  # programs and tracers
        self.executor = concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE)
        ways = {}
        for name, how, link in cases:
            ways.setdefault(name, []).append((how, link))
        self.jobs = {name: self.executor.submit(self.each, name, ways[name]) for name in ways}

    def each(self, name, ways):
        outcomes = {}
        for how, link in ways:
            try:
                outcomes[how, link] = self.trace(name, how, link)
            except (Exception, pytest.fail.Exception) as error:  # its own test checks this
                outcomes[how, link] = error
        return outcomes

    def start(self, what, *arguments, **more):
        self.started.append(what(*arguments, **more))
        return self.started[-1]

    def trace(self, name, how, link):
        """The program's expectations, and the report."""
        path = WORKLOADS / name
        arguments, steps = PROGRAMS[name]
        names = known_names(path, steps, *arguments)
        traced = self.start(Program, path, *arguments)
        # these tests need no memory probes, and single links are slow to close
        options = ["--memory", "off"] if link == "single" else []
        tracer = self.start(Tracer, traced.pid, *patterns(name, names), "--return", how,
                            "--no-calibrate", *options, link=link, duration="10m")
        for step in range(steps):
            traced.go()
            if name == "dlopen" and step == 0:
                seen_it = wait_for(lambda: patched_bytes(traced.pid), seconds=60)
                assert seen_it, "the library is not probed"
                time.sleep(0.3)  # its other probes
        return traced.finish(), tracer.stop()

    def outcome(self, name, how, link):
        outcome = self.jobs[name].result()[how, link]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def end(self):
        self.executor.shutdown(wait=False, cancel_futures=True)
        for one in self.started:
            one.kill()
        self.executor.shutdown()


def why_not(name, link):
    if link not in working_links():
        return f"this kernel has no {link} links"
    return "" if (WORKLOADS / name).exists() else f"{name} is not built here"


@pytest.fixture(scope="module")
def runs(request):
    params = [item.callspec.params for item in request.session.items
              if item.function is test_known_answer]
    cases = [(p["name"], p["how"], p["link"]) for p in params]
    runs = Runs([case for case in cases if not why_not(case[0], case[2])])
    yield runs
    runs.end()


@pytest.mark.kernel
def test_known_answer(name, how, link, runs):
    why = why_not(name, link)
    if why:
        pytest.skip(why)
    expected, report = runs.outcome(name, how, link)
    consistent(report)
    check_expectations(report, seen(expected, report))


def by_return(report, name):
    return any(p["return"] == "probe" for p in report["overhead"]["probes"] if p["name"] == name)


def seen(expected, report):
    """The part of the expectations that a tracer arriving after "ready" can see."""
    result = {}
    for (name, key), value in expected.items():
        if name in LATE:
            key = "at_most"
        if key == "begun_before" and by_return(report, name):
            continue  # return probes miss calls that began before them
        result[name, key] = value
    return result


# Calls that get a return probe at a time, of the 64 that the kernel allows.
RETURNS_MAX = 48


def test_deep_nesting_is_timed_at_exits(program, tracer, links):
    """Return probes cannot nest that deep. From then on the function is timed at its exits, also while
    calls with a return probe or counted calls are open."""
    if "session" not in links:
        pytest.skip("this kernel has no session links")
    p = program(WORKLOADS / "nesting")
    t = tracer(p.pid, "-F", "nesting:deep", "--no-calibrate", link="session")
    p.say("go")
    assert p.hear() == "half-way\n"
    # while deep(200) to deep(100) are open, including the last
    assert t.reads("deep: its calls nest too deeply for return probes: timed at its exits")
    p.go(3)
    expected, report = p.finish(), t.stop()
    consistent(report)
    check_expectations(report, expected)
    [row] = functions(report, "deep")
    untimed = 101 - RETURNS_MAX
    assert (row["calls"], row["timed"], row["unwound"]) == (600, 600 - untimed, 0)
    assert report["losses"]["untimed_calls"] == untimed
    assert not by_return(report, "deep")


def test_goroutines(program, tracer):
    """Goroutines change threads and move their stacks during calls, and are still counted and timed by
    goroutine. A panic unwinds, and callers are the goroutine's own."""
    path = WORKLOADS / "goroutines"
    if not path.exists():
        pytest.skip("goroutines is not built here: no go (Debian: golang-go)")
    p = program(path)
    t = tracer(p.pid, "-F", "goroutines:main.{outer,inner,deepen,fails,recovers}", "--no-calibrate",
               "--max-overhead", "off")
    p.go()
    expected, report = p.finish(), t.stop()
    consistent(report)
    check_expectations(report, expected)
    assert report["losses"]["untimed_calls"] == report["losses"]["unmatched_returns"] == 0
    for name in ("main.outer", "main.inner"):
        [row] = functions(report, name)
        assert row["timed"] == row["calls"]
        # most of it is sleeping and waiting for other goroutines
        assert row["total_ns"] == pytest.approx(expected[name, "own_ns"], rel=0.15)
        assert "off_cpu_ns" not in row  # unknown for goroutines
    callers = {row["name"]: {p["name"] for p in row["parents"]}
               for row in report["processes"][0]["functions"]}
    assert callers == {"main.outer": {"[untraced]"}, "main.inner": {"main.outer"},
                       "main.deepen": {"main.inner", "main.deepen"},
                       "main.recovers": {"[untraced]"}, "main.fails": {"main.recovers"}}


def test_callers_of_coroutines(program, tracer):
    """Callers are on the coroutine's own stack, whatever else waits on the thread; the time of a
    waiting call is its own."""
    p = program(WORKLOADS / "coroutines")
    t = tracer(p.pid, "-F", "coroutines:{step,yield_inside,resume,between}", "--no-calibrate")
    p.go()
    expected, report = p.finish(), t.stop()
    consistent(report)
    check_expectations(report, expected)
    rows = {row["name"]: row for row in report["processes"][0]["functions"]}
    assert {name: {p["name"] for p in row["parents"]} for name, row in rows.items()} == {
        "resume": {"[untraced]"}, "between": {"resume"}, "step": {"[untraced]"},
        "yield_inside": {"step"}}
    assert all(row["timed"] == row["calls"] for row in rows.values())
    # a step only yields, twice
    assert rows["step"]["self_ns"] < 0.5 * rows["step"]["total_ns"]
