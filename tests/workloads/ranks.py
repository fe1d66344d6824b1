#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A data-parallel training of a small model by several processes (gloo): `ranks.py COUNT [--straggler RANK]`. The parent
prints "ready PID" when all are warm, and they train until its standard input is closed; then each rank prints as a line
of JSON what it has measured itself: its steps, their average time, and how long it prepared data. The straggler prepares
its data in Python, value by value."""
import argparse
import json
import os
import subprocess
import sys
import time

import gate

BATCH = 16
SIDE = 28
PASSES = 6
WARM = 5
PORT = "29517"


def parent(args):
    ranks = []
    for rank in range(args.count):
        environment = os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(args.count),
                                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": PORT, "OMP_NUM_THREADS": "1"}
        ranks.append(subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--worker"], env=environment,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for rank in ranks:
        assert rank.stdout.readline().startswith("warm")
    gate.say(f"ready {os.getpid()}")
    sys.stdin.read()
    ranks[0].stdin.close()
    for rank in ranks:
        gate.say(rank.stdout.read().strip())
        rank.wait()


def prepare(straggles, torch):
    """The same for each rank, but for how."""
    if straggles:
        values = []
        for _ in range(PASSES):
            values = [(value % 255) / 255 for value in range(BATCH * SIDE * SIDE)]
        return torch.tensor(values).view(BATCH, 1, SIDE, SIDE)
    return (torch.arange(BATCH * SIDE * SIDE) % 255 / 255).view(BATCH, 1, SIDE, SIDE)


def worker(args):
    import select

    import torch
    import torch.distributed as dist
    from torch import nn

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(16 * 196, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    labels = torch.randint(10, (BATCH,))
    steps, data_ns, begun = 0, 0, 0
    stop = select.poll()
    stop.register(sys.stdin, select.POLLHUP)
    ended = torch.zeros(1)
    while not ended.item():
        if steps == WARM:
            data_ns, begun = 0, time.perf_counter_ns()
            print("warm", flush=True)
        before = time.perf_counter_ns()
        batch = prepare(rank == args.straggler, torch)
        data_ns += time.perf_counter_ns() - before
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()
        steps += 1
        # rank 0 knows when it is over, and the others learn of it now and then
        if steps % 10 == 0:
            ended.fill_(float(rank == 0 and bool(stop.poll(0))))
            dist.broadcast(ended, 0)
    count = steps - WARM
    print(json.dumps({"rank": rank, "steps": count, "step_ns": (time.perf_counter_ns() - begun) // count,
                      "data_ns": data_ns // count}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--straggler", type=int, default=-1)
    parser.add_argument("--worker", action="store_true")
    args = parser.parse_args()
    if args.worker:
        worker(args)
    else:
        parent(args)


if __name__ == "__main__":
    main()
