#!/usr/bin/env python3
"""What the convolutions and batch norms of a ResNet-50 read, write and compute in a forward pass; see docs/developer/gpu_predictions.md.

usage: benchmarks/gpu/convolutions.py [--batch=256] [--json | --shapes]

Three ways, of which the last two are cuDNN's graphs (cudnn_graph.cpp):
  basic       each convolution; its statistics in a pass; normalisation, addition and ReLU in a pass
  statistics  convolutions sum their own output up
  prologue    in addition, what follows a convolution that has no addition normalises its input as it reads it
Prints a line for each kind of convolution, of all that there are of it, then sums; times are predictions. --json: the same in lines
of JSON. --shapes: what cudnn_graph reads, a line for each different shape.
"""
import argparse
import json
import sys
import typing

BYTES = 2  # of an element, bfloat16 or float16
# TB/s and TFLOP/s that an H100 is assumed to reach: the most, the least.
MEMORY, ARITHMETIC = (2.9, 2.7), (640, 480)
WAYS = ("basic", "statistics", "prologue")


class Kind(typing.NamedTuple):
    """Convolutions of one shape and role; `side`: of the input image. `prologue`: what it reads was normalised and went through a ReLU,
    and nobody else reads it. `after`: what follows its batch norm."""
    name: str
    count: int
    inputs: int
    outputs: int
    side: int
    kernel: int
    stride: int
    after: str
    prologue: bool

    @property
    def read(self):
        """Elements per image. A 1x1 with a stride skips pixels."""
        return self.inputs * (self.side // (self.stride if self.kernel == 1 else 1)) ** 2

    @property
    def written(self):
        return self.outputs * (self.side // self.stride) ** 2

    @property
    def weights(self):
        return self.outputs * self.inputs * self.kernel ** 2

    @property
    def multiplications(self):
        """Of an image."""
        return self.weights * (self.side // self.stride) ** 2

    @property
    def shape(self):
        return self.inputs, self.outputs, self.side, self.kernel, self.stride


def resnet50():
    """53 convolutions (He et al. 2015, with the stride in the 3x3); each has a batch norm."""
    kinds, inputs, side = [Kind("stem", 1, 3, 64, 224, 7, 2, "relu, pool", False)], 64, 56
    for stage, (width, blocks, stride) in enumerate(((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)), 1):
        small, outputs = side // stride, 4 * width
        same = [Kind(f"{stage}: 3x3", blocks if stride == 1 else blocks - 1, width, width, small, 3, 1, "relu", True)]
        kinds += [Kind(f"{stage}: first 1x1", 1, inputs, width, side, 1, 1, "relu", False),
                  Kind(f"{stage}: next 1x1", blocks - 1, outputs, width, small, 1, 1, "relu", False),
                  *([Kind(f"{stage}: first 3x3", 1, width, width, side, 3, stride, "relu", True)] if stride > 1 else []), *same,
                  Kind(f"{stage}: last 1x1", blocks, width, outputs, small, 1, 1, "add, relu", True),
                  Kind(f"{stage}: shortcut", 1, inputs, outputs, side, 1, stride, "", False)]
        inputs, side = outputs, small
    return kinds


class Traffic(typing.NamedTuple):
    """Of all convolutions of a kind, in a forward pass: GB, TFLOP, and ms at least and at most."""
    read: float
    written: float
    computed: float
    ms: tuple


def traffic(kind, batch, way):
    """The convolution takes the longer of its memory's time and its arithmetic's; passes over its output take memory's."""
    images = batch * kind.count
    weights = kind.count * kind.weights
    passes = {"statistics": (1, 0), "normalisation": (2 if "add" in kind.after else 1, 1)}
    if way != "basic":
        del passes["statistics"]
    if way == "prologue" and kind.after == "relu":
        del passes["normalisation"]
    gigabytes = [BYTES * elements / 1e9 for elements in (images * kind.read + weights, images * kind.written)]
    more = [BYTES * images * kind.written * sum(counts) / 1e9 for counts in (list(zip(*passes.values())) or [(0,), (0,)])]
    computed = 2 * images * kind.multiplications / 1e12
    ms = tuple(max(sum(gigabytes) / memory, 1000 * computed / arithmetic) + sum(more) / memory for memory, arithmetic in zip(MEMORY, ARITHMETIC))
    return Traffic(gigabytes[0] + more[0], gigabytes[1] + more[1], computed, ms)


def total(several):
    read, written, computed, ms = zip(*several)
    return Traffic(sum(read), sum(written), sum(computed), tuple(map(sum, zip(*ms))))


def shapes(kinds):
    """{shape: whether a kind of it has a prologue}, in the network's order."""
    found = {}
    for kind in kinds:
        found[kind.shape] = found.get(kind.shape, False) or kind.prologue
    return found


def rows(batch):
    """[(name, count, {way: Traffic})], the last of which is the sum."""
    kinds = resnet50()
    found = [(kind.name, kind.count, {way: traffic(kind, batch, way) for way in WAYS}) for kind in kinds]
    return [*found, ("sum", sum(kind.count for kind in kinds), {way: total([ways[way] for _, _, ways in found]) for way in WAYS})]


def table(batch):
    lines = [f"{'':17}{'':8}" + "".join(f"  {way + ': GB read, written; ms':>39}" for way in WAYS), f"{'kind':13}{'':>4}{'TFLOP':>8}"]
    for name, count, ways in rows(batch):
        lines.append(f"{name:13}{count:4}{ways['basic'].computed:8.3f}" + "".join(
            f"  {t.read:17.3f} {t.written:7.3f}; {t.ms[0]:5.2f}-{t.ms[1]:5.2f}" for t in ways.values()))
    return "\n".join(line.rstrip() for line in lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__[__doc__.index("benchmarks/gpu"):])
    parser.add_argument("--batch", type=int, default=256)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--shapes", action="store_true")
    options = parser.parse_args()
    if options.shapes:
        print("\n".join(" ".join(str(int(number)) for number in (*shape, prologue)) for shape, prologue in shapes(resnet50()).items()))
    elif options.json:
        for name, count, ways in rows(options.batch):
            print(json.dumps({"kind": name, "count": count, **{way: figures._asdict() for way, figures in ways.items()}}))
    else:
        print(table(options.batch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
