"""Our ResNets against those of torchvision: names, initial values, outputs, and training losses."""
import math

import parity
import pytest
import reference.networks
import torch

pytestmark = pytest.mark.python
DEPTHS = ["resnet20", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d",
          "wide_resnet50_2", "wide_resnet101_2"]


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", [name if name in ("resnet20", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2") else
                                  pytest.param(name, marks=pytest.mark.long) for name in DEPTHS])
def test_resnet_state_matches_torchvision(name, tmp_path):
    ours = parity.state_of(parity.run(parity.request(name), tmp_path))
    with torch.device("meta"):
        theirs = reference.networks.make(name, num_classes=10).state_dict()
    assert list(ours) == list(theirs)
    for key in theirs:
        assert (ours[key].shape, ours[key].dtype) == (theirs[key].shape, theirs[key].dtype), key


def standard_deviations_agree(ours, theirs):
    """Both are samples of the same distribution: within five standard errors of the difference, sigma / sqrt(n)."""
    return abs(ours.std() - theirs.std()).item() <= 5 * theirs.std().item() / math.sqrt(theirs.numel())


@pytest.mark.parametrize("zero_init_residual", [False, True])
@pytest.mark.parametrize("name", ["resnet20", "resnet18", "resnet50"])
def test_resnet_initialisation_matches_torchvision(name, zero_init_residual, tmp_path):
    asked = parity.request(name, zero_init_residual=zero_init_residual, num_classes=1000)
    ours = parity.state_of(parity.run(asked, tmp_path))
    torch.manual_seed(1)
    theirs = reference.networks.make(name, zero_init_residual=zero_init_residual).state_dict()
    for key, value in theirs.items():
        if value.ndim > 1 or key == "fc.bias":
            assert standard_deviations_agree(ours[key], value), key
            assert abs(ours[key].mean()).item() <= 5 * value.std().item() / math.sqrt(value.numel()), key
        else:
            assert torch.equal(ours[key], value), key  # BatchNorm: exact zeros and ones
    bound = 1 / math.sqrt(ours["fc.weight"].shape[1])
    for key in ("fc.weight", "fc.bias"):
        assert 0.9 * bound < ours[key].abs().max() <= bound


# Sums of some thousand float32 products in another order differ by about 1e-6 of the largest term, and outputs near 0 are such
# sums that nearly cancel: hence an absolute tolerance of 1e-5 of the largest output beside rtol 1e-4.
def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * theirs.abs().max().item())


MODES = [(True, True), (False, False), (True, False), (False, True)]
# Grouped and wide convolutions are other shapes of the same: two modes of them show both memory formats and both kinds of BatchNorm.
CASES = [("resnet20", 32, *mode) for mode in MODES] + [
    pytest.param(name, pixels, *mode, marks=pytest.mark.long)
    for name, pixels, modes in [("resnet50", 64, MODES), ("resnext50_32x4d", 32, MODES[:2]), ("wide_resnet50_2", 32, MODES[:2])]
    for mode in modes]


@pytest.mark.parametrize("name, pixels, channels_last, train_mode", CASES)
def test_resnet_outputs_and_losses_match_torchvision(name, pixels, channels_last, train_mode, tmp_path):
    images, labels = parity.batches(steps=5, size=8, pixels=pixels)
    rate = 0.01 if train_mode else 1e-4  # nothing normalises in eval mode: larger steps explode
    asked = parity.request(name, channels_last=channels_last, train_mode=train_mode, lr=rate)
    network = parity.network_of(asked)
    parity.calibrate(network, images[0])
    asked |= {"state": dict(network.state_dict()), "images": images, "labels": labels}
    ours = parity.run(asked, tmp_path)

    network = parity.network_of(asked).train(train_mode)
    with torch.no_grad():
        layout = torch.channels_last if channels_last else torch.contiguous_format
        outputs = network(images[0].contiguous(memory_format=layout))
    network.load_state_dict(asked["state"])
    losses = parity.train(asked, network, parity.optimizer_of(asked, network), images, labels)
    close(ours["outputs"], outputs)
    torch.testing.assert_close(ours["losses"], torch.tensor(losses, dtype=torch.float64), rtol=1e-4, atol=0)
    assert max(losses) - min(losses) > 0.01  # it does train: the comparison is not of constants
    assert int(parity.state_of(ours)["bn1.num_batches_tracked"]) == int(network.bn1.num_batches_tracked)
