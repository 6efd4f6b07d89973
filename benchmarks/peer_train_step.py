"""The peer of train_step: the same training step in Python. DDP over Gloo where RANK is set. Prints one JSON line (rank 0)."""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torchvision.models import resnet50

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--warmup", type=int, default=2)
parser.add_argument("--script", help="a TorchScript file of 1000 classes instead of ResNet-50")
options = parser.parse_args()

torch.set_num_threads(options.threads)
torch.manual_seed(0)
distributed = "RANK" in os.environ
if distributed:
    dist.init_process_group("gloo")
world = dist.get_world_size() if distributed else 1

model = (torch.jit.load(options.script) if options.script else resnet50()).to(memory_format=torch.channels_last)
size = options.image_size
images = torch.randn(options.batch_size, 3, size, size).to(memory_format=torch.channels_last)
labels = torch.randint(0, 1000, (options.batch_size,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5)
if distributed:
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
loss_function = torch.nn.CrossEntropyLoss()

seconds = []
for _ in range(options.warmup + options.steps):
    began = time.monotonic()
    optimizer.zero_grad(set_to_none=True)
    loss_function(model(images), labels).backward()
    optimizer.step()
    seconds.append(time.monotonic() - began)

if not distributed or dist.get_rank() == 0:
    rate = world * options.batch_size / statistics.median(seconds[options.warmup:])
    print(json.dumps({"images_per_s": round(rate, 3), "world_size": world}))
if distributed:
    dist.destroy_process_group()
