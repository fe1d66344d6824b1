# SPDX-License-Identifier: BSD-2-Clause
"""Lightning passes a closure to Optimizer.step: forward and backward run inside it."""
import lightning
import torch
from truth import Truth, flops_of

torch.set_num_threads(1)
torch.manual_seed(0)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
        self.truth = None

    def training_step(self, batch, _):
        return self.layers(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)

    def on_train_batch_end(self, *_):
        if not self.truth:
            self.truth = Truth(self.flops)
            return
        self.truth.step()
        self.trainer.should_stop = not self.truth.going()


def main():
    net = Net()
    x = torch.randn(256, 256)
    net.flops = flops_of(lambda: net.layers(x).square().mean().backward())
    net.zero_grad()
    loader = torch.utils.data.DataLoader([(row,) for row in torch.randn(200_000, 256)], batch_size=256)
    lightning.Trainer(max_epochs=1000, accelerator="cpu", logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, min_steps=1, min_epochs=0).fit(net, loader)
    net.truth.finish()


main()
