# SPDX-License-Identifier: BSD-2-Clause
"""XLA's operations of a running JAX process: names and numbers of runs as in JAX's text of the compiled
modules, FLOPs by the shapes of the multiplied arrays."""
import json
import re
from collections import Counter

import pytest
import trainers
from test_ml import jax_python  # noqa: F401
from trainers import Trainer, attached

QUICK = ["--no-calibrate", "--memory", "off"]
KERNELS = "libjax_common*:{dnnl_sgemm,ynn*::dot_*}"
THUNKS = "libjax_common*:xla::cpu::ThunkExecutor::TracedExecute"
# Not thunks: they name existing memory.
SILENT = {"parameter", "bitcast", "tuple", "get-tuple-element", "constant"}


def chain(m, k, n, p):
    return 2 * m * k * n + 2 * m * n * p


SMALL = chain(32, 64, 48, 16)
LARGE = chain(320, 640, 480, 160)
ATTENTION = 2 * 2 * 6 * 40 * 40 * 20
INTEGERS = 2 * 200 * 100 * 50
# Elements of the result times those of the kernel that make one of them.
CONVOLUTION = 2 * (2 * 32 * 30 * 8) * (3 * 3 * 5)
GROUPS = 2 * (2 * 14 * 26 * 8) * (2 * 3 * 5)
ROUND = {"jit_multiply": SMALL + LARGE, "jit_attend": ATTENTION, "jit_integers": INTEGERS,
         "jit_convolve": CONVOLUTION, "jit_convolve_groups": GROUPS,
         "jit_nested": INTEGERS + SMALL}
NEW = sum(chain(m, 40, 30, 20) for m in (11, 12, 13))


@pytest.fixture
def jax(jax_python):  # noqa: F811
    t = Trainer(jax_python, "jax_operations.py")
    yield t
    t.kill()


def traced(trainer, *commands, options=()):
    return trainers.traced(trainer, commands, *QUICK, *options)


