# SPDX-License-Identifier: BSD-2-Clause
"""The same model by Hugging Face's Trainer."""
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from truth import Truth

torch.set_num_threads(1)
torch.manual_seed(0)


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        ids = torch.randint(0, 2000, (64,), generator=generator)
        return {"input_ids": ids, "labels": ids}


class Ends(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.global_step == 1:
            Ends.truth = Truth()
        else:
            Ends.truth.step()
        control.should_training_stop = not Ends.truth.going()


def main():
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=2000, n_positions=64))
    arguments = TrainingArguments(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, max_steps=1_000_000,
                                  report_to=[], save_strategy="no", logging_steps=10_000, use_cpu=True,
                                  disable_tqdm=True)
    Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[Ends()]).train()
    Ends.truth.finish()


main()
