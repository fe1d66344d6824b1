# SPDX-License-Identifier: BSD-2-Clause
"""Run time of a tracer's BPF programs, by the kernel's own count (BPF_ENABLE_STATS), while an object of
this class is open."""

import ctypes
import json
import os
import re
import subprocess

import tracers

SYS_BPF = {"x86_64": 321, "aarch64": 280}
BPF_ENABLE_STATS = 32


class BpfStats:
    def __enter__(self):
        attributes = ctypes.create_string_buffer(128)  # of them the first word: BPF_STATS_RUN_TIME
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.syscall(SYS_BPF[os.uname().machine], BPF_ENABLE_STATS, attributes, 128)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "BPF_ENABLE_STATS")
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def programs(self, pid):
        """{name: (runs, ns)} of the programs that a process holds."""
        found = {}
        for fd in os.listdir(f"/proc/{pid}/fdinfo"):
            try:
                with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
                    values = dict(re.findall(r"^(\w+):\s*(\d+)$", file.read(), re.M))
            except OSError:
                continue
            if "run_time_ns" in values:
                name = name_of(values["prog_id"])
                found[name] = (int(values["run_cnt"]), int(values["run_time_ns"]))
        return found


def name_of(program_id):
    shown = subprocess.run([tracers.find("bpftool"), "-j", "prog", "show", "id", program_id],
                           capture_output=True, text=True)
    return json.loads(shown.stdout).get("name", program_id) if not shown.returncode else program_id
