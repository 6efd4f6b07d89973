"""Data parallelism against a single process on the concatenated batch, and against Python's DistributedDataParallel.

BatchNorm is in eval mode: in training mode each rank normalises with its own batch, so that no single process is equal to it.
Tolerances are those of PyTorch's own DDP tests.
"""
import parity
import pytest
import torch

pytestmark = pytest.mark.python
# model, ranks, pixels, learning rate (what a fresh network of this depth follows without amplifying rounding)
CASES = [pytest.param(("resnet50", 2, 64, 1e-3), marks=pytest.mark.long), ("resnet20", 4, 32, 1e-2)]
STEPS, PER_RANK = 5, 4


def python_rank(asked, answer, store, rank, world_size):
    """One rank of Python's DDP, in a process of its own."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    network = parity.network_of(asked).train(asked["train_mode"])
    module = torch.nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
    images, labels = (asked[key].chunk(world_size, 1)[rank] for key in ("images", "labels"))
    losses = parity.train(asked, module, parity.optimizer_of(asked, network), images, labels)
    torch.save({"state": network.state_dict(), "losses": losses}, answer)
    torch.distributed.destroy_process_group()


def assert_parameters_agree(ours, theirs, before):
    """Within PyTorch's tolerance, and, as the steps are small, also within 2 % of how far the parameters moved."""
    for key, value in theirs.items():
        torch.testing.assert_close(ours[key], value, rtol=1.3e-6, atol=5e-5, msg=lambda text, key=key: f"{key}: {text}")
        if value.ndim > 1:
            moved = (value - before[key]).norm()
            assert moved > 0 and (ours[key] - value).norm() < 0.02 * moved, key


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}x{case[1]}")
def trained(request, tmp_path_factory):
    """(request, our ranks' answers, folder): each case is trained once for all tests."""
    model, world_size, pixels, rate = request.param
    folder = tmp_path_factory.mktemp(model)
    images, labels = parity.batches(STEPS, PER_RANK * world_size, pixels)
    asked = parity.request(model, train_mode=False, lr=rate)
    network = parity.network_of(asked)
    parity.damp(network)
    parity.calibrate(network, images[0])
    asked |= {"state": dict(network.state_dict()), "images": images, "labels": labels}
    return asked, parity.run_ranks(asked, folder, world_size), folder


def test_all_ddp_ranks_end_with_equal_parameters(trained):
    _, ranks, _ = trained
    first = parity.state_of(ranks[0])
    for answer in ranks[1:]:
        assert all(torch.equal(value, first[key]) for key, value in parity.state_of(answer).items())


def test_ddp_ranks_match_a_single_process_on_the_whole_batch(trained):
    asked, ranks, folder = trained
    single = parity.run(asked, folder)
    assert_parameters_agree(parity.state_of(ranks[0]), parity.state_of(single), asked["state"])
    mean = torch.stack([answer["losses"] for answer in ranks]).mean(0)
    torch.testing.assert_close(mean, single["losses"], rtol=1e-4, atol=0)


def test_ddp_ranks_match_ddp_of_python_on_the_same_data(trained):
    asked, ranks, folder = trained
    theirs = parity.run_python_ranks(python_rank, asked, folder, len(ranks))
    assert_parameters_agree(parity.state_of(ranks[0]), theirs[0]["state"], asked["state"])
    for our_rank, their_rank in zip(ranks, theirs):
        expected = torch.tensor(their_rank["losses"], dtype=torch.float64)
        torch.testing.assert_close(our_rank["losses"], expected, rtol=1e-4, atol=0)
