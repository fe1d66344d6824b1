# SPDX-License-Identifier: BSD-2-Clause
"""--gpu 1: the agent in a program whose CUDA driver and CUPTI are stubs with known records.
test_agents.c tests the agent itself."""
import json
import os
import subprocess
import tempfile
import time

import pytest

from conftest import PERFX, WORKLOADS, functions

OPTIONS = ["--gpu", "1", "--no-calibrate", "--memory", "off", "--sample", "off",
           "-F", "gpu_agent:{train_step,launch}"]


def traced(tmp_path, scenario, *options, wrapper=(), **environment):
    file = tmp_path / "report.json"
    run = subprocess.run([PERFX, "run", "--as-root", *OPTIONS, *options, "-o", str(file), "--", *wrapper,
                          str(WORKLOADS / "gpu_agent"), scenario], capture_output=True, text=True,
                         timeout=60, env={**os.environ, **environment})
    assert run.returncode == 0, run.stderr
    assert "misused=0" in run.stdout
    report = json.loads(file.read_text())
    (process,) = [p for p in report["processes"] if p["comm"] == "gpu_agent"][-1:]
    return report, process, run


def rows(process, table, key="name"):
    return {row[key]: row for row in process["gpu"][table]}


def test_what_the_device_did_is_in_the_report(tmp_path):
    report, process, _ = traced(tmp_path, "records")
    gpu = process["gpu"]
    assert gpu["level"] == 1
    assert gpu["agent"]["state"] == "stopped"
    assert gpu["agent"]["left_mapped_bytes"] == 0
    kernels = rows(process, "kernels")
    gemm = kernels["gemm"]
    assert (gemm["calls"], gemm["total_ns"], gemm["avg_ns"]) == (3, 3000, 1000)
    assert gemm["grid"] == [8, 4, 2] and gemm["block"] == [128, 2, 1]
    assert gemm["registers"] == 40 and gemm["shared_bytes"] == 1024 + 2048
    assert gemm["stream"] == 7
    assert gemm["function"] == "launch"
    assert (kernels["reduce"]["calls"], kernels["reduce"]["total_ns"]) == (3, 1500)
    copies = {(c["direction"], c["pinned"] if "pinned" in c else None): c for c in gpu["copies"]
              if c["direction"] in ("host_to_device", "device_to_host")}
    pinned = copies["host_to_device", True]
    assert (pinned["calls"], pinned["bytes"], pinned["total_ns"]) == (2, 8192, 400)
    pageable = copies["device_to_host", False]
    assert (pageable["calls"], pageable["bytes"], pageable["total_ns"]) == (1, 1000, 200)
    assert rows(process, "syncs")["cudaStreamSynchronize"]["calls"] == 1
    # the agent's own waits are omitted
    assert {b["tid"] for b in process["blocked"]} == {process["pid"]}
    assert gpu["drops"] == 1 and report["losses"]["gpu_records"] == 1  # except the one without times
    # GPU time belongs to the calling function
    (launch,) = [f for f in process["functions"] if f["name"] == "launch"]
    assert launch["calls"] == 6
    assert launch["gpu_ns"] == 4500


def test_devices_are_those_of_the_driver(tmp_path):
    """CUDA_VISIBLE_DEVICES=1: the program's device 0 is the machine's GPU 1."""
    script = tmp_path / "nvml"
    script.write_text("nvmlInit 0 ok\nnvmlDeviceGetCount 0 2\n"
                      "nvmlDeviceGetUUID 0 GPU-00000000-0000-0000-0000-000000000000\n"
                      "nvmlDeviceGetUUID 1 GPU-01010101-0101-0101-0101-010101010101\n"
                      "nvmlDeviceGetName 0 NVIDIA A2\n"
                      "nvmlDeviceGetName 1 NVIDIA H100 80GB HBM3\n")
    _, process, _ = traced(tmp_path, "records", "--gpu-devices", "0,1", STUB_DEVICES="1",
                           NVML_STUB=str(script), LD_LIBRARY_PATH=str(WORKLOADS / "nvml"))
    (device,) = process["gpu"]["devices"]
    assert (device["index"], device["name"]) == (1, "NVIDIA H100 80GB HBM3")
    assert device["uuid"] == "GPU-01010101-0101-0101-0101-010101010101"


