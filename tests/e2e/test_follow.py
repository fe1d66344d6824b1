# SPDX-License-Identifier: BSD-2-Clause
"""Processes and mappings that come while tracing: what looking at them costs, and what is seen of
them from when on."""
import pytest
from conftest import WORKLOADS, total

QUICK = ["--no-calibrate"]


def looks(report):
    """How often traced processes were looked at, and how many times the mappings of others read."""
    overhead = report["overhead"]
    return overhead["tracer_looks"], overhead["tracer_strangers_read"]


@pytest.mark.parametrize("kind", ["--anonymous", "--files", "--forks"])
def test_what_is_known_is_not_looked_at_again(kind, program, tracer):
    """Nothing new is mapped, 3,000 times or by 200 children: the others of this machine are not
    looked at for it, nor is code without a file; a file that is mapped anew all the time is looked at
    at a bounded rate."""
    p = program(WORKLOADS / "maps_often", kind)
    t = tracer(p.pid, *QUICK, "-F", "maps_often:work", "--memory", "off" if kind == "--forks" else "all")
    p.go()
    expected = p.finish()
    report = t.stop()
    assert total(report, "work", "calls") == expected["work", "calls"]
    own, strangers = looks(report)
    assert strangers < 1000, "one pass over /proc at the start"
    assert own < {"--anonymous": 20, "--files": 1500, "--forks": 20}[kind]
