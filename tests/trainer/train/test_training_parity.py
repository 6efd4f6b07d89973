"""Complete trainings of rollcall-train against the same training in Python (reference/): every record, all weights, all moments.

Real files, several epochs with validation; nothing is shared with the program but the files. On pictures that need no resizing both
sides see the same bits, and SGD is equal to the last bit. AdamW is not: torch's C++ and Python optimizers round differently, so there
every step is compared, from where the program began it.
"""
import json
import math

import pytest
import reference.optimizers
import reference.training
import small_trainings
import torch
import trainer_ranks
import whole_training
from small_trainings import SAME_BITS, SMALL

pytestmark = pytest.mark.python
pytest.importorskip("h5py")

SGD = {**SMALL, **SAME_BITS, "optimizer": "sgd"}
ADAMW = {**SMALL, **SAME_BITS, "optimizer": "adamw", "lr": 0.001, "weight-decay": 0.1, "adam-eps": 1e-5}
# Three epochs of eight steps.
LARS = {**SMALL, **SAME_BITS, "optimizer": "lars", "lr": 2.0, "weight-decay": 0.05, "lr-schedule": "polynomial", "epochs": 3}
LAMB = {**SMALL, **SAME_BITS, "optimizer": "lamb", "lr": 0.01, "weight-decay": 0.05, "adam-eps": 1e-5, "epochs": 3}
RMSPROP = {**SMALL, **SAME_BITS, "optimizer": "rmsprop", "lr": 0.0005, "weight-decay": 0.05, "adam-eps": 0.0316, "rmsprop-alpha": 0.9,
           "epochs": 3}
# For fp16, whose convolutions take a CPU a hundred times as long as those of float32.
TINY = {**SGD, "image-size": 16, "valid-resize": 16, "epochs": 1}
# Not far below 1: where a weight hardly moves, its last bit is much of its way.
FACTORS = {"lr-factors": "layer1=0.6,layer1.1.conv2=2,layer2=0.8,bn1=0.6,fc=1.5"}
# name: (ranks, settings)
CASES = {
    "sgd": (1, SGD),
    "sgd in one cycle": (1, {**SGD, "lr-schedule": "one-cycle", "warmup-epochs": 0.6, "warmup-start-factor": 0.1, "lr-end-factor": 0.01}),
    "adamw": (1, ADAMW),
    "sgd of two ranks, steps": (2, {**SGD, "lr-schedule": "step", "lr-step-epochs": 1.5, "lr-step-factor": 0.3, "nesterov": True}),
    "adamw of two ranks, accumulation": (2, {**ADAMW, "grad-accumulation": 2, "lr-schedule": "cosine", "epochs": 3}),
    "warm-up, clipping, smoothing": (2, {**SGD, "warmup-epochs": 0.8, "lr-schedule": "cosine", "clip-grad-norm": 1.5, "label-smoothing": 0.1}),
    "mixup and cutmix": (2, {**SGD, "mixup": 0.4, "cutmix": 1.0, "label-smoothing": 0.1}),
    "statistics of all ranks together": (2, {**SGD, "sync-bn": True, "batch-size": 4, "lr": 0.003, "weight-decay": 0.05, "momentum": 0.5}),
    "padded epochs": (2, {**SGD, "last-batch": "pad", "batch-size": 5, "broadcast-buffers": False}),
    "fsdp, sgd": (2, {**SGD, "parallel": "fsdp", "clip-grad-norm": 1.5, "warmup-epochs": 0.5}),
    "fsdp, adamw, accumulation": (2, {**ADAMW, "parallel": "fsdp", "grad-accumulation": 2, "mixup": 0.3, "epochs": 3, **FACTORS}),
    "lars": (1, LARS),
    "lars, fsdp of three ranks": (3, {**LARS, "parallel": "fsdp", "batch-size": 4, "epochs": 4, "weight-decay-all": True, **FACTORS}),
    "lamb": (1, LAMB),
    "lamb, fsdp of three ranks, clipping": (3, {**LAMB, "parallel": "fsdp", "batch-size": 4, "epochs": 4, "clip-grad-norm": 1.0, **FACTORS}),
    "rmsprop of two ranks": (2, {**RMSPROP, "batch-size": 4, **FACTORS}),
    "ema": (1, {**SGD, "ema": 0.8, "ema-steps": 2, "warmup-epochs": 0.5, "epochs": 3}),
    "ema of two ranks": (2, {**SGD, "ema": 0.9, "batch-size": 4}),
    "ema, fsdp of three ranks": (3, {**SGD, "ema": 0.9, "batch-size": 4, "parallel": "fsdp"}),
    "square-root rule": (2, {**ADAMW, "scale-optim-params": True, "adam-beta1": 0.8, "adam-beta2": 0.95, "adam-eps": 1e-6}),
}
SHORT = {"sgd", "sgd of two ranks, steps", "warm-up, clipping, smoothing", "mixup and cutmix", "padded epochs", "fsdp, sgd",
         "fsdp, adamw, accumulation", "ema of two ranks"}
