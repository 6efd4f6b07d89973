"""40 uninterrupted steps are bit identical to a resume at step 17 and 23 more steps: parameters, moments, generators, records.

A pairwise selection of parallelism, optimizer and number of workers; ROLLCALL_ALL_RESUMES=1 runs all eight."""
import itertools
import math
import os
import shutil
import subprocess

import pytest

import trainer_ranks
from trainer_ranks import SMALL, differences, records

pytestmark = pytest.mark.python
pytest.importorskip("h5py")

ALL = list(itertools.product(("ddp", "fsdp"), ("sgd", "adamw"), (0, 3)))
PAIRWISE = [("ddp", "sgd", 3), pytest.param("ddp", "adamw", 0, marks=pytest.mark.long),
            pytest.param("fsdp", "sgd", 0, marks=pytest.mark.long), pytest.param("fsdp", "adamw", 3, marks=pytest.mark.long),
            *(pytest.param(*row, 0, marks=pytest.mark.long) for row in (("fsdp", "lamb"), ("ddp", "lars"), ("fsdp", "rmsprop")))]
# Random in every way that the trainer knows; eleven steps an epoch, so that step 17 is in the middle of one.
RANDOM = ("--mixup=0.2", "--cutmix=1", "--random-erase=0.3", "--random-erase-value=random", "--auto-augment=trivial", "--hue=0.1",
          "--interpolation=bicubic", "--repeated-augmentation=2", "--image-size-schedule=8,1,2", "--valid-flip=on",
          "--label-smoothing=0.1", "--stochastic-depth=0.3", "--dropout=0.2", "--sampling=balanced",
          "--lr-schedule=cosine", "--warmup-epochs=0.5", "--clip-grad-norm=5", "--epochs=4", "--lr=0.001", "--lr-factors=layer1=0.3,fc=2",
          "--valid-epochs=2", "--log-steps=7", "--checkpoint-epochs=0", "--max-steps=40", "--ema=0.9", "--ema-steps=3")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """88 digits of eight classes to train with, 16 to validate with."""
    folder = tmp_path_factory.mktemp("images")
    source = trainer_ranks.pathlib.Path(os.environ["ROLLCALL_SOURCE_DIR"])
    subprocess.run([source / "scripts" / "make-digits", folder / "all"], check=True, capture_output=True)
    for part, count in (("train", 11), ("val", 2)):
        for label in range(8):
            few = folder / "few" / part / str(label)
            few.mkdir(parents=True)
            for image in sorted((folder / "all" / part / str(label)).glob("*.png"))[:count]:
                (few / image.name).hardlink_to(image)
    return folder / "few"


@pytest.mark.parametrize("parallel, optimizer, workers", ALL if os.environ.get("ROLLCALL_ALL_RESUMES") else PAIRWISE)
def test_a_resumed_training_is_bit_identical_to_an_uninterrupted_one(tmp_path, images, parallel, optimizer, workers):
    options = (*SMALL, *RANDOM, "--image-size=16", f"--data={images}", f"--parallel={parallel}", f"--optimizer={optimizer}",
               f"--train-num-workers={workers}", "--checkpoint-steps=17", "--checkpoint-overlap=wait")
    whole, part = tmp_path / "whole", tmp_path / "part"
    trainer_ranks.run(whole, *options, "--keep-last=9")
    part.mkdir()
    (part / "step-00000017.h5").hardlink_to(whole / "step-00000017.h5")
    assert "resumed from" in trainer_ranks.run(part, *options)
    assert differences(whole / "step-00000040.h5", part / "step-00000040.h5") == []
    for event in ("step", "epoch", "validation"):
        assert records(part, event) == [record for record in records(whole, event) if record["step"] > 17]
    assert [record["samples"] for record in records(part, "epoch")] == [88, 88]


@pytest.mark.long
@pytest.mark.parametrize("first, then", [("on", "off"), ("off", "on")])
def test_resume_may_switch_cpu_offload(tmp_path, images, first, then):
    options = (*SMALL, *RANDOM, "--image-size=16", f"--data={images}", "--parallel=fsdp", "--optimizer=adamw", "--max-steps=25")
    whole, part = tmp_path / "whole", tmp_path / "part"
    trainer_ranks.run(whole, *options, f"--cpu-offload={first}", "--checkpoint-steps=17", "--keep-last=9")
    part.mkdir()
    (part / "step-00000017.h5").hardlink_to(whole / "step-00000017.h5")
    assert "resumed from" in trainer_ranks.run(part, *options, f"--cpu-offload={then}")
    assert differences(whole / "step-00000025.h5", part / "step-00000025.h5") == []
    assert records(part, "step") == [record for record in records(whole, "step") if record["step"] > 17]


