#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A Python program with a fake GPU (gpu/): it prints "ready PID", and "agent records" when the agent
records, until its standard input is closed. With `garbage` the collector runs from time to time, with
`quiet` never."""
import ctypes
import os
import select
import sys
import time

cuda = ctypes.CDLL("/gpu/libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
cupti = ctypes.CDLL("/gpu/libcupti.so.13", mode=ctypes.RTLD_GLOBAL)
assert cuda.cuInit(0) == 0
stop = select.poll()
stop.register(sys.stdin, select.POLLHUP)
print("ready", os.getpid(), flush=True)
seen, kept = False, []
while not stop.poll(0):
    if sys.argv[1] == "garbage":
        kept.append([1])
        if len(kept) > 4000:
            kept.clear()
    time.sleep(0.0001)
    if not seen and cupti.stub_enabled(10):
        seen = True
        print("agent records", flush=True)
