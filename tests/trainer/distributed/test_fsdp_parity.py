"""Sharded training against Python's fully_shard (FSDP2) on the same weights and data.

PyTorch's own yardstick for FSDP: ten Adam steps at a learning rate of 1e-2, losses within rtol 1.3e-6 and atol 1e-5. In float64:
both optimizers round differently in their last bit, and such steps amplify that to 1 % in float32. Contiguous weights: fully_shard
rejects channels-last ones. BatchNorm is in eval mode. What is bit-equal (our own DDP, a single process) is tested in C++.
"""
import parity
import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

pytestmark = pytest.mark.python
STEPS, PER_RANK, WORLD_SIZE = 10, 2, 2


def adam_of(asked, network):
    """AdamW in two groups, as ours."""
    decayed = [p for p in network.parameters() if p.ndim > 1]
    plain = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": asked["weight_decay"]}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=asked["lr"])


def python_rank(asked, answer, store, rank, world_size):
    """One rank of Python's FSDP2, in a process of its own; divided as ours, block by block."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    network = parity.network_of(asked).to(asked["images"].dtype).train(asked["train_mode"])
    mesh = init_device_mesh("cpu", (world_size,))
    for name, stage in network.named_children():
        for block in stage if name.startswith("layer") else ():
            fully_shard(block, mesh=mesh)
    fully_shard(network, mesh=mesh)
    images, labels = (asked[key].chunk(world_size, 1)[rank] for key in ("images", "labels"))
    losses = parity.train(asked, network, adam_of(asked, network), images, labels)
    state = {name: p.full_tensor().detach() for name, p in network.named_parameters()}
    torch.save({"state": state, "losses": losses}, answer)
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module", params=["resnet20", pytest.param("resnet18", marks=pytest.mark.long)])
def trained(request, tmp_path_factory):
    """(request, our ranks' answers, Python's ranks' answers)"""
    folder = tmp_path_factory.mktemp(request.param)
    images, labels = parity.batches(STEPS, PER_RANK * WORLD_SIZE, 32)
    asked = parity.request(request.param, train_mode=False, lr=1e-2, channels_last=False) | {"sharded": True, "optimizer": "adamw"}
    network = parity.network_of(asked)
    parity.damp(network)
    parity.calibrate(network, images[0])
    asked |= {"state": dict(network.state_dict()), "images": images.double(), "labels": labels}
    return asked, parity.run_ranks(asked, folder, WORLD_SIZE), parity.run_python_ranks(python_rank, asked, folder, WORLD_SIZE)


def test_fsdp_losses_match_fully_shard_of_python(trained):
    _, ours, theirs = trained
    for our_rank, their_rank in zip(ours, theirs):
        expected = torch.tensor(their_rank["losses"], dtype=torch.float64)
        assert len(expected) == STEPS
        torch.testing.assert_close(our_rank["losses"], expected, rtol=1.3e-6, atol=1e-5)


def test_gathered_parameters_match_fully_shard_of_python(trained):
    asked, ours, theirs = trained
    state = parity.state_of(ours[0])
    for name, value in theirs[0]["state"].items():
        moved = (value - asked["state"][name]).norm()
        assert moved > 0 and (state[name] - value).norm() < 1e-5 * moved, name