def test_beyond_the_limit_sums_are_exact(tmp_path):
    _, process, run = traced(tmp_path, "threads", "--gpu-max-events", "100")
    assert "more than 100 GPU events" in run.stderr
    kernels = rows(process, "kernels")
    assert sorted(kernels) == ["first", "second"] and len(process["gpu"]["kernels"]) == 2
    for kernel in kernels.values():
        assert (kernel["calls"], kernel["total_ns"]) == (1000, 10000)
        assert kernel["grid"] == [8, 4, 2] and kernel["block"] == [128, 2, 1] and kernel["stream"] == 7
        assert kernel["shared_bytes"] == 1024 + 2048 and kernel["registers"] == 40
    assert process["gpu"]["drops"] == 0


def test_it_steps_aside_for_the_programs_own_profiler(tmp_path):
    _, process, run = traced(tmp_path, "profiles")
    assert "its own profiler has begun" in run.stderr
    assert "profiler 0" in run.stdout  # CUPTI was not in use by others
    assert process["gpu"]["agent"]["state"] == "stepped_aside"
    assert rows(process, "kernels")["before"]["calls"] == 1


def test_where_it_refuses_the_report_says_why(tmp_path):
    _, process, run = traced(tmp_path, "waits", STUB_CUPTI_OTHER="Kineto")
    assert "another profiler uses CUPTI: CUPTI for Kineto" in run.stderr
    assert process["gpu"]["agent"]["state"] == "refused"
    assert "Kineto" in process["gpu"]["agent"]["what"]


def test_an_injected_library_of_the_users_stays(tmp_path):
    _, process, run = traced(tmp_path, "waits", CUDA_INJECTION64_PATH="/nonexistent/tool.so")
    assert "CUDA_INJECTION64_PATH is already set to /nonexistent/tool.so" in run.stderr
    assert process.get("gpu", {}).get("agent") is None


def test_a_program_without_cuda_is_as_before(tmp_path):
    _, process, run = traced(tmp_path, "no-init")
    assert not [line for line in run.stderr.splitlines() if "GPU" in line]
    assert process.get("gpu", {}).get("agent") is None


def test_attached_it_is_put_into_the_running_program(program, tracer):
    process = program(WORKLOADS / "gpu_agent", "attached")
    trace = tracer(process.pid, *OPTIONS)
    process.go()
    process.finish()
    report = trace.stop()
    (traced_process,) = report["processes"]
    kernels = rows(traced_process, "kernels")
    assert (kernels["gemm"]["calls"], kernels["gemm"]["total_ns"]) == (5, 5000)
    assert kernels["gemm"]["function"] == "launch"
    (launch,) = functions(report, "launch")
    assert launch["gpu_ns"] == 7500


def test_attached_to_a_program_without_cuda_it_says_so(program, tracer):
    process = program(WORKLOADS / "calls")
    trace = tracer(process.pid, "--gpu", "1", "--no-calibrate", "--memory", "off")
    assert [line for line in trace.lines if "no traced process uses CUDA" in line]
    process.finish()
    report = trace.stop()
    assert "gpu" not in report["processes"][0]


