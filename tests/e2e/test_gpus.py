# SPDX-License-Identifier: BSD-2-Clause
"""GPUs as NVIDIA's management library describes them: a stub answers by a script
(tests/workloads/lib/libnvidia-ml.c). Power is in mW, so energy is known from time."""
import os
import shutil
import subprocess

import pytest

from conftest import PERFX, WORKLOADS, Tracer, run, wait_for

TWO_GPUS = """
nvmlInit 0 ok
nvmlSystemGetDriverVersion 0 580.65.06
nvmlDeviceGetCount 0 2
nvmlDeviceGetName 0 NVIDIA H100 80GB HBM3
nvmlDeviceGetName 1 NVIDIA H100 80GB HBM3
nvmlDeviceGetMemoryInfo 0 85520809984 3221225472
nvmlDeviceGetUtilizationRates 0 87 41
nvmlDeviceGetPowerUsage 0 250000
nvmlDeviceGetTotalEnergyConsumption 0 5000+250000
nvmlDeviceGetTotalEnergyConsumption 1 7000+990000
"""
SECONDS = 1


class Stub:
    """The stub library; its answers may change while it is in use."""

    def __init__(self, path):
        self.path = path
        self.environment = {**os.environ, "NVML_STUB": str(path),
                            "LD_LIBRARY_PATH": str(WORKLOADS / "nvml")}

    def say(self, *lines):
        new = self.path.with_suffix(".new")
        new.write_text(TWO_GPUS + "\n".join(lines) + "\n")
        new.rename(self.path)


@pytest.fixture
def stub(tmp_path):
    return Stub(tmp_path / "script")


@pytest.fixture
def idle(program):
    return program(WORKLOADS / "naps")


def trace(stub, pid, *options):
    tracer = Tracer(pid, "--interval", "100ms", *options, duration=str(SECONDS), env=stub.environment)
    return tracer.report(), "".join(tracer.lines)


def check_energy(energy_mj, watts):
    """Energy of one GPU, from the first sample to the last: only the first and last interval of the
    recording are missing. A busy machine ends later."""
    assert watts * 1e3 * (SECONDS - 0.2) < energy_mj < watts * 1e3 * (SECONDS + 1)


def process_of(report, pid):
    return next(p for p in report["processes"] if p["pid"] == pid)


def test_a_gpu_for_itself(stub, idle):
    """Its energy, and everything else that the driver says."""
    stub.say(f"nvmlDeviceGetComputeRunningProcesses 0 {idle.pid}:2147483648",
             "nvmlDeviceGetCurrentClocksEventReasons 0 4", "nvmlDeviceGetClockInfo.1 0 1755",
             "nvmlDeviceGetCudaComputeCapability 0 9 0", "nvmlDeviceGetNumGpuCores 0 16896",
             "nvmlGpmQueryDeviceSupport 0 1", "nvmlGpmMetricsGet 0 2:45.5 5:12")
    report, _ = trace(stub, idle.pid, "--carbon-intensity", "480")
    energy = report["energy"]
    check_energy(energy["gpu_mj"], 250)
    process = process_of(report, idle.pid)
    assert process["gpu_energy_mj"] == energy["gpu_mj"]
    assert process["gpu_energy_estimated"] is False
    joules = energy["gpu_mj"] / 1e3 + energy.get("host_uj", 0) / 1e6
    assert energy["carbon_g"] == pytest.approx(joules / 3.6e6 * 480)
    assert report["not_attached"] == []
    device, = process["gpu"]["devices"]
    known = {"index": 0, "name": "NVIDIA H100 80GB HBM3", "driver": "580.65.06",
             "memory_bytes": 85520809984, "multiprocessors": 132, "utilisation_percent": 87,
             "memory_utilisation_percent": 41, "power_mw_max": 250000, "sm_clock_mhz": 1755,
             # minus the driver's own MiB
             "memory_used_bytes": 3220176896, "process_memory_bytes": 2147483648,
             "sm_active_permille": 455, "tensor_active_permille": 120}
    assert {key: device.get(key) for key in known} == known
    assert len(device["throttle"]) == 1 and device["throttled_percent"] == 100
    assert device["energy_mj"] == energy["gpu_mj"]
    assert "temperature_c" not in device and "sm_occupancy_permille" not in device


def test_energy_of_a_shared_gpu(stub, idle):
    stub.say(f"nvmlDeviceGetComputeRunningProcesses 0 {idle.pid}:2147483648 1:4096",
             f"nvmlDeviceGetProcessUtilization 0 {idle.pid}:60 1:20")
    report, _ = trace(stub, idle.pid)
    check_energy(report["energy"]["gpu_mj"], 250)
    process = process_of(report, idle.pid)
    assert "throttle" not in process["gpu"]["devices"][0]  # unknown to the driver
    assert process["gpu_energy_estimated"] is True
    assert process["gpu_energy_mj"] == pytest.approx(report["energy"]["gpu_mj"] * 3 / 4, abs=1)


def test_gpus_that_no_traced_process_uses(stub, idle):
    stub.say("nvmlDeviceGetComputeRunningProcesses 0 1:4096")
    report, _ = trace(stub, idle.pid)
    assert "gpu_mj" not in report.get("energy", {})
    assert "gpu_energy_mj" not in process_of(report, idle.pid)


def test_no_gpus(stub, idle):
    stub.say(f"nvmlDeviceGetComputeRunningProcesses 0 {idle.pid}:2147483648")
    report, _ = trace(stub, idle.pid, "--gpu", "off")
    assert "gpu_mj" not in report.get("energy", {})


