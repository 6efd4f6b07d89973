"""Synchronised BatchNorm against Python's autograd of BatchNorm on the ranks' batches as one, in training mode.

nn.SyncBatchNorm itself runs on GPUs only; it is documented to equal this. In float64: batch normalisation amplifies the rounding
of another order of additions tenfold a step.
"""
import parity
import pytest
import torch

pytestmark = [pytest.mark.python, pytest.mark.long]

STEPS, PER_RANK = 4, 3


@pytest.fixture(scope="module", params=[(2, False), (4, False), (2, True)], ids=["ddp2", "ddp4", "fsdp2"])
def trained(request, tmp_path_factory):
    """(our ranks' answers, Python's losses, Python's network)"""
    world_size, sharded = request.param
    folder = tmp_path_factory.mktemp("sync_bn")
    images, labels = parity.batches(STEPS, PER_RANK * world_size, 32)
    asked = parity.request("resnet18", lr=1e-2) | {"sync_bn": True, "sharded": sharded}
    network = parity.network_of(asked).double()
    asked |= {"state": {key: value.clone() for key, value in network.state_dict().items()}, "images": images.double(), "labels": labels}
    ours = parity.run_ranks(asked, folder, world_size)
    losses = parity.train(asked, network.train(), parity.optimizer_of(asked, network), asked["images"], labels)
    return ours, losses, network


def test_sync_bn_losses_equal_one_process_on_the_whole_batch(trained):
    ours, losses, _ = trained
    mean = torch.stack([answer["losses"] for answer in ours]).mean(0)
    torch.testing.assert_close(mean, torch.tensor(losses, dtype=torch.float64), rtol=1e-8, atol=0)


def test_sync_bn_parameters_and_statistics_equal_one_process(trained):
    ours, _, network = trained
    state = parity.state_of(ours[0])
    for name, value in network.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=1e-6, atol=1e-8, msg=lambda text, name=name: f"{name}: {text}")


def test_sync_bn_running_statistics_are_equal_on_all_ranks(trained):
    ours, _, _ = trained
    first = parity.state_of(ours[0])
    for answer in ours[1:]:
        assert all(torch.equal(value, first[name]) for name, value in parity.state_of(answer).items() if "running" in name)
