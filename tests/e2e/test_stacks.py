# SPDX-License-Identifier: BSD-2-Clause
"""Call stacks of programs without frame pointers, with known chains of calls."""
import collections
import re

import pytest
from conftest import LINKS, WORKLOADS

OPTIONS = ["--memory", "all", "--no-calibrate", "--sample", "off"]
THREADS, ROUNDS, DEEP = 4, 20, 100  # of stacks.cc

# The functions between leaf and every_way, innermost first.
WAYS = [
    ["compare", "sorts"],
    ["dynamic"],
    ["realigned"],
    ["derived::method", "calls_virtual"],
    ["far_away", "calls_far"],
    ["recursive"] * DEEP,
    ["on_signal", "interrupted"],
    ["tail_last"],
    ["jumps", "lands"],
    ["lands"],
    ["bare", "calls_bare"],
    ["framed", "calls_framed"],
    ["calls_compiled"],
    ["calls_compiled_framed"],
]
NAMES = {name for way in WAYS for name in way} | {"leaf", "every_way", "run_thread", "main"}


def chain(hotspot):
    """The program's own functions in a stack."""
    names = (re.match(r"[\w:]+", frame) for frame in hotspot["stack"])
    return tuple(name[0] for name in names if name and name[0] in NAMES)


def follow(program, tracer, *options, link=None, ways=WAYS):
    """Traces each path twice, and checks that its stack is complete. Returns the report's process."""
    p = program(WORKLOADS / "stacks")
    t = tracer(p.pid, *OPTIONS, *options, link=link)
    p.go()  # loads the tables of the running code
    p.go()
    report = t.stop()
    p.finish()
    (process,) = report["processes"]
    counts = collections.Counter()
    for hotspot in process["memory"][0]["hotspots"]:
        counts[chain(hotspot)] += hotspot["allocs"]
    missing = {}
    for way in ways:
        want = THREADS * ROUNDS * 2 * (2 if way[0] == "on_signal" else 1)
        whole = sum(counts["leaf", *way, "every_way", "run_thread", *root]
                    for root in ([], ["main"]))
        if whole < 0.99 * want - 2:  # before the page's tables were ready
            missing[" ".join(way[:3])] = f"{whole} of {want}"
    assert not missing, counts
    return process


@pytest.mark.kernel
@pytest.mark.parametrize("link", LINKS)
def test_known_chains(link, links, program, tracer):
    if link not in links:
        pytest.skip(f"this kernel has no {link} links")
    stacks = follow(program, tracer, link=link)["stacks"]
    assert stacks["cut"] and stacks["complete"] + stacks["cut"] >= 0.98 * stacks["taken"]
    assert 0 < stacks["guessed"] < 0.3 * stacks["taken"]


@pytest.mark.alone  # another tracer's return probes on libc would also be in this program, and end it
def test_return_probes_on_the_way(program, tracer):
    """They have replaced return addresses on the stack. Allocations of a handler on its own stack are
    lost then, because its return probes would end the program."""
    ways = [way for way in WAYS if way[0] != "on_signal"]
    process = follow(program, tracer, "--return", "probe", "-F", "stacks:calls_*", "-F",
                     "stacks:every_way", "-F", "stacks:sorts", "-F", "stacks_far.so:far_away",
                     ways=ways)
    traced = {f["name"] for f in process["functions"]}
    assert traced >= {"every_way", "sorts", "calls_far", "far_away"}


def test_frame_pointers_alone(program, tracer):
    p = program(WORKLOADS / "memory_chain-fp")
    t = tracer(p.pid, *OPTIONS, "--stacks", "fp")
    p.go()
    (process,) = t.stop()["processes"]
    p.finish()
    assert set(process["stacks"]["ended"]) == {"frame_pointer"}
    assert any("main" in frame for h in process["memory"][0]["hotspots"] for frame in h["stack"])


def test_no_stacks(program, tracer):
    p = program(WORKLOADS / "memory_chain")
    t = tracer(p.pid, *OPTIONS, "--stacks", "off")
    p.go()
    (process,) = t.stop()["processes"]
    p.finish()
    assert all(len(h["stack"]) == 1 for h in process["memory"][0]["hotspots"])
