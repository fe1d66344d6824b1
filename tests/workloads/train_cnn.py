#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A PyTorch trainer as people write it: DataLoader workers, Adam, cross-entropy. The data is made
up, yet there is something to learn. PyTorch 1.13 and later. See gate.py for how a test drives it;
the gate also takes "profile N": N steps under torch.profiler, whose operator counts are printed as
one line of JSON, and "count N": N steps under torch.utils.flop_counter, whose total is printed."""

import argparse
import json
import signal
from collections import Counter

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import gate

CLASSES = 10
SIDE = 28


class Shapes(Dataset):
    """Each class is a fixed random picture; a sample is that picture moved, dimmed and with noise. Made
    once, so that workers keep up and the trainer limits the pace. There are no epochs: an endless
    sequence of the same samples."""

    COUNT = 8192

    def __init__(self, seed):
        generator = torch.Generator().manual_seed(seed)
        coarse = torch.rand(CLASSES, 1, 7, 7, generator=generator)
        pictures = nn.functional.interpolate(coarse, size=SIDE, mode="nearest")
        self.labels = torch.randint(CLASSES, (self.COUNT,), generator=generator)
        moves = torch.randint(-3, 4, (self.COUNT, 2), generator=generator).tolist()
        dims = 0.5 + torch.rand(self.COUNT, 1, 1, 1, generator=generator)
        noise = 0.5 * torch.randn(self.COUNT, 1, SIDE, SIDE, generator=generator)
        moved = [pictures[label].roll(move, (1, 2)) for label, move in zip(self.labels, moves)]
        self.images = torch.stack(moved) * dims + noise

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return self.images[index % self.COUNT], self.labels[index % self.COUNT]


class Rows(nn.Module):
    """A transformer that reads the picture row by row."""

    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Linear(SIDE, width)
        self.place = nn.Parameter(torch.randn(SIDE, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x.squeeze(1)) + self.place).mean(1))


def build(name):
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 256), nn.ReLU(),
                             nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, CLASSES))
    if name == "tiny":
        return nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 16), nn.ReLU(),
                             nn.Linear(16, CLASSES))
    if name == "transformer":
        return Rows()
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def keep_one(kept, size):
    kept.append(torch.empty(size, dtype=torch.uint8))


def ignore_signals(_):
    """Ctrl-C goes to the whole group: workers exit with the trainer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    gate.add_arguments(parser)
    parser.add_argument("--model", choices=("tiny", "mlp", "cnn", "transformer"), default="cnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch (0: as it likes)")
    parser.add_argument("--autocast", action="store_true", help="to bfloat16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--leak", type=int, default=0, metavar="BYTES",
                        help="keep a tensor of so many bytes from each step")
    parser.add_argument("--profile", type=int, default=0, metavar="N",
                        help="run N steps under torch.profiler, print operator counts, end")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    model = build(args.model)
    if args.compile:
        model = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    batches = iter(DataLoader(Shapes(args.seed), args.batch, num_workers=args.workers,
                              worker_init_fn=ignore_signals))

    kept = []

    def step():
        images, labels = next(batches)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.autocast):
            loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        if args.leak:
            keep_one(kept, args.leak)
        return loss.item()

    def profile(count):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            trainer.run(count)
        # not key_averages(): it leaves out an operator whose caller has the same name
        ops = Counter(event.name() for event in profiler.profiler.kineto_results.events()
                      if event.name().startswith("aten::"))
        gate.say(json.dumps({"steps": count, "ops": ops}, sort_keys=True))

    def count(steps):
        from torch.utils.flop_counter import FlopCounterMode
        with FlopCounterMode(display=False) as counter:
            trainer.run(steps)
        gate.say(str(counter.get_total_flops()))

    trainer = gate.Trainer(args, step, {"profile": profile, "count": count})
    # What the first steps do once (thread pools, oneDNN's kernels) is not part of a step.
    for _ in range(3):
        step()
    if args.profile:
        profile(args.profile)
    else:
        trainer.main()


if __name__ == "__main__":
    main()
