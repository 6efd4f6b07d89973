"""The peer of parallel_step --fsdp=1: ResNet-50 under PyTorch's fully_shard, each bottleneck a unit, over Gloo. Images are
channels-last, and so is what is computed from them; weights are not, since fully_shard refuses such ones. Prints one JSON
line (rank 0)."""
import argparse
import json
import resource
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torchvision.models.resnet import Bottleneck, resnet50

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--warmup", type=int, default=2)
options = parser.parse_args()

torch.set_num_threads(options.threads)
torch.manual_seed(0)
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = resnet50()
for module in model.modules():
    if isinstance(module, Bottleneck):
        fully_shard(module, mesh=mesh)
fully_shard(model, mesh=mesh)
size = options.image_size
images = torch.randn(options.batch_size, 3, size, size).to(memory_format=torch.channels_last)
labels = torch.randint(0, 1000, (options.batch_size,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5)
loss_function = torch.nn.CrossEntropyLoss()

seconds = []
for _ in range(options.warmup + options.steps):
    began = time.monotonic()
    optimizer.zero_grad(set_to_none=True)
    loss_function(model(images), labels).backward()
    optimizer.step()
    seconds.append(time.monotonic() - began)

if dist.get_rank() == 0:
    taken = statistics.median(seconds[options.warmup:])
    print(json.dumps({"images_per_s": round(dist.get_world_size() * options.batch_size / taken, 3),
                      "ms_per_step": round(1000 * taken, 1),
                      "peak_resident_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)}))
dist.destroy_process_group()
