"""usage: peer_async_save.py FOLDER IMAGE_SIZE BATCH_SIZE: one JSON line, the second asynchronous save of a training with
torch.distributed.checkpoint: what the call takes, and until when the files are durable while training goes on."""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torchvision.models import resnet50

folder, size, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("cpu:gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
torch.manual_seed(0)
model = resnet50().to(memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
images = torch.randn(batch, 3, size, size).contiguous(memory_format=torch.channels_last)
labels = torch.randint(1000, (batch,))


def step():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def save(name):
    writer = dcp.FileSystemWriter(os.path.join(folder, name), single_file_per_rank=True, sync_files=True, thread_count=1)
    begin = time.monotonic()
    done = dcp.async_save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, storage_writer=writer)
    stall = time.monotonic() - begin
    ended = []
    done.add_done_callback(lambda _: ended.append(time.monotonic()))
    while not ended:
        step()
    done.result()
    return {"stall_seconds": stall, "durable_seconds": ended[0] - begin}


step()
save("first")
print(json.dumps(save("second")))
dist.destroy_process_group()
