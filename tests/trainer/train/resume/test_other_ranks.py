"""A training that resumes with another number of ranks: the same images per step, each seen once per epoch, the same losses."""
import pytest

import trainer_ranks
from trainer_ranks import SMALL, checkpoints, records

pytestmark = pytest.mark.python
pytest.importorskip("h5py")

# 88 images to train with, eleven steps of eight an epoch, so that each change is in the middle of one. SGD, whose course bears rounding.
CHANGED = "--resume=continue-with-changes"
OPTIONS = (*SMALL, "--fake-size=103", "--valid-epochs=0", "--checkpoint-epochs=0", "--epochs=9", "--optimizer=sgd", "--lr-schedule=none",
           "--lr=0.002",
           "--log-steps=1", "--keep-last=9")


def resume_in(source, step, folder, *options, ranks):
    """A new run that resumes from a checkpoint of another run."""
    folder.mkdir(exist_ok=True)
    (folder / f"step-{step:08d}.h5").hardlink_to(source / f"step-{step:08d}.h5")
    return trainer_ranks.run(folder, *options, ranks=ranks)


def course(folder):
    return {record["step"]: (record["loss"], record["learning_rate"], record["samples"]) for record in records(folder, "step")}


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_ranks_then_one_then_two_match_two_throughout(tmp_path, parallel):
    options = (*OPTIONS, f"--parallel={parallel}")
    trainer_ranks.run(tmp_path / "two", *options, "--max-steps=14", "--checkpoint-steps=6")
    one = resume_in(tmp_path / "two", 6, tmp_path / "one", *options, "--max-steps=12", ranks=1)
    assert "a step keeps its 8 images from 2 ranks (--grad-accumulation=2)" in one
    again = resume_in(tmp_path / "one", 12, tmp_path / "again", *options, "--max-steps=14", ranks=2)
    assert "a step keeps its 8 images from 1 rank (--grad-accumulation=1)" in again
    assert "warning" not in one + again
    straight, changed = course(tmp_path / "two"), course(tmp_path / "one") | course(tmp_path / "again")
    assert sorted(changed) == list(range(7, 15))
    for step, values in changed.items():
        assert values == pytest.approx(straight[step], rel=2e-4), step
    assert [record["samples"] for record in records(tmp_path / "one", "epoch")] == [88]


def test_accumulation_chosen_for_changed_ranks_is_kept_on_resume(tmp_path):
    """A requeued job does not know that its first start chose --grad-accumulation=2."""
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=2)
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", ranks=1)
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=4", ranks=1)
    assert [record["samples"] for record in records(tmp_path, "step")] == [8, 8, 8, 8]


@pytest.mark.long
def test_the_requested_step_size_returns_when_ranks_divide_it(tmp_path):
    """As when four nodes are lost one after the other."""
    options = (*OPTIONS, "--batch-size=2")
    trainer_ranks.run(tmp_path, *options, "--max-steps=2", ranks=4)
    three = trainer_ranks.run(tmp_path, *options, "--max-steps=4", ranks=3)
    assert "a step has 6 images with 3 ranks, but had 8 with 4 ranks in the checkpoint" in three
    assert "warning" not in trainer_ranks.run(tmp_path, *options, "--max-steps=5", ranks=3)
    two = trainer_ranks.run(tmp_path, *options, "--max-steps=7", ranks=2)
    assert "a step has the requested 8 images again; it had 6 with 3 ranks (--grad-accumulation=2)" in two
    assert [(record["samples"], record["learning_rate"]) for record in records(tmp_path, "step")] == [
        (8, pytest.approx(0.008)), (8, pytest.approx(0.008)), *[(6, pytest.approx(0.006))] * 3, *[(8, pytest.approx(0.008))] * 2]
    # What the user then asks for stays, too.
    trainer_ranks.run(tmp_path, *options, "--max-steps=8", "--grad-accumulation=1", CHANGED, ranks=2)
    assert records(tmp_path, "step")[-1]["samples"] == 4
    trainer_ranks.run(tmp_path, *options, "--max-steps=9", ranks=1)
    assert records(tmp_path, "step")[-1]["samples"] == 4


@pytest.mark.long
def test_the_last_step_size_is_kept_if_the_requested_one_is_impossible(tmp_path):
    options = (*OPTIONS, "--batch-size=2")
    trainer_ranks.run(tmp_path, *options, "--max-steps=2", ranks=3)
    trainer_ranks.run(tmp_path, *options, "--max-steps=4", ranks=4)
    two = trainer_ranks.run(tmp_path, *options, "--max-steps=6", ranks=2)
    assert "a step keeps its 8 images from 4 ranks (--grad-accumulation=2)" in two
    assert [record["samples"] for record in records(tmp_path, "step")] == [6, 6, 8, 8, 8, 8]


def test_another_step_size_is_a_warning_with_advice(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", "--checkpoint-steps=1", ranks=2)
    smaller = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", "--batch-size=3", "--last-batch=pad", CHANGED, ranks=2)
    assert "warning: --batch-size: 3: a step has 6 images with 2 ranks, but had 8 with 2 ranks" in smaller
    assert "try --batch-size=2 --grad-accumulation=2" in smaller
    for later in checkpoints(tmp_path)[2:]:
        later.unlink()
    asked = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", "--grad-accumulation=1", ranks=1)
    assert "warning: --grad-accumulation: 1: a step has 4 images with 1 rank, but had 8 with 2 ranks" in asked
    assert "try --grad-accumulation=2, or leaving it out" in asked


def test_every_image_is_seen_once_per_epoch_with_changed_steps(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=4", ranks=2)
    trainer_ranks.run(tmp_path, *OPTIONS, "--epochs=1", "--batch-size=3", "--last-batch=pad", CHANGED, ranks=1)
    epoch = records(tmp_path, "epoch")[-1]
    assert epoch["samples"] == 88
    assert sum(record["samples"] for record in records(tmp_path, "step")) == 88
