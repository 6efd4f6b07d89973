"""The training of the scripts in this folder: a linear regression on synthetic points."""

import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist

STEPS, BATCH, RATE = 5, 8, 0.1


def points(rank, world_size):
    """The share of `rank` in the global batch: (inputs, targets)."""
    torch.manual_seed(1)
    inputs = torch.randn(BATCH * world_size, 3)
    targets = inputs @ torch.tensor([[1.0], [2.0], [3.0]]) + 0.5
    return inputs.chunk(world_size)[rank], targets.chunk(world_size)[rank]


def model():
    torch.manual_seed(2)
    return torch.nn.Linear(3, 1)


def report(rank, world_size, trained):
    """Writes the final weights of this rank to FOLDER/RANK.json; FOLDER is the first argument of the script."""
    weights = [round(value, 5) for p in trained.parameters() for value in p.detach().flatten().tolist()]
    answer = {"rank": rank, "world_size": world_size, "weights": weights, "local_rank": int(os.environ["LOCAL_RANK"])}
    pathlib.Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(answer))


def leave():
    """Ends the process without Python's own clean-up.

    PyTorch 2.15's Gloo threads take the interpreter's lock when they let go of the last collective, and abort the process
    if that is while the interpreter ends: https://github.com/pytorch/pytorch/pull/179291
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    os._exit(0)