@pytest.mark.parametrize("last_batch, steps", [("pad", 3), ("drop", 2)])
def test_resume_from_the_last_step_of_an_epoch_is_exact(tmp_path, last_batch, steps):
    """34 images in steps of 16: a third step reaches beyond the data set's end."""
    options = ["--data=fake", "--fake-size=40", *SMALL, "--batch-size=16", f"--last-batch={last_batch}", "--epochs=2", "--valid-epochs=0",
               "--train-num-workers=1", f"--checkpoint-steps={steps}", "--checkpoint-epochs=0", "--checkpoint-mode=sync",
               "--keep-last=9"]
    whole, part = tmp_path / "whole", tmp_path / "part"
    trainer_ranks.run(whole, *options, ranks=1)
    part.mkdir()
    shutil.copy(whole / f"step-{steps:08}.h5", part)
    trainer_ranks.run(part, *options, ranks=1)
    assert trainer_ranks.differences(whole / f"step-{2 * steps:08}.h5", part / f"step-{2 * steps:08}.h5") == []


def test_an_epoch_does_not_end_if_the_rest_is_less_than_a_step(tmp_path):
    """18 images are left of 34: one step of 16, none of 32."""
    options = ["--data=fake", "--fake-size=40", *SMALL, "--max-steps=1", "--train-num-workers=1"]
    trainer_ranks.run(tmp_path, *options, "--batch-size=16", ranks=1)
    kept = trainer_ranks.checkpoints(tmp_path)[0].read_bytes()
    trainer_ranks.run(tmp_path, *options, "--batch-size=32", "--resume=continue-with-changes", ranks=1)
    assert [path.read_bytes() for path in trainer_ranks.checkpoints(tmp_path)] == [kept]
    assert records(tmp_path, "epoch") == [] and len(records(tmp_path, "validation")) == 1


RATE = 0.01
SCHEDULES = {"cosine": (["--lr-schedule=cosine"], lambda step: RATE * 0.5 * (1 + math.cos(math.pi * step / 20))),
             "step": (["--lr-schedule=step", "--lr-step-epochs=1", "--lr-step-factor=0.5"], lambda step: RATE * 0.5 ** (step // 5)),
             "warm-up": (["--lr-schedule=none", "--warmup-epochs=3"], lambda step: RATE * min(1, (step + 1) / 15)),
             "max-steps": (["--lr-schedule=cosine", "--max-steps=30"], None)}


@pytest.mark.parametrize("kind", ["cosine", "max-steps", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("step", "warm-up"))])
def test_the_lr_schedule_follows_epochs_when_the_step_size_changes(tmp_path, kind):
    """Half way, after 20 steps of 2 images, a second rank makes it steps of 4: 10 are left where 20 were."""
    named, rate = SCHEDULES[kind]
    options = ["--data=fake", "--fake-size=24", *SMALL, "--image-size=16", "--batch-size=2", "--epochs=4", f"--lr={RATE}", "--lr-scaling=none",
               *named, "--valid-epochs=0", "--log-steps=1", "--optimizer=sgd", "--train-num-workers=1"]
    whole, part = tmp_path / "whole", tmp_path / "part"
    trainer_ranks.run(whole, *options, "--keep-last=9", ranks=1)
    part.mkdir()
    shutil.copy(whole / "step-00000020.h5", part)
    printed = trainer_ranks.run(part, *options, ranks=2)
    rates = [record["learning_rate"] for record in records(part, "step")]
    if kind == "max-steps":  # counts steps, whatever their size; with two ranks the epochs end before it
        expected = [RATE * 0.5 * (1 + math.cos(math.pi * step / 20)) for step in range(10, 20)]
    else:
        expected = [rate(step) for step in range(10, 20)]
    assert rates == pytest.approx(expected, rel=1e-6), printed
    assert "the learning rate's schedule continues by epochs" in printed


@pytest.mark.parametrize("size", [20, 80])
def test_a_dataset_of_another_size_is_rejected_naming_both_sizes(tmp_path, size):
    options = ["--data=fake", *SMALL, "--valid-epochs=0", "--train-num-workers=1"]
    trainer_ranks.run(tmp_path, *options, "--fake-size=40", "--max-steps=1", ranks=1)
    kept = trainer_ranks.checkpoints(tmp_path)[0].read_bytes()
    printed = trainer_ranks.run(tmp_path, *options, f"--fake-size={size}", "--max-steps=2", ranks=1, code=76)
    assert f"rollcall: --data: fake: has {size * 17 // 20} training images" in printed and "is of a training with 34" in printed
    assert "--init-from" in printed
    assert [path.read_bytes() for path in trainer_ranks.checkpoints(tmp_path)] == [kept]