def entry_operations(text):
    """The operations that a run of a compiled module executes, from the lines of its entry
    computation."""
    entry = text[text.index("\nENTRY"):]
    lines = entry[:entry.index("\n}")].splitlines()[2:]
    found = [re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = .*?([\w\-]+)\(", line) for line in lines]
    return [m.group(1) for m in found if m and m.group(2) not in SILENT]


def promised(trainer):
    """Runs of each operation per round: {"jit_multiply/dot.1": 2, …}."""
    found = Counter()
    for module, text in json.loads(trainer.command("hlo 0")[-1]):
        found.update(f"{module}/{name}" for name in entry_operations(text))
    return found


def operations(report):
    """{name: row} of operations, whose names begin with a module's name."""
    return {f["name"]: f for p in report["processes"] for f in p["functions"]
            if f["source"] == "xla" and f["name"].startswith("jit_")}


def flops_by_module(report):
    found = Counter()
    for name, f in operations(report).items():
        found[name.split("/")[0]] += f.get("own_flops", 0)
    return +found


def compute(report):
    return report["processes"][0]["compute"]


@pytest.mark.parametrize("rounds", [1, 10])
def test_names_runs_and_flops(rounds, jax):
    """Also for runs before the thunk has been read: with one round, every run is one."""
    expected = promised(jax)
    report = traced(jax, f"run {rounds}")
    rows = operations(report)
    assert {n: f["calls"] for n, f in rows.items()} == {n: c * rounds for n, c in expected.items()}
    assert flops_by_module(report) == {m: n * rounds for m, n in ROUND.items()}
    assert compute(report)["flops"] == rounds * sum(ROUND.values())
    assert compute(report)["figures"]["unread"] == 0
    assert not [f for p in report["processes"] for f in p["functions"]
                if "TracedExecute" in f["name"] and f["calls"]]


def test_compiled_code_is_not_guessed(jax):
    report = traced(jax, "run 2")
    opaque = {n: f["figures"]["opaque"] for n, f in operations(report).items()
              if f.get("figures", {}).get("opaque")}
    assert opaque["jit_multiply/wrapped_tanh"] == 4
    assert compute(report)["figures"]["opaque"] == sum(opaque.values())
    assert compute(report)["opaque_ns"] > 0


def test_new_shapes(jax):
    """Compiled while tracing: an operation has one row for all shapes."""
    report = traced(jax, "new 4")
    assert flops_by_module(report) == {"jit_multiply": 4 * NEW}
    calls = {n: f["calls"] for n, f in operations(report).items()}
    assert set(calls.values()) == {12}


@pytest.mark.parametrize("times", [1, 5])
def test_loops(times, jax):
    """Operations in a loop have their own runs, also before the loop's thunk has been read."""
    report = traced(jax, f"loop {times}")
    assert flops_by_module(report) == {"jit_loop": times * 7 * 2 * 40 * 30 * 30}
    assert compute(report)["figures"]["silenced"] == 0


def test_submitted(jax):
    """A large product returns when threads have received its parts, so its time is no rate. One that
    waits for them has a rate, and so has the process."""
    report = traced(jax, "large 10", "run 10")
    rows = operations(report)
    [large] = [f for n, f in rows.items() if n.startswith("jit_large/") and f.get("flops")]
    assert large["flops"] == 10 * 2 * 1200**3
    assert large["figures"]["submitted"] > 0
    assert large["rate_withheld"] == "submitted"
    assert not {"gflops_per_s", "roofline"} & set(large)
    rated = {n for n, f in rows.items() if "gflops_per_s" in f}
    assert rated == {n for n, f in rows.items() if f.get("flops") and "rate_withheld" not in f}
    assert rated
    assert compute(report)["gflops_per_s"] > 0


def test_several_threads(jax):
    expected = promised(jax)
    report = traced(jax, "threads 5")
    assert flops_by_module(report) == {m: n * 15 for m, n in ROUND.items()}
    assert {n: f["calls"] for n, f in operations(report).items()} == \
        {n: c * 15 for n, c in expected.items()}


def test_runs_without_records(jax):
    """With a ring that is much too small, runs are in the overflow sums, also those of unread
    thunks."""
    tracer, _ = attached(jax.pid, *QUICK, "--ring-size", "4K", "-F", KERNELS, "-F", THUNKS)
    jax.command("run 40")
    report = tracer.stop()
    assert report["losses"]["ring_drops"] > 0
    assert flops_by_module(report) == {m: n * 40 for m, n in ROUND.items()}


def test_kernels_agree(jax):
    """FLOPs of the dot kernels, by their own arguments, equal those of the thunks. Integers are not
    multiplied by them."""
    kernels = traced(jax, "run 3", options=["-F", KERNELS])
    total = sum(f.get("own_flops", 0) for p in kernels["processes"] for f in p["functions"])
    assert total == 3 * (sum(ROUND.values()) - 2 * INTEGERS)


def test_nothing_counts_twice(jax):
    """With kernels and thunks traced, on any thread, the sum is the same."""
    report = traced(jax, "run 3", options=["-F", KERNELS, "-F", THUNKS])
    kernel = re.compile(r"ynn::(\(anonymous namespace\)::)?dot_|dnnl_sgemm$")
    kernels = [f for p in report["processes"] for f in p["functions"]
               if f["calls"] and kernel.match(f["name"])]
    assert kernels
    for f in kernels:
        assert f["figures"] == {"counted": 0, "unread": 0, "silenced": f["calls"]}
    assert compute(report)["flops"] == 3 * sum(ROUND.values())


def test_names_without_flops(jax):
    expected = promised(jax)
    report = traced(jax, "run 2", options=["--flops", "off"])
    assert {n: f["calls"] for n, f in operations(report).items()} == \
        {n: c * 2 for n, c in expected.items()}
    assert "compute" not in report["processes"][0]
