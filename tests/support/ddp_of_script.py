"""Trains a TorchScript file with PyTorch's DistributedDataParallel, as a user would: one rank, told of the others by torchrun's variables.

The batches are the reference's. Rank 0 prints the loss of each step. ddp_of_script.py SETTINGS: JSON, by rollcall-train's names."""
import json
import sys

import torch
import torch.distributed
from reference import order, pictures
from reference.training import defaults_for, make_optimizer

settings = defaults_for(json.loads(sys.argv[1]))
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
data = pictures.open_data(settings)
model = torch.jit.load(settings["model"]).to(memory_format=torch.channels_last)
replica = torch.nn.parallel.DistributedDataParallel(model)
optimizer, rate = make_optimizer(settings, model, ranks)
per_epoch = order.steps_of_epoch(len(data.train), settings["batch-size"], ranks, 1, False)
for step in range(settings["max-steps"]):
    epoch, of_epoch = divmod(step, per_epoch)
    samples = order.epoch_order(len(data.train), settings["seed"], epoch)
    [of_ranks] = order.micro_batches(samples, of_epoch, settings["batch-size"], ranks, 1)
    images, labels = zip(*(data.training(index, epoch) for index, *_ in of_ranks[rank][1]))
    images = torch.stack(images).contiguous(memory_format=torch.channels_last)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(replica(images), torch.tensor(labels))
    loss.backward()
    optimizer.step()
    mean = loss.detach() / ranks
    torch.distributed.all_reduce(mean)
    if rank == 0:
        print(repr(mean.item()), flush=True)
