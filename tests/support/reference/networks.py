"""The networks that rollcall-train knows, by name: torchvision's, the one for small images that torchvision has not, and scripts."""
import unittest.mock

import torch
import torchvision
from torchvision.models.resnet import BasicBlock, ResNet


class SmallImages(ResNet):
    """He et al. 2015, section 4.2: 3 x 3 convolutions from the first on, three stages, of 16, 32 and 64 channels. Only methods of
    torchvision's class are used: its own layers would be drawn first."""

    def __init__(self, blocks, num_classes=1000, zero_init_residual=False):
        torch.nn.Module.__init__(self)
        self._norm_layer, self.inplanes, self.dilation, self.groups, self.base_width = torch.nn.BatchNorm2d, 16, 1, 1, 64
        self.conv1 = torch.nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        self.relu = torch.nn.ReLU(inplace=True)
        self.layer1, self.layer2, self.layer3 = (
            self._make_layer(BasicBlock, width, blocks, stride=1 if width == 16 else 2) for width in (16, 32, 64))
        self.avgpool = torch.nn.AdaptiveAvgPool2d((1, 1))
        self.fc = torch.nn.Linear(64, num_classes)
        self.initialise(zero_init_residual)

    def initialise(self, zero_init_residual):
        for module in self.modules():
            if isinstance(module, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, BasicBlock) and zero_init_residual:
                torch.nn.init.constant_(module.bn2.weight, 0)

    def _forward_impl(self, images):
        features = self.layer3(self.layer2(self.layer1(self.relu(self.bn1(self.conv1(images))))))
        return self.fc(torch.flatten(self.avgpool(features), 1))


def load(path):
    """One's own model, whose operators run as written: the profiling executor fuses some after the first runs, with other last bits."""
    torch._C._set_graph_executor_optimize(False)
    torch._C._jit_set_autocast_mode(False)
    return torch.jit.load(path)


def drop_path(branch, kept, rate):
    """timm's drop_path() (timm/layers/drop.py) with its Bernoulli numbers given."""
    return branch * kept.view(-1, 1, 1, 1).to(branch.dtype).div_(1 - rate)


def blocks_of(network):
    return [block for name, layer in network.named_children() if name.startswith("layer") for block in layer]


def drop(network, rates, kept):
    """What timm's ResNet with drop_path_rate and drop_rate does in its next forward in training: `kept`, [images, columns], has a
    column a block, then one a feature. Returns what takes it back."""
    blocks = blocks_of(network)
    hooks = []
    if rates["blocks"]:
        for number, block in enumerate(blocks):
            rate = rates["blocks"] * number / (len(blocks) - 1)  # timm's make_blocks(): "stochastic depth linear decay rule"
            last = block.bn2 if isinstance(block, BasicBlock) else block.bn3
            if rate > 0:
                hooks.append(last.register_forward_hook(lambda _m, _i, out, n=number, r=rate: drop_path(out, kept[:, n], r)))
    if rates["features"]:
        of_features = kept[:, -network.fc.in_features:]
        hooks.append(network.fc.register_forward_pre_hook(
            lambda _m, inputs: (inputs[0] * of_features.to(inputs[0].dtype).div_(1 - rates["features"]),)))
    return lambda: [hook.remove() for hook in hooks]


def built(name, **options):
    if name.endswith(".pt"):
        return load(name)
    return SmallImages(3, **options) if name == "resnet20" else getattr(torchvision.models, name)(**options)


def make(name, init="torchvision", **options):
    kaiming_normal, mode = torch.nn.init.kaiming_normal_, "fan_in" if init == "fan-in" else "fan_out"
    with unittest.mock.patch.object(  # as LayerBuilder.conv() of NVIDIA's image_classification/models/common.py
            torch.nn.init, "kaiming_normal_", lambda weight, **_: kaiming_normal(weight, mode=mode, nonlinearity="relu")):
        network = built(name, **options)
    if init == "goyal":  # arXiv 1706.02677, section 5.1
        torch.nn.init.normal_(network.fc.weight, std=0.01)
        torch.nn.init.zeros_(network.fc.bias)
    return network
