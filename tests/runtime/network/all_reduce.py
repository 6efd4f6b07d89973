"""all_reduce.py SECONDS: one all-reduce over Gloo, as any PyTorch program would; gives up after SECONDS."""

import datetime
import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=float(sys.argv[1])))
total = torch.ones(1)
dist.all_reduce(total)
print(f"rank {dist.get_rank()} sums up {int(total)}", flush=True)
dist.destroy_process_group()
os._exit(0)  # as regression.leave() of tests/frameworks/programs says
