# SPDX-License-Identifier: BSD-2-Clause
"""A small GPT-2 of random weights, trained in a plain loop. Its attention is eager: the fused one leaves out what a causal
mask hides, which PyTorch's counter counts."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from truth import Truth, flops_of

torch.set_num_threads(1)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=2000, n_positions=128,
                                   attn_implementation="eager"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
tokens = torch.randint(0, 2000, (4, 128))


def train_step():
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


flops = flops_of(train_step)
truth = Truth(flops)
while truth.going():
    train_step()
    truth.step()
truth.finish()
