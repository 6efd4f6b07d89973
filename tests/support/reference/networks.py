"""The networks that rollcall-train knows, by name: torchvision's, the one for small images that torchvision has not, and scripts."""
import unittest.mock

import torch
import torchvision
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet


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


class DeepStem(ResNet):
    """timm's resnet50d and the like (timm/models/resnet.py): stem_type="deep", stem_width=32, avg_down=True; with torchvision's blocks."""

    def __init__(self, block, layers, num_classes=1000, zero_init_residual=False, groups=1, width_per_group=64):
        torch.nn.Module.__init__(self)
        self._norm_layer, self.inplanes, self.dilation, self.groups, self.base_width = torch.nn.BatchNorm2d, 64, 1, groups, width_per_group
        convolution = lambda i, o, stride: torch.nn.Conv2d(i, o, 3, stride=stride, padding=1, bias=False)  # noqa: E731
        self.conv1 = torch.nn.Sequential(
            convolution(3, 32, 2), torch.nn.BatchNorm2d(32), torch.nn.ReLU(inplace=True), convolution(32, 32, 1), torch.nn.BatchNorm2d(32),
            torch.nn.ReLU(inplace=True), convolution(32, 64, 1))
        self.bn1, self.relu, self.maxpool = torch.nn.BatchNorm2d(64), torch.nn.ReLU(inplace=True), torch.nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2, self.layer3, self.layer4 = (
            self._make_layer(block, 64 << i, blocks, stride=1 if i == 0 else 2) for i, blocks in enumerate(layers))
        for shortcut in (block.downsample for layer in (self.layer1, self.layer2, self.layer3, self.layer4) for block in layer):
            if shortcut is not None:  # downsample_avg()
                stride, shortcut[0].stride = shortcut[0].stride[0], (1, 1)
                pool = torch.nn.Identity() if stride == 1 else torch.nn.AvgPool2d(2, stride, ceil_mode=True, count_include_pad=False)
                shortcut.insert(0, pool)
        self.avgpool, self.fc = torch.nn.AdaptiveAvgPool2d((1, 1)), torch.nn.Linear(512 * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, (BasicBlock, Bottleneck)) and zero_init_residual:
                torch.nn.init.constant_((module.bn2 if isinstance(module, BasicBlock) else module.bn3).weight, 0)


def blur_input(convolution, inputs):
    return (torch.nn.functional.conv2d(inputs[0], convolution.blur_filter.to(inputs[0].dtype), padding=1, groups=inputs[0].shape[1]),)


def apply_blurpool(network):
    """FFCV's rule: what has a stride and at least 16 input channels blurs its input, each channel by a 3 x 3 binomial filter."""
    binomial = torch.tensor([1.0, 2.0, 1.0]) / 4
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d) and module.stride[0] > 1 and module.in_channels >= 16:
            module.register_buffer("blur_filter", torch.outer(binomial, binomial).expand(module.in_channels, 1, 3, 3).clone())
            module.register_forward_pre_hook(blur_input)


DEEP = {"resnet18": (BasicBlock, (2, 2, 2, 2)), "resnet50": (Bottleneck, (3, 4, 6, 3))}


def built(name, stem="standard", **options):
    if name.endswith(".pt"):
        return load(name)
    if stem == "deep":
        return DeepStem(*DEEP[name], **options)
    return SmallImages(3, **options) if name == "resnet20" else getattr(torchvision.models, name)(**options)


def make(name, init="torchvision", blurpool=False, **options):
    kaiming_normal, mode = torch.nn.init.kaiming_normal_, "fan_in" if init == "fan-in" else "fan_out"
    with unittest.mock.patch.object(  # as LayerBuilder.conv() of NVIDIA's image_classification/models/common.py
            torch.nn.init, "kaiming_normal_", lambda weight, **_: kaiming_normal(weight, mode=mode, nonlinearity="relu")):
        network = built(name, **options)
    if init == "goyal":  # arXiv 1706.02677, section 5.1
        torch.nn.init.normal_(network.fc.weight, std=0.01)
        torch.nn.init.zeros_(network.fc.bias)
    if blurpool:
        apply_blurpool(network)
    return network