def test_gpus_by_choice(stub, idle):
    stub.say()
    report, _ = trace(stub, idle.pid, "--gpu-devices", "1")
    check_energy(report["energy"]["gpu_mj"], 990)
    assert "gpu_energy_mj" not in process_of(report, idle.pid)


def test_a_gpu_is_lost(stub, idle):
    used = f"nvmlDeviceGetComputeRunningProcesses 0 {idle.pid}:2147483648"
    stub.say(used)
    tracer = Tracer(idle.pid, "--interval", "50ms", env=stub.environment)
    stub.say(used, "nvmlDeviceGetPowerUsage 0 !15")
    assert tracer.reads("GPU 0 (NVIDIA H100 80GB HBM3) is lost")
    report = tracer.stop()
    assert [row["name"] for row in report["not_attached"]] == ["GPU 0"]


@pytest.mark.long
def test_a_driver_that_hangs(stub, idle):
    stub.say(f"nvmlDeviceGetComputeRunningProcesses 0 {idle.pid}:2147483648",
             "nvmlDeviceGetPowerUsage 0 hang")
    tracer = Tracer(idle.pid, "--gpu-devices", "0", env=stub.environment)
    assert tracer.reads("GPUs are not sampled: NVIDIA's library gives no answer")
    report = tracer.stop()
    assert "gpu_mj" not in report.get("energy", {})
    idle.go()


def test_without_a_driver(idle):
    tracer = Tracer(idle.pid, duration="1")
    report = tracer.report()
    assert "GPU" not in "".join(tracer.lines)
    assert "gpu_mj" not in report.get("energy", {})


def test_doctor(stub):
    """On a machine without a GPU nothing is reported as missing."""
    if not os.path.exists("/dev/nvidiactl"):
        lines = [l for l in run("doctor").stdout.splitlines() if "NVML" in l or l[8:13] == "CUPTI"]
        assert len(lines) == 2 and all(l.startswith("-       ") for l in lines), lines
    stub.say()
    assert "ok      samples of NVIDIA GPUs (NVML): driver 580.65.06, 2 GPUs\n" in run(
        "doctor", env=stub.environment).stdout
    stub.say("nvmlInit 0 !9")
    assert "missing samples of NVIDIA GPUs (NVML): NVIDIA's driver is not loaded: load it" in run(
        "doctor", env=stub.environment).stdout


# CUPTI in the toolkit's folder, in a separate mount namespace.
TOOLKIT = ('mount -t tmpfs none /usr/local && mkdir -p /usr/local/cuda/lib64 && '
           'cp "$0"/libcupti.so.13 /usr/local/cuda/lib64 && exec "$@"')


@pytest.mark.parametrize("environment, line", [
    ({}, "ok      CUPTI 13.0 (130001) (/usr/local/cuda/lib64/libcupti.so.13)\n"),
    ({"STUB_CUPTI_VERSION": "130000"}, "missing CUPTI 13.0 (130000) (/usr/local/cuda/lib64/libcupti.so.13): known to be bad: "
                                       "13.0 can deadlock"),
    ({"STUB_NO_DEVICE": "1", "STUB_CUPTI_CRASH": "1"}, "-       CUPTI (/usr/local/cuda/lib64/libcupti.so.13): there is no "
                                                       "NVIDIA GPU for it to trace\n"),
    ({"STUB_CUPTI_FAIL": "cuptiGetVersion:999"}, "missing CUPTI (/usr/local/cuda/lib64/libcupti.so.13): it crashes or gives "
                                                 "no answer\n")])
def test_doctor_says_what_cupti_there_is(environment, line, tmp_path):
    # PERFX may be anywhere except under the mount
    perfx = shutil.copy(PERFX, tmp_path)
    out = subprocess.run(["unshare", "--mount", "sh", "-c", TOOLKIT, WORKLOADS / "gpu", perfx, "doctor"],
                         env={**os.environ, "LD_PRELOAD": str(WORKLOADS / "gpu/libcuda.so.1"), **environment},
                         capture_output=True, text=True, check=True).stdout
    assert line in out


def test_doctor_names_other_profilers(tmp_path):
    assert "ok      free place for a profiler in CUPTI\n" in run("doctor").stdout
    library = tmp_path / "libToolsInjection64.so"
    subprocess.run(["cc", "-shared", "-o", library, "-x", "c", "/dev/null"], check=True)
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "LD_PRELOAD": str(library)}) as profiled:
        try:
            assert wait_for(lambda: "libToolsInjection64" in open(f"/proc/{profiled.pid}/maps").read())
            assert (f"missing free place for a profiler in CUPTI: Nsight Systems has it in pid {profiled.pid}: "
                    "--gpu 1 is refused there until that ends\n") in run("doctor").stdout
        finally:
            profiled.kill()
    assert ("missing free place for a profiler in CUPTI: CUDA_INJECTION64_PATH is /opt/x.so: unset it for --gpu 1\n"
            in run("doctor", env={**os.environ, "CUDA_INJECTION64_PATH": "/opt/x.so"}).stdout)


@pytest.mark.parametrize("devices", ["", "x", "64", "0,", "-1", "1,,2"])
def test_no_list_of_gpus(devices):
    result = run("-p", "1", "--gpu-devices", devices)
    assert result.returncode == 2
    assert result.stderr == f"perfx-trace: --gpu-devices '{devices}': not a list of GPUs: try 0 or 0,3\n"


@pytest.mark.parametrize("intensity", ["", "x", "0", "-5", "480g", "1e9"])
def test_no_carbon_intensity(intensity):
    result = run("report", PERFX, "--carbon-intensity", intensity)
    assert result.returncode == 2
    assert "not grams of CO2 per kWh: try 480" in result.stderr
