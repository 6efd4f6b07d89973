"""A Lightning program: a linear layer on random numbers, which takes nodes and tasks from Slurm."""
import os

import pytorch_lightning as pl
import torch


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def training_step(self, batch, _):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.layer(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


inputs = torch.randn(64, 3)
data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
trainer = pl.Trainer(accelerator="cpu", strategy="ddp", num_nodes=int(os.environ["SLURM_NNODES"]),
                     devices=int(os.environ["SLURM_NTASKS_PER_NODE"]), max_epochs=1, logger=False,
                     enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=8))
print(f"rank {trainer.global_rank} of {trainer.world_size}: {trainer.global_step} steps", flush=True)
