# SPDX-License-Identifier: BSD-2-Clause
"""Tokens from a small GPT-2 by Hugging Face's generate: a step, if there is one, is a token."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from truth import Truth

torch.set_num_threads(1)
model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=2000, n_positions=256)).eval()
prompt = torch.randint(0, 2000, (1, 16))


def answer():
    return model.generate(prompt, max_new_tokens=64, min_new_tokens=64, do_sample=True, pad_token_id=0)


answer()
truth = Truth()
model.register_forward_hook(lambda *_: truth.step())
while truth.going():
    answer()
truth.finish()
