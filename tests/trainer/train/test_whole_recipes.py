"""Whole recipes on one rank and on two: fifty steps with the same numbers, also where ranks divide the model, and FFCV's rates and sizes."""
import math
import os
import pathlib
import tomllib

import numpy
import pytest
import reference.training
import small_trainings
import trainer_ranks
import whole_training

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
RECIPES = sorted(path.stem for path in (ROOT / "recipes").glob("*.toml"))
# One recipe of each optimizer.
SHARDED = ["goyal-90", "mlperf-lars", "rsb-a3"]
STEPS = 50
# Micro-batches of 8 images on any number of ranks; four steps an epoch. A rate for 16 images, since those of thousands would make chaos.
SMALL = {"model": "resnet20", "zero-init-residual": True, "data": "fake", "fake-size": 80, "global-batch": 16, "batch-size": 8,
         "max-steps": STEPS, "image-size": 32, "valid-image-size": 32, "valid-resize": 36, "precision": "fp32", "log-steps": 1,
         "valid-epochs": 1000}
RATES = {"sgd": 0.01, "lars": 0.5, "lamb": 0.002}


def values(recipe):
    return tomllib.loads((ROOT / "recipes" / f"{recipe}.toml").read_text())["trainer"]


def small(recipe):
    """What is given beside --recipe."""
    published = values(recipe)
    sizes = {"image-size-schedule": "16,4,8"} if "image-size-schedule" in published else {}
    return {**SMALL, **sizes, "lr": RATES[published["optimizer"]]}


def train(folder, recipe, ranks, **more):
    """Records of steps and of the last validation."""
    settings = {**whole_training.QUIET, **small(recipe), **more}
    trainer_ranks.run(folder, f"--recipe={recipe}", *small_trainings.options(settings), ranks=ranks)
    return [record for event in ("step", "validation") for record in trainer_ranks.records(folder, event)]


def losses(records, *events):
    """{(event, step, name): loss}, of some events or of all."""
    return {(record["event"], record["step"], name): record[name] for record in records for name in ("loss", "ema_loss")
            if name in record and (not events or record["event"] in events)}


def furthest(some, others):
    """The largest difference of losses of steps, as a part of them."""
    ours, theirs = losses(some, "step"), losses(others, "step")
    assert ours.keys() == theirs.keys()
    return max(abs(ours[key] - theirs[key]) / theirs[key] for key in theirs)


@pytest.mark.long
@pytest.mark.parametrize("recipe", RECIPES)
def test_fifty_steps_on_two_ranks_equal_those_of_one_rank(recipe, tmp_path):
    """With repeated augmentation the ranks have other micro-batches than one rank: then Python's two ranks are the measure."""
    two = train(tmp_path / "2", recipe, 2)
    assert [record["event"] for record in two] == ["step"] * STEPS + ["validation"]
    assert all(math.isfinite(loss) for loss in losses(two).values())
    assert ("ema_loss" in two[-1]) == ("ema" in values(recipe))
    if "repeated-augmentation" in values(recipe):
        published = {name: ",".join(value) if isinstance(value, list) else value for name, value in values(recipe).items()}
        theirs = reference.training.train({**published, **small(recipe)}, 2).records
        whole_training.compare_records(two, [record for record in theirs if record["event"] != "epoch"], whole_training.ROUNDED)
    else:
        assert losses(two, "step") == losses(train(tmp_path / "1", recipe, 1), "step")


@pytest.mark.long
@pytest.mark.parametrize("recipe", SHARDED)
def test_fifty_steps_with_fsdp_equal_those_with_ddp(recipe, tmp_path):
    assert furthest(train(tmp_path / "fsdp", recipe, 2, parallel="fsdp"), train(tmp_path / "ddp", recipe, 2)) < 1e-3


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 14])
def test_digits_are_learnt_to_98_per_cent(seed, digits, tmp_path):
    """benchmarks/digits_seeds.py does it with twenty seeds."""
    trainer_ranks.run(tmp_path, "--recipe=digits", f"--data={digits}", f"--seed={seed}", "--valid-epochs=20", "--checkpoint-epochs=0", ranks=4)
    [last] = trainer_ranks.records(tmp_path, "validation")
    assert last["samples"] == 359 and last["top1"] >= 0.98


def ffcv_rates(epochs, steps, rate=1.7, peak=2):
    """get_cyclic_lr() and train_loop() of FFCV's train_imagenet.py: a line between the rates of two epochs' beginnings."""
    at = [numpy.interp(epoch, [0, peak, epochs], [1e-4 * rate, rate, 0]) for epoch in range(epochs + 1)]
    return [numpy.interp(step, [0, steps], at[epoch:epoch + 2]) for epoch in range(epochs) for step in range(steps)]


@pytest.mark.parametrize("epochs", [16, 88])
def test_rates_are_those_of_ffcv_with_the_warm_up_one_step_earlier(epochs, tmp_path):
    tiny = {**small("ffcv-16"), "lr": 1.7, "max-steps": 0, "image-size": 8, "image-size-schedule": "none", "valid-image-size": 8,
            "valid-resize": 8, "global-batch": 4, "batch-size": 4, "fake-size": 20}
    trainer_ranks.run(tmp_path, f"--recipe=ffcv-{epochs}", *small_trainings.options({**whole_training.QUIET, **tiny}), ranks=1)
    ours = [record["learning_rate"] for record in trainer_ranks.records(tmp_path, "step")]
    steps = len(ours) // epochs
    theirs = ffcv_rates(epochs, steps)
    warm_up = 2 * steps
    assert ours[:warm_up] == pytest.approx(theirs[1:warm_up + 1], rel=1e-12)
    assert ours[warm_up:] == pytest.approx(theirs[warm_up:], rel=1e-12)
    assert max(ours) == 1.7 and len(ours) == len(theirs)
