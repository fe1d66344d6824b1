#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A data-parallel training of a small model by several processes (gloo): `ranks.py COUNT [--straggler RANK]`. The parent
prints "ready PID" when all are warm, and they train until its standard input is closed; then each rank prints as a line
of JSON what it has measured itself: when each step began (CLOCK_MONOTONIC), and how much of it was its own, not waiting
for others: it ran, or had no CPU. The straggler prepares its data in Python, value by value."""
import argparse
import json
import os
import subprocess
import sys
import time

import gate

BATCH = 16
SIDE = 28
WARM = 5
PORT = "29517"


def parent(args):
    ranks = []
    for rank in range(args.count):
        environment = os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(args.count),
                                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": PORT, "OMP_NUM_THREADS": "1"}
        ranks.append(subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--worker"], env=environment,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    try:
        for rank in ranks:
            assert rank.stdout.readline().startswith("warm")
        gate.say(f"ready {os.getpid()}")
        sys.stdin.read()
        ranks[0].stdin.close()
        for rank in ranks:
            gate.say(rank.stdout.read().strip())
            rank.wait()
    finally:
        for rank in ranks:
            rank.kill()  # one that has lost the others would compute for ever


def prepare(straggles, passes, torch):
    """The same data for each rank, prepared in different ways."""
    if straggles:
        values = []
        for _ in range(passes):
            values = [(value % 255) / 255 for value in range(BATCH * SIDE * SIDE)]
        return torch.tensor(values).view(BATCH, 1, SIDE, SIDE)
    return (torch.arange(BATCH * SIDE * SIDE) % 255 / 255).view(BATCH, 1, SIDE, SIDE)


class Average:
    """A communication hook of DistributedDataParallel that averages as DDP does without a hook, and
    times it: `wait_ns`."""

    def __init__(self, torch, world_size):
        self.torch, self.world_size = torch, world_size
        self.wait_ns = 0
        self.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def awaits_others_ns(self):
        """The time minus that in which this thread was runnable without a CPU."""
        return time.monotonic_ns() - int(os.pread(self.schedstat, 80, 0).split()[1])

    def hook(self, _, bucket):
        before = self.awaits_others_ns()
        gradients = bucket.buffer().div_(self.world_size)
        self.torch.distributed.all_reduce(gradients)
        self.wait_ns += self.awaits_others_ns() - before
        done = self.torch.futures.Future()
        done.set_result(gradients)
        return done


def worker(args):
    import select

    import torch
    import torch.distributed as dist
    from torch import nn

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Conv2d(1, args.channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(args.channels * 196, 10)))
    average = Average(torch, args.count)
    model.register_comm_hook(None, average.hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    labels = torch.randint(10, (BATCH,))
    begun_ns, own_ns = [], []
    stop = select.poll()
    stop.register(sys.stdin, select.POLLHUP)
    ended = torch.zeros(1)
    while not ended.item():
        if len(begun_ns) == WARM:
            print("warm", flush=True)
        begun_ns.append(time.monotonic_ns())
        average.wait_ns = 0
        batch = prepare(rank == args.straggler, args.passes, torch)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()
        own_ns.append(time.monotonic_ns() - begun_ns[-1] - average.wait_ns)
        # rank 0 knows when it is over, and the others learn of it now and then
        if len(begun_ns) % 10 == 0:
            ended.fill_(float(rank == 0 and bool(stop.poll(0))))
            dist.broadcast(ended, 0)
    print(json.dumps({"rank": rank, "begun_ns": begun_ns, "own_ns": own_ns}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--straggler", type=int, default=-1)
    parser.add_argument("--passes", type=int, default=12, help="how often the straggler prepares them (12)")
    parser.add_argument("--channels", type=int, default=16, help="of the convolution: how much there is to compute (16)")
    parser.add_argument("--worker", action="store_true")
    args = parser.parse_args()
    if args.worker:
        worker(args)
    else:
        parent(args)


if __name__ == "__main__":
    main()
