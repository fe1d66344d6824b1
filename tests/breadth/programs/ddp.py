# SPDX-License-Identifier: BSD-2-Clause
"""Two ranks of torchrun with gloo, one thread each."""
import datetime

import torch
import torch.distributed as dist
from truth import Truth, flops_of

torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
x = torch.randn(256, 256)
flops = flops_of(lambda: model(x).square().mean().backward())
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(parallel.parameters(), lr=1e-3)
going = torch.ones(1)
truth = Truth(flops)
while going.item():
    optimizer.zero_grad()
    parallel(x).square().mean().backward()
    optimizer.step()
    truth.step()
    if len(truth.ends_ns) % 50 == 0:
        going.fill_(float(truth.going()))
        dist.broadcast(going, 0)
if dist.get_rank() == 0:
    truth.finish()
