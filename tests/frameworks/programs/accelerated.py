"""An Accelerate script: Accelerator() finds ranks and rendezvous in the environment."""

import accelerate
import regression
import regression_faults
import torch

accelerator = accelerate.Accelerator()
rank, world_size = accelerator.process_index, accelerator.num_processes
raw = regression.model()
network, optimizer = accelerator.prepare(raw, torch.optim.SGD(raw.parameters(), lr=regression.RATE))
regression_faults.die_if_asked(rank)
inputs, targets = regression.points(rank, world_size)
for _ in range(regression.STEPS):
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.mse_loss(network(inputs), targets))
    optimizer.step()
regression.report(rank, world_size, accelerator.unwrap_model(network))
accelerator.end_training()
regression.leave()
