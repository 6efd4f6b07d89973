"""benchmarks/gpu/convolutions.py: its network beside torchvision's, its sums beside closed forms, and docs/developer/gpu_predictions.md."""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import convolutions  # noqa: E402

pytestmark = pytest.mark.python
PAGE = (ROOT / "docs/developer/gpu_predictions.md").read_text()
KINDS = convolutions.resnet50()
PASS = 2 * 256 / 1e9  # GB of a pass over one element per image


def elements(after):
    return sum(kind.count * kind.written for kind in KINDS if kind.after == after)


def of_page(row):
    """Cells of the row that begins so."""
    return re.search(rf"^\| {row}[^|]*\|(.*)\|$", PAGE, re.M)[1].split("|")


def of_script(*options):
    return subprocess.run([ROOT / "benchmarks/gpu/convolutions.py", *options], check=True, capture_output=True, text=True).stdout


def test_the_convolutions_are_torchvisions():
    torch, torchvision = pytest.importorskip("torch"), pytest.importorskip("torchvision")
    found = collections.Counter()

    def note(module, inputs, _):
        found[(module.in_channels, module.out_channels, inputs[0].shape[2], module.kernel_size[0], module.stride[0])] += 1

    with torch.device("meta"):
        network = torchvision.models.resnet50()
        for module in network.modules():
            if isinstance(module, torch.nn.Conv2d):
                module.register_forward_hook(note)
        network(torch.empty(1, 3, 224, 224))
    ours = collections.Counter()
    for kind in KINDS:
        ours[kind.shape] += kind.count
    assert ours == found and sum(found.values()) == 53


def test_sums_are_the_known_ones():
    """4,089,184,256 multiplications of an image with the last layer's 2048 x 1000, and the batch norms' elements by what follows them."""
    assert sum(kind.count * kind.multiplications for kind in KINDS) == 4_089_184_256 - 2048 * 1000
    assert sum(kind.count * kind.weights for kind in KINDS) == 25_557_032 - 2048 * 1000 - 1000 - 2 * 26_560
    assert [round(elements(after) / 1e6, 2) for after in ("relu, pool", "relu", "add, relu", "")] == [0.80, 3.29, 5.52, 1.51]
    assert sum(kind.count * kind.written for kind in KINDS) == 11_113_984


def test_a_way_saves_its_passes_alone():
    """Statistics read each output once. A prologue spares the output of each first 1x1 and 3x3 a reading and a writing."""
    basic, statistics, prologue = (convolutions.rows(256)[-1][2][way] for way in convolutions.WAYS)
    spared = elements("relu")
    assert sum(kind.count for kind in KINDS if kind.prologue) == sum(kind.count for kind in KINDS if kind.after == "relu") == 32
    assert basic.read - statistics.read == pytest.approx(11_113_984 * PASS) and basic.written == statistics.written
    assert (statistics.read - prologue.read, statistics.written - prologue.written) == pytest.approx((spared * PASS, spared * PASS))
    for more, less, passed in ((basic, statistics, 11_113_984), (statistics, prologue, 2 * spared)):
        assert [a - b for a, b in zip(more.ms, less.ms)] == pytest.approx([passed * PASS / speed for speed in convolutions.MEMORY])


def test_a_prologue_reads_what_a_batch_norm_and_relu_made_and_nobody_else_reads():
    reads = [(before.outputs, before.side // before.stride) for before in KINDS if before.after == "relu"]
    assert all((kind.inputs, kind.side) in reads for kind in KINDS if kind.prologue)
    assert [kind.name[3:] for kind in KINDS if kind.name.startswith("2") and not kind.prologue] == ["first 1x1", "next 1x1", "shortcut"]


def test_a_convolution_takes_the_longer_of_memory_and_arithmetic():
    slow = convolutions.Kind("", 1, 512, 512, 7, 3, 1, "", False)
    fast = convolutions.Kind("", 1, 64, 256, 56, 1, 1, "", False)
    for kind, bound in ((slow, lambda t: 1000 * t.computed / 640), (fast, lambda t: (t.read + t.written) / 2.9)):
        alone = convolutions.traffic(kind, 256, "prologue")
        normalised = 2 * kind.written * PASS  # what follows it is no prologue
        assert alone.ms[0] == pytest.approx(bound(alone._replace(read=alone.read - normalised / 2, written=alone.written - normalised / 2))
                                            + normalised / 2.9)


@pytest.mark.parametrize("way", convolutions.WAYS)
def test_the_page_has_the_sums_of_a_step(way):
    figures = next(row for row in map(json.loads, of_script("--json").splitlines()) if row["kind"] == "sum")[way]
    wanted = (f"{figures['computed']:.2f}", *(f"{figures[name]:.1f}" for name in ("read", "written")),
              " to ".join(f"{ms:.1f}" for ms in figures["ms"]))
    assert tuple(cell.strip() for cell in of_page(f"`{way}`(?=:| in)")) == wanted


def test_passes_of_the_page_are_those_of_the_sums():
    assert [float(of_page(name)[0]) for name in ("statistics", "forward")] == [
        round(11_113_984 * PASS, 1), round((2 * 11_113_984 + elements("add, relu")) * PASS, 1)]
    table = of_script().splitlines()
    assert len(table) == 2 + len(KINDS) + 1 and "19.173  11.381" in table[-1]


def test_shapes_are_what_cudnn_graph_reads():
    lines = [[int(word) for word in line.split()] for line in of_script("--shapes").splitlines()]
    assert lines[0] == [3, 64, 224, 7, 2, 0] and [64, 256, 56, 1, 1, 1] in lines
    assert {tuple(line[:5]) for line in lines} == {kind.shape for kind in KINDS} and len(lines) == 23 and sum(line[5] for line in lines) == 11
    assert "of 23 different shapes, of which 11 have a prologue" in PAGE
