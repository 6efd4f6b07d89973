"""A typical PyTorch script: everything comes from the environment."""

import regression
import regression_faults
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
network = torch.nn.parallel.DistributedDataParallel(regression.model())
optimizer = torch.optim.SGD(network.parameters(), lr=regression.RATE)
regression_faults.die_if_asked(rank)
inputs, targets = regression.points(rank, world_size)
for _ in range(regression.STEPS):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(network(inputs), targets).backward()
    optimizer.step()
regression.report(rank, world_size, network.module)
regression.leave()