@pytest.mark.parametrize("level", ["1", "2"])
def test_level_2_has_the_nodes_of_graphs(tmp_path, level):
    """Ranges of NVTX have their device time, by the launches inside them."""
    _, process, _ = traced(tmp_path, "graphs", "--gpu", level)
    kernels = {name: (row["op"], row["calls"], row["total_ns"]) for name, row in rows(process, "kernels").items()}
    if level == "1":
        assert kernels == {"": ("graph", 4, 1200)}
    else:
        assert kernels == {"first node": ("kernel", 4, 400), "second node": ("kernel", 4, 800)}
    (replay,) = [f for f in process["functions"] if f["name"] == "replay"]
    assert (replay["kind"], replay["source"], replay["calls"], replay["gpu_ns"]) == ("range", "nvtx", 4, 1200)
    assert process["gpu"]["level"] == int(level)
    assert process["gpu"]["activities_without_caller"] == 0


def test_workers_that_are_forked_later_are_as_without(program, tracer):
    """As a DataLoader's: they work and exit; the parent's records are complete, and the workers have
    none."""
    process = program(WORKLOADS / "gpu_agent", "workers")
    trace = tracer(process.pid, *OPTIONS)
    process.go()
    expected = process.finish()
    assert expected["workers", "good"] == 2
    report = trace.stop()
    (parent,) = [p for p in report["processes"] if p["pid"] == process.pid]
    assert [p for p in report["processes"] if p.get("gpu", {}).get("agent")] == [parent]
    kernels = {name: (row["calls"], row["total_ns"]) for name, row in rows(parent, "kernels").items()}
    assert kernels == {"gemm": (5, 5000), "reduce": (5, 2500)}
    assert parent["gpu"]["drops"] == 0 and report["losses"]["gpu_records"] == 0


def test_a_worker_that_outlives_its_parent_holds_nothing_up(program, tracer):
    """It has the other end of the agent's socket, and never sends anything."""
    process = program(WORKLOADS / "gpu_agent", "orphans")
    trace = tracer(process.pid, *OPTIONS)
    process.say("go")
    process.process.wait(20)
    began = time.monotonic()
    report = trace.stop(expect=3)
    assert time.monotonic() - began < 4
    assert report["capture"]["partial_reasons"] == ["target_killed"]
    (parent,) = [p for p in report["processes"] if p["pid"] == process.pid]
    assert (parent["gpu"]["agent"]["state"], parent["gpu"]["agent"]["what"]) == ("stopped", "the process has ended")
    assert rows(parent, "kernels")["gemm"]["calls"] == 1


FLOODER = """
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
print("ready", flush=True)
kept, count = [], 0
while True:
    for line in open("/proc/net/unix"):
        name = line.rsplit(" ", 1)[-1].strip()
        if not name.startswith("@perfx-gpu-"):
            continue
        for _ in range(500):
            try:
                one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                one.connect(chr(0) + name[1:])
                kept = kept[-100:] + [one]
                count += 1
            except OSError:
                pass
            if count == 1100:  # more than AGENTS_MAX
                open(sys.argv[1], "w").close()
"""


@pytest.mark.alone  # it floods the sockets of all tracers
def test_another_users_connections_take_no_place(tmp_path):
    """An untraced process finds the socket and connects as often as it can."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        enough = f"{folder}/enough"
        flooder = subprocess.Popen(["/usr/bin/python3", "-c", FLOODER, enough], stdout=subprocess.PIPE, text=True)
        try:
            assert flooder.stdout.readline() == "ready\n"
            report, process, run = traced(tmp_path, "records", wrapper=(
                "sh", "-c", f'until [ -e {enough} ]; do sleep 0.1; done; exec "$0" "$@"'))
        finally:
            flooder.kill()
            flooder.wait()
    assert process["gpu"]["agent"]["state"] == "stopped"
    assert rows(process, "kernels")["gemm"]["calls"] == 3
    assert report["losses"]["gpu_records"] == 1  # except the one without times
    refused = f"pid {flooder.pid}: its connection to the GPU agents' socket is refused: the process is not traced"
    named = [line for line in run.stderr.splitlines() if refused in line]
    assert 0 < len(named) <= 10, run.stderr
    assert "connections to the GPU agents' socket were refused in all" in run.stderr