assert SHORT <= CASES.keys()
# The two sides round differently here: compared step by step.
ROUNDED = {name: whole_training.ROUNDED for name, (_, settings) in CASES.items()
           if settings["optimizer"] != "sgd" or "clip-grad-norm" in settings}
# Sums over all ranks' images are added up in another order than over one batch, already on the way forward.
ROUNDED["statistics of all ranks together"] = 1e-3


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return small_trainings.make_tree(tmp_path_factory.mktemp("pictures"), (32, 32))


@pytest.fixture(scope="module")
def tiny_pictures(tmp_path_factory):
    return small_trainings.make_tree(tmp_path_factory.mktemp("tiny"), (16, 16), train=4, valid=1)


@pytest.mark.parametrize("name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in CASES])
def test_a_training_equals_the_reference(tmp_path, pictures, name):
    ranks, settings = CASES[name]
    ours, theirs = whole_training.both(
        tmp_path, {**settings, "data": str(pictures)}, ranks, ROUNDED.get(name, whole_training.SAME), each_step=name in ROUNDED)
    losses = [record["loss"] for record in theirs.records if record["event"] == "step"]
    assert max(losses) - min(losses) > 0.05  # the comparison is not of constants
    assert all(torch.isfinite(value.float()).all() for value in ours.state.values())


@pytest.mark.parametrize("precision", ["bf16", *(pytest.param(name, marks=pytest.mark.long) for name in ("fp32", "fp16"))])
@pytest.mark.parametrize("parallel, ranks", [("ddp", 1), ("ddp", 2), ("fsdp", 2)])
def test_precisions_equal_autocast_and_grad_scaler_of_python(tmp_path, tiny_pictures, precision, parallel, ranks):
    settings = {**TINY, "data": str(tiny_pictures), "batch-size": 4, "precision": precision, "parallel": parallel}
    whole_training.both(tmp_path, settings, ranks)


def test_gradients_are_clipped_after_unscaling(tmp_path, tiny_pictures):
    """The norm is summed in another type than in Python, so its last bit differs."""
    settings = {**TINY, "data": str(tiny_pictures), "precision": "fp16", "clip-grad-norm": 2.0}
    whole_training.both(tmp_path, settings, tolerance=whole_training.ROUNDED, each_step=True)


def test_a_training_on_images_of_all_sizes_equals_the_reference(tmp_path):
    """Crops, resizes and the centre crop of validation equal torchvision up to rounding of float32."""
    tree = small_trainings.make_tree(tmp_path / "tree")
    whole_training.both(tmp_path / "run", {**SMALL, "optimizer": "sgd", "lr": 0.002, "data": str(tree)}, tolerance=2e-3)


def test_steps_with_non_finite_gradients_are_skipped_like_grad_scaler(tmp_path, tiny_pictures):
    """Batches of two: means over so few pictures, times the first scale, are beyond fp16 at any weights. It is halved until they fit."""
    settings = {**TINY, "data": str(tiny_pictures), "model": "resnet18", "precision": "fp16", "batch-size": 2, "lr": 0.001}
    ours, theirs = whole_training.both(tmp_path, settings)
    assert theirs.skipped_steps > 2 and ours.loss_scale < 65536 / 4


def test_a_non_finite_loss_ends_the_training(tmp_path, pictures):
    settings = {**SGD, "data": str(pictures), "model": "resnet18", "lr": 1e6}
    printed = trainer_ranks.run(tmp_path, *small_trainings.options(settings), ranks=1, code=65)
    assert "rollcall: loss:" in printed and "there is no checkpoint yet; try lowering --lr, or --warmup-epochs=1" in printed
    assert not trainer_ranks.checkpoints(tmp_path)


def test_the_best_checkpoint_follows_the_best_validation(tmp_path, pictures):
    """best.h5 and /progress follow the highest top-1 of the reference's validations, the earliest where two are equal."""
    import h5py
    settings = {**SGD, "data": str(pictures), "batch-size": 16, "epochs": 6}
    ours, theirs = whole_training.both(tmp_path, settings)
    validations = {record["step"]: record["top1"] for record in theirs.records if record["event"] == "validation"}
    assert len(set(validations.values())) > 2
    best = max(validations, key=lambda step: (validations[step], -step))
    assert (tmp_path / "best.h5").resolve().name == f"step-{best:08}.h5"
    with h5py.File(trainer_ranks.checkpoints(tmp_path)[-1]) as file:
        assert int(file["progress/best_step"][()]) == best
        assert float(file["progress/best_metric"][()]) == pytest.approx(validations[best])
        assert max(json.loads(file["progress/best"][()]), key=lambda entry: entry["metric"])["step"] == best


def distance(one, other, rate=lambda step: 0.1, decay=0.05):
    """How far the weights of two optimizers are apart after 25 steps on the same gradients, as a part of how far they moved. One group
    decays, the other does not, and a weight is zero at first."""
    random = torch.Generator().manual_seed(3)
    start = [torch.randn(shape, generator=random) for shape in ((7, 5), (3, 2, 3, 3), (7,))] + [torch.zeros(4, 4)]
    outcomes = []
    for make, more in (one, other):
        weights = [torch.nn.Parameter(value.clone()) for value in start]
        groups = [{"params": [p for p in weights if p.ndim > 1], "weight_decay": decay}, {"params": [weights[2]], "weight_decay": 0.0}]
        optimizer, gradients = make(groups, lr=rate(0), **more), torch.Generator().manual_seed(5)
        for step in range(25):
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
            for weight in weights:
                weight.grad = torch.randn(weight.shape, generator=gradients) * (step + 1)
            optimizer.step()
        outcomes.append(weights)
    return [((a - b).norm() / (b - first).norm()).item() for a, b, first in zip(*outcomes, start)]


@pytest.mark.parametrize("name, own, of_timm", [("Lars", {"momentum": 0.9, "trust": 0.01}, {"momentum": 0.9, "trust_coeff": 0.01}),
                                                ("Lamb", {"betas": (0.9, 0.999), "eps": 1e-6}, {"max_grad_norm": None})])
def test_lars_and_lamb_of_the_reference_equal_those_of_timm(name, own, of_timm):
    timm_optim = pytest.importorskip("timm.optim")
    assert max(distance((getattr(reference.optimizers, name), own), (getattr(timm_optim, name), of_timm))) < 1e-6


def test_lars_equals_mlperfs_where_the_momentum_follows_the_rate():
    """Warm-up and polynomial decay. Without that correction, as in MLPerf's reference, only a constant rate gives the same."""
    values = {"momentum": 0.9, "trust": 0.001}
    ours = (reference.optimizers.Lars, values)
    corrected, plain = ((reference.optimizers.MlperfLars, {**values, "corrected": way}) for way in (True, False))

    def rate(step):
        return 10.5 * min((step + 1) / 8, 1) * (1 - max(0, step - 8) / 30) ** 2
    assert max(distance(ours, corrected, rate, 5e-5)) < 1e-6
    assert max(distance(ours, plain, lambda step: 10.5, 5e-5)) < 1e-6
    assert min(distance(ours, plain, rate, 5e-5)) > 0.1


def test_the_lr_schedule_of_the_reference_equals_torch():
    """The reference's learning rates against torch.optim.lr_scheduler."""
    schedulers = torch.optim.lr_scheduler
    for changed, make in {
            "cosine": ({"lr-end-factor": 0.1}, lambda optimizer: schedulers.CosineAnnealingLR(optimizer, 24, eta_min=0.01)),
            "linear": ({"lr-end-factor": 0.2}, lambda optimizer: schedulers.LinearLR(optimizer, 1.0, 0.2, 24)),
            "polynomial": ({"lr-power": 3.0}, lambda optimizer: schedulers.PolynomialLR(optimizer, 24, 3.0)),
            "one-cycle": ({"warmup-epochs": 1, "warmup-start-factor": 1 / 25, "lr-end-factor": 1 / 2500},
                lambda optimizer: schedulers.OneCycleLR(
                optimizer, 0.1, 24, pct_start=1 / 3, div_factor=25, final_div_factor=100, cycle_momentum=False)),
            "step": ({"lr-step-epochs": 1, "lr-step-factor": 0.5}, lambda optimizer: schedulers.StepLR(optimizer, 8, 0.5)),
            "milestones": ({"lr-milestones": "1,2.5"}, lambda optimizer: schedulers.MultiStepLR(optimizer, [8, 20], 0.1))}.items():
        settings = {**reference.training.DEFAULTS, "epochs": 3, "lr-schedule": changed, **make[0]}
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
        scheduler = make[1](optimizer)
        for step in range(24):
            assert math.isclose(reference.training.learning_rate(settings, 0.1, step, 8), optimizer.param_groups[0]["lr"], rel_tol=1e-9), changed
            optimizer.step()
            scheduler.step()
    settings = {**reference.training.DEFAULTS, "epochs": 3, "warmup-epochs": 0.5, "lr-schedule": "cosine"}
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / 4, 1.0, 3)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 24 - 4)
    both = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], [4])
    for step in range(24):
        assert math.isclose(reference.training.learning_rate(settings, 0.1, step, 8), optimizer.param_groups[0]["lr"], rel_tol=1e-9)
        optimizer.step()
        both.step()
