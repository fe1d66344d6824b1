#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Ranks of a job (gloo) that all wait in a collective for one that does something else:
`stuck_ranks.py COUNT ODD sleep|read PATH|throw|barrier`. One that throws is kept by a thread that is left. The parent
prints "ready PID" and the pids of the ranks when they are about to meet; all end when its standard input is closed."""
import os
import subprocess
import sys
import threading
import time

import gate


def parent(count):
    ranks = []
    for rank in range(count):
        environment = os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
                                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ.get("MASTER_PORT", "29531"),
                                    "OMP_NUM_THREADS": "1"}
        ranks.append(subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--worker"], env=environment,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                      text=True))
    try:
        for rank in ranks:
            assert rank.stdout.readline().startswith("warm")
        gate.say(f"ready {os.getpid()} {' '.join(str(rank.pid) for rank in ranks)}")
        sys.stdin.read()
    finally:
        for rank in ranks:
            rank.kill()


def sleep_elsewhere():
    time.sleep(600)


def read_elsewhere(path):
    with open(path, "rb") as file:
        file.read(1)


def worker(how):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    ones = torch.ones(8)
    dist.all_reduce(ones)
    print("warm", flush=True)
    if dist.get_rank() == int(sys.argv[2]):
        if how == "sleep":
            sleep_elsewhere()
        elif how == "read":
            read_elsewhere(sys.argv[4])
        elif how == "throw":
            threading.Thread(target=sleep_elsewhere).start()
            raise ValueError("a bad sample")
        elif how == "barrier":
            dist.barrier()
    dist.all_reduce(ones)


if __name__ == "__main__":
    if sys.argv[-1] == "--worker":
        worker(sys.argv[3])
    else:
        parent(int(sys.argv[1]))
