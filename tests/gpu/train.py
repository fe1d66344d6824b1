# SPDX-License-Identifier: BSD-2-Clause
"""A transformer's training on the GPU: python3 train.py [--mode
healthy|graph|compile|workers|starved|launches|sync|pageable] [--seconds N]. It prints READY when it is
warm, and at its end TRUTH with its steps, FLOPs and memory. SIGUSR1: torch.profiler."""
import argparse
import json
import os
import signal
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="healthy")
parser.add_argument("--seconds", type=float, default=20)
options = parser.parse_args()
torch.manual_seed(0)
BIG = options.mode in ("healthy", "graph", "compile", "workers", "starved")
WIDTH, DEPTH, BATCH, LENGTH = (1024, 8, 16, 512) if BIG else (256, 6, 4, 64)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 8, WIDTH // 8).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Random(Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, at):
        if options.mode == "starved":
            time.sleep(0.004)
        return torch.randn(LENGTH, WIDTH)


model = nn.Sequential(*[Block() for _ in range(DEPTH)]).cuda().to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
fixed = torch.randn(BATCH, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16)
host = torch.randn(64, LENGTH, WIDTH)


def forward_backward(x):
    loss = model(x).float().pow(2).mean()
    loss.backward()
    return loss


def train_step(x):
    optimizer.zero_grad(set_to_none=True)
    loss = forward_backward(x)
    optimizer.step()
    if options.mode == "sync":
        for parameter in model.parameters():
            parameter.grad.abs().max().item()
    return loss


def batches():
    if options.mode in ("workers", "starved"):
        workers = 2 if options.mode == "workers" else 0
        for batch in DataLoader(Random(), batch_size=BATCH, num_workers=workers, pin_memory=options.mode == "workers"):
            yield batch.cuda(non_blocking=True).to(torch.bfloat16)
    elif options.mode == "pageable":
        while True:
            yield host.cuda()[:BATCH].to(torch.bfloat16)
    else:
        while True:
            yield fixed


run = train_step
if options.mode == "compile":
    model = torch.compile(model)
if options.mode == "graph":
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            forward_backward(fixed)
    torch.cuda.synchronize()
    optimizer.zero_grad(set_to_none=True)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        graph_loss = forward_backward(fixed)

    def run(x):
        recorded.replay()
        optimizer.step()
        return graph_loss

source = iter(batches())
for _ in range(5):
    run(next(source))
torch.cuda.synchronize()
profile_wanted = []
signal.signal(signal.SIGUSR1, lambda *_: profile_wanted.append(1))
print(f"READY {os.getpid()}", flush=True)
until, ends, losses, profiled = time.time() + options.seconds, [], [], None
while time.time() < until:
    if profile_wanted:
        profile_wanted.clear()
        from torch.profiler import ProfilerActivity, profile
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
            for _ in range(5):
                run(next(source))
            torch.cuda.synchronize()
        profiled = sum(e.count for e in profiler.key_averages() if e.device_type == torch.autograd.DeviceType.CUDA)
    losses.append(run(next(source)).detach())
    if len(losses) >= 4:
        float(losses.pop(0))  # as trainers that log do: at most four steps ahead of the device
    ends.append(time.time_ns())
torch.cuda.synchronize()
flops = None
if options.mode not in ("graph", "compile"):
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as counter:
        run(next(source))
    flops = counter.get_total_flops()
stats = torch.cuda.memory_stats()
print("TRUTH", json.dumps({"ends_ns": ends, "flops": flops, "profiled": profiled,
                           "allocated": stats["allocated_bytes.all.current"], "reserved": stats["reserved_bytes.all.current"],
                           "allocated_peak": stats["allocated_bytes.all.peak"]}), flush=True)
