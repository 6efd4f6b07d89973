"""A training like that of PyTorch's torchrun tutorial: a snapshot after every epoch, from which it resumes after a restart.

FOLDER, its argument, holds the snapshot and the files that a test reads. In the middle of epoch HELD the last rank waits for the file
`go` there, so all others wait for its gradients.
"""

import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, HELD, POINTS, RATE, MOMENTUM = 10, 5, 32, 0.05, 0.9


def linear_data():
    """The data: (points, their linear targets)."""
    inputs = torch.randn(POINTS, 3, generator=torch.Generator().manual_seed(1))
    return TensorDataset(inputs, inputs @ torch.tensor([[1.0], [2.0], [3.0]]) + 0.5)


def initial_state():
    """The network before its first epoch, and its optimizer."""
    torch.manual_seed(2)
    network = torch.nn.Linear(3, 1)
    return network, torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM)


def weights(network):
    return [value for p in network.parameters() for value in p.detach().flatten().tolist()]


def undisturbed():
    """The weights after all epochs in one process. An epoch is one step with all points, so that the world's size changes nothing."""
    network, optimizer = initial_state()
    inputs, targets = linear_data().tensors
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(network(inputs), targets).backward()
        optimizer.step()
    return weights(network)


class Trainer:
    def __init__(self, folder):
        network, self.optimizer = initial_state()
        self.network = torch.nn.parallel.DistributedDataParallel(network)
        self.batches = DataLoader(linear_data(), batch_size=POINTS // dist.get_world_size(), sampler=DistributedSampler(linear_data()))
        self.folder, self.snapshot = folder, folder / "snapshot.pt"
        self.name = f"{os.environ['ROLLCALL_GENERATION']}.{dist.get_rank()}"
        self.epochs_run = 0
        if self.snapshot.exists():
            self.load_snapshot()

    def load_snapshot(self):
        saved = torch.load(self.snapshot)
        self.network.module.load_state_dict(saved["network"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.epochs_run = saved["epochs_run"]

    def save_snapshot(self):
        part = self.snapshot.with_suffix(".part")
        torch.save({"network": self.network.module.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "epochs_run": self.epochs_run}, part)
        part.rename(self.snapshot)

    def hold(self):
        """Tells the test that this rank is in the middle of an epoch, and its pid."""
        part = self.folder / f"{self.name}.part"
        part.write_text(str(os.getpid()))
        part.rename(self.folder / f"{self.name}.held")
        while dist.get_rank() == dist.get_world_size() - 1 and not (self.folder / "go").exists():
            time.sleep(0.01)

    def run_epoch(self, epoch):
        self.batches.sampler.set_epoch(epoch)
        for inputs, targets in self.batches:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(self.network(inputs), targets)
            if epoch == HELD:
                self.hold()
            loss.backward()
            self.optimizer.step()

    def train(self):
        for epoch in range(self.epochs_run, EPOCHS):
            self.run_epoch(epoch)
            self.epochs_run = epoch + 1
            with (self.folder / f"{self.name}.epochs").open("a") as file:
                file.write(f"{epoch}\n")
            if dist.get_rank() == 0:
                self.save_snapshot()


def main():
    dist.init_process_group("gloo")
    folder = pathlib.Path(sys.argv[1])
    trainer = Trainer(folder)
    trainer.train()
    answer = {"rank": dist.get_rank(), "world_size": dist.get_world_size(), "node": int(os.environ["GROUP_RANK"]),
              "local_rank": int(os.environ["LOCAL_RANK"]), "weights": weights(trainer.network)}
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(answer))
    dist.destroy_process_group()
    os._exit(0)  # as leave() in tests/frameworks/programs/regression.py says


if __name__ == "__main__":
    main()
