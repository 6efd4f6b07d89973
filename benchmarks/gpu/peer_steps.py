"""The peer of rollcall-train on a GPU: ResNet-50 trained by PyTorch in Python, as a fast recipe has it: channels-last, autocast, fused
SGD, cuDNN's choice by measurement, batches that are there already. It needs torch alone.

When it has done its first steps, compiling among them, it prints {"first_seconds": ...}; after --steps more
{"images_per_second": ...}.
"""
import argparse
import json
import time

import torch
from torch import nn

FIRST_STEPS = 12  # more than CUDA graphs and the choice of algorithms need


class Bottleneck(nn.Module):
    """1x1, 3x3 (with the stride), 1x1, and the input beside them (He et al. 2015, with the stride as torchvision has it)."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        beside = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + beside)


def resnet50(classes=1000):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class Training:
    def __init__(self, options):
        self.device = torch.device(options.device)
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
        model = resnet50().to(self.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5, fused=True)
        if options.mode != "eager":
            model = torch.compile(model, mode=None if options.mode == "compile" else options.mode)
        self.model, self.loss = model, nn.CrossEntropyLoss()
        size = options.image_size
        self.images = torch.randn(options.batch_size, 3, size, size, device=self.device).to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, 1000, (options.batch_size,), device=self.device)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self.loss(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()

    def steps(self, count):
        """Seconds, until the device has done them."""
        began = time.monotonic()
        for _ in range(count):
            self.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--mode", choices=("eager", "compile", "max-autotune"), default="eager")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--first-steps", type=int, default=FIRST_STEPS)
    parser.add_argument("--steps", type=int, default=0)
    options = parser.parse_args()
    training = Training(options)
    print(json.dumps({"first_seconds": training.steps(options.first_steps)}), flush=True)
    if options.steps:
        print(json.dumps({"images_per_second": options.steps * options.batch_size / training.steps(options.steps)}), flush=True)


if __name__ == "__main__":
    main()
