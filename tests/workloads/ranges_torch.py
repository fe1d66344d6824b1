# SPDX-License-Identifier: BSD-2-Clause
"""A stock loop of PyTorch: DataLoader, record_function, zero_grad, backward, step, and a range of
NVTX. At the gate, "ranges N" prints what torch.profiler sees of N steps' ranges: {"name": count}."""
import argparse
import collections
import json

import gate
import torch
from torch.profiler import ProfilerActivity, profile, record_function

BATCH = 16


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1000 * BATCH

    def __getitem__(self, index):
        return torch.full((64,), index / 1000), index % 10


def is_range(event):
    """Before 2.0 the profiler does not distinguish them from operators."""
    starts = ("forward", "clip", "Optimizer.", "enumerate(")
    return getattr(event, "is_user_annotation", event.name.startswith(starts))


def main():
    parser = argparse.ArgumentParser()
    gate.add_arguments(parser)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = iter(torch.utils.data.DataLoader(Numbers(), batch_size=BATCH,
                                               num_workers=args.workers))
    nvtx = getattr(getattr(torch._C, "_nvtx", None), "rangePushA", None)

    def step():
        inputs, labels = next(batches)
        if nvtx:
            torch._C._nvtx.rangePushA("whole step")
        with record_function("forward: Schritt №"):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        with record_function("clip"), record_function("clip inside"):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if nvtx:
            torch._C._nvtx.rangePop()
        return float(loss)

    def ranges(count):
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            for _ in range(count):
                step()
        found = collections.Counter(e.name for e in seen.events() if is_range(e))
        gate.say(json.dumps(found))

    step()
    gate.Trainer(args, step, {"ranges": ranges}).main()


main()
