"""Mixed precision against Python's torch.autocast and torch.amp.GradScaler on the same weights and data: bit-equal.

One thread a process on both sides. Kernels add up numbers by threads before they round them to bfloat16 or float16, so another
number of threads is another rounding, by 1 part in 256 here and there; batch norms of few numbers amplify it. Python with two
threads is as far from Python with one: on the network of this test its second loss is 1.228 instead of 1.241 in bf16.
"""
import parity
import pytest
import torch

pytestmark = pytest.mark.python
STEPS, PER_RANK = 4, 8
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
# (pixels, learning rate): convolutions of fp16 take a CPU a hundred times as long.
NETWORKS = {"resnet20": {"bf16": (32, 0.5), "fp16": (8, 0.5)}, "resnet18": {"bf16": (32, 0.02), "fp16": (8, 0.02)}}


def python_rank(asked, answer, store, rank, world_size):
    """One rank of Python's training, in a process of its own: with DDP where there are others."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    network = parity.network_of(asked).train()
    optimizer = parity.optimizer_of(asked, network)
    module = torch.nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True) if world_size > 1 else network
    scaler = torch.amp.GradScaler("cpu", enabled=asked["precision"] == "fp16")
    losses = []
    images, labels = (asked[key].chunk(world_size, 1)[rank] for key in ("images", "labels"))
    for batch, targets in zip(images, labels):
        optimizer.zero_grad()
        with torch.autocast("cpu", TYPES[asked["precision"]]):
            loss = torch.nn.functional.cross_entropy(module(batch.contiguous(memory_format=torch.channels_last)), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    torch.save({"state": network.state_dict(), "losses": losses}, answer)
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("precision", TYPES)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("model", ["resnet20", pytest.param("resnet18", marks=pytest.mark.long)])
def test_mixed_precision_is_bit_identical_to_autocast_and_grad_scaler(model, precision, ranks, tmp_path):
    pixels, rate = NETWORKS[model][precision]
    images, labels = parity.batches(1, PER_RANK * ranks, pixels)
    images, labels = images.expand(STEPS, -1, -1, -1, -1).contiguous(), labels.expand(STEPS, -1).contiguous()
    asked = parity.request(model, lr=rate) | {"precision": precision}
    network = parity.network_of(asked)
    parity.damp(network)
    asked |= {"state": dict(network.state_dict()), "images": images, "labels": labels}
    ours = parity.run_ranks(asked, tmp_path, ranks) if ranks > 1 else [parity.run(asked, tmp_path)]
    theirs = parity.run_python_ranks(python_rank, asked, tmp_path, ranks)
    for our_rank, their_rank in zip(ours, theirs):
        assert our_rank["losses"].tolist() == their_rank["losses"] and their_rank["losses"][-1] < 0.9 * their_rank["losses"][0]
    state = parity.state_of(ours[0])
    for name, value in theirs[0]["state"].items():
        if value.ndim > 1:
            assert torch.equal(state[name], value) and not torch.equal(value, asked["state"][name]), name


def test_the_loss_scaler_has_the_same_states_as_grad_scaler(tmp_path):
    overflows = torch.zeros(4200, dtype=torch.bool)
    overflows[[0, 1, 5, 100, 2099, 2100, 4150]] = True
    ours = parity.run({"overflows": overflows}, tmp_path)
    parameter = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.zeros(1))  # makes its state
    scales, good_steps = [], []
    for overflow in overflows.tolist():
        parameter.grad = torch.tensor([1.0, float("inf") if overflow else 1.0])
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        good_steps.append(scaler.state_dict()["_growth_tracker"])
    assert ours["scales"].tolist() == scales and max(scales) > 65536 / 8
    assert ours["good_steps"].tolist() == good_steps
