# SPDX-License-Identifier: BSD-2-Clause
"""Annotations of the Python package in known numbers; known.h has the protocol."""
import asyncio
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import perfx  # noqa: E402  pylint: disable=wrong-import-position

STEPS = 10
TASKS = 3


@perfx.track
def forward(batch):
    return sum(batch)


@perfx.track
def batches():
    for i in range(STEPS):
        yield range(i)


@perfx.track(name="fetch | `x`")
async def fetch():
    for _ in range(2):
        with perfx.scope("await"):
            await asyncio.sleep(0)


async def fetch_all():
    await asyncio.gather(*(fetch() for _ in range(TASKS)))


def scenario():
    perfx.mark("scenario")
    for batch in batches():
        with perfx.step(), perfx.scope("body"):
            perfx.counter("loss", forward(batch))
            perfx.counter_add("samples", len(batch))
            perfx.memory.alloc("arena", 4096, 64)
            perfx.memory.free("arena", 4096)
    asyncio.run(fetch_all())


runs = 0
print(f"ready {os.getpid()}", flush=True)
while sys.stdin.readline():
    scenario()
    runs += 1
    print("done", flush=True)
for name, key, value in (
        ("forward", "ranges", STEPS), ("body", "ranges", STEPS), ("batches", "ranges", STEPS + 1),
        ("pop", "pops", 3 * STEPS + 1),
        ("fetch | `x`", "started", TASKS), ("await", "started", 2 * TASKS), ("end", "ended", 3 * TASKS),
        ("scenario", "marks", 1), ("loss", "counts", STEPS), ("samples", "additions", STEPS),
        ("arena", "allocs", STEPS), ("arena", "frees", STEPS), ("step", "begins", STEPS),
        ("step", "ends", STEPS)):
    print("expect", name, key, value * runs)
