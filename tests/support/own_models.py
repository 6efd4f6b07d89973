"""Models that a user may bring, as TorchScript files. Shared by tests of --model=FILE.pt."""
import warnings

import torch
from torch import nn


class Small(nn.Module):
    """Convolutions, batch norm, drop-out and a parameter of its own: what differs between training and validation, and between ranks."""

    def __init__(self, classes=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.scale = nn.Parameter(torch.ones(1, 16, 1, 1))
        self.body = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1, groups=4) for _ in range(2))
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(16, classes)

    def forward(self, images):
        features = self.stem(images) * self.scale
        for layer in self.body:
            features = features + torch.relu(layer(features))
        return self.head(self.drop(features.mean((2, 3))))


def save(model, path, scripted=torch.jit.script):
    """The file's path. TorchScript says with each use that it is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path.parent.mkdir(parents=True, exist_ok=True)
        scripted(model).save(path)
    return str(path)


def small(path, seed=3, **options):
    torch.manual_seed(seed)
    return save(Small(**options), path)
