"""The smallest distributed program: every rank adds 1. It reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from its environment."""
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")  # on GPUs: "nccl"
total = torch.ones(1)
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {os.uname().nodename}: the sum is {total.item():.0f}", flush=True)
dist.destroy_process_group()
