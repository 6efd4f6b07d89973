"""A folder belongs to one training: what another one is told, and what may change."""
import os
import re
import shutil
import subprocess

import pytest
import trainer_ranks
from folder_runs import OPTIONS, make_pictures, options_in, refused

pytestmark = pytest.mark.python
pytest.importorskip("h5py")


# ---------------------------------------------------------------- which training

def test_another_training_is_refused_and_each_difference_named(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    kept = trainer_ranks.checkpoints(tmp_path)[0].read_bytes()
    line = refused(tmp_path, "--max-steps=2", "--lr=0.004", "--momentum=0.5", "--seed=3", "--batch-size=8")
    for difference in ("--lr was 0.002 and is 0.004", "--momentum was 0.9 and is 0.5", "--seed was 0 and is 3", "--batch-size was 4 and is 8",
                       "--run-name", "--resume=continue-with-changes", "--resume=never"):
        assert difference in line
    assert [path.read_bytes() for path in trainer_ranks.checkpoints(tmp_path)] == [kept]


def test_what_does_not_define_a_training_may_change(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", "--epochs=7", "--lr=2e-3", "--train-num-workers=0", "--keep-last=9",
                             "--parallel=none", "--checkpoint-steps=1", ranks=1)
    assert "resumed from" in text and "warning" not in text


@pytest.mark.parametrize("change", ["--epochs=8", "--max-steps=3"])
def test_a_cosine_that_ends_elsewhere_is_another_training(tmp_path, change):
    trainer_ranks.run(tmp_path, *OPTIONS, "--lr-schedule=cosine", "--max-steps=1", ranks=1)
    assert change.split("=")[0] + " was" in refused(tmp_path, "--lr-schedule=cosine", "--max-steps=1", change)


def test_changes_that_are_asked_for_are_made_and_told(tmp_path):
    """The optimizer's settings of the command line are in force, not those of the file."""
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    changed = ("--lr=0.004", "--momentum=0.5", "--weight-decay=0.2")
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", *changed, "--resume=continue-with-changes", ranks=1)
    assert "resumed from" in text and "--momentum was 0.9 and is 0.5" in text
    saved = options_in(trainer_ranks.checkpoints(tmp_path)[-1])
    assert (saved["momentum"], saved["weight_decay"], saved["lr"]) == (0.5, 0.2, 0.004)
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", *changed, ranks=1)
    assert "resumed from" in text and "warning" not in text


def test_a_named_file_of_another_training_is_taken_with_a_warning(tmp_path):
    trainer_ranks.run(tmp_path / "one", *OPTIONS, "--max-steps=1", ranks=1)
    file = trainer_ranks.checkpoints(tmp_path / "one")[0]
    text = trainer_ranks.run(tmp_path / "two", *OPTIONS, "--max-steps=2", "--momentum=0.5", f"--resume={file}", ranks=1)
    assert "--momentum was 0.9 and is 0.5" in text
    assert options_in(trainer_ranks.checkpoints(tmp_path / "two")[-1])["momentum"] == 0.5


@pytest.mark.parametrize("change", ["--seed=3", "--shuffle-window=4"])
def test_an_epoch_that_goes_on_in_another_order_says_how_many_images_come_twice(tmp_path, change):
    """By the orders themselves, which metrics.jsonl does not hold: bounds of the number that they give."""
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=6", ranks=1)
    text = trainer_ranks.run(tmp_path, *OPTIONS, change, "--max-steps=7", "--resume=continue-with-changes", ranks=1)
    left, again = re.search(r"of its (\d+) remaining images, (\d+) were seen in it before, and as many others are not", text).groups()
    assert int(left) == size_of_training(tmp_path) - 6 * 4 and 0 < int(again) <= 6 * 4
    assert "were seen in it before" not in trainer_ranks.run(tmp_path, *OPTIONS, change, "--max-steps=8", ranks=1)


def size_of_training(folder):
    return trainer_ranks.records(folder, "begin")[0]["training_images"]


def test_another_seed_may_not_train_with_what_validated(tmp_path):
    """Pictures without a part for validation are split by the seed."""
    make_pictures(tmp_path / "pictures")
    data = f"--data={tmp_path}/pictures"
    trainer_ranks.run(tmp_path / "run", *OPTIONS, data, "--max-steps=1", ranks=1)
    line = refused(tmp_path / "run", data, "--max-steps=2", "--seed=3", "--resume=continue-with-changes")
    assert "--seed: 3: seed 0 selected the validation images" in line


def test_pictures_of_kinds_that_are_read_since_are_named(tmp_path):
    """The same folder, and a job that was requeued across an upgrade."""
    pictures = tmp_path / "pictures"
    for part, count in (("train", 60), ("val", 6)):
        make_pictures(pictures / part, count)
    data = f"--data={pictures}"
    trainer_ranks.run(tmp_path / "run", *OPTIONS, data, "--max-steps=1", ranks=1)
    for part, said in (("train", "has 61 training images, but the checkpoint of step 1 is of a training with 60"),
                       ("val", "the validation images (7, not 6) differ")):
        of_part = pictures / part / "class 0"
        (of_part / "0.png").rename(tmp_path / "0.png")
        for name in ("a.TIFF", "b.webp"):
            shutil.copy(tmp_path / "0.png", of_part / name)
        line = refused(tmp_path / "run", data, "--max-steps=2")
        assert said + "; among them are images of kinds that earlier versions ignored, 2: " in line
        assert f"1 .tiff (such as {of_part}/a.TIFF)" in line and f"1 .webp (such as {of_part}/b.webp)" in line
        for name in ("a.TIFF", "b.webp"):
            (of_part / name).unlink()
        (tmp_path / "0.png").rename(of_part / "0.png")


def test_pictures_that_changed_are_another_training(tmp_path):
    """One picture less may leave as many to train on, and be another split; a renamed class is another label."""
    pictures = tmp_path / "pictures"
    make_pictures(pictures, 100)
    data = f"--data={pictures}"
    trainer_ranks.run(tmp_path / "run", *OPTIONS, data, "--max-steps=1", ranks=1)
    (pictures / "class 0" / "0.png").rename(tmp_path / "0.png")
    assert "has 99 images, but the checkpoint is of a training with 100" in refused(tmp_path / "run", data, "--max-steps=2")
    (tmp_path / "0.png").rename(pictures / "class 0" / "0.png")
    (pictures / "class 1").rename(pictures / "Class 1")
    assert "the names of the classes differ" in refused(tmp_path / "run", data, "--max-steps=2", "--resume=continue-with-changes")
    (pictures / "Class 1").rename(pictures / "class 1")
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, data, "--max-steps=2", ranks=1)
    assert "resumed from" in text and "warning" not in text


@pytest.mark.parametrize("change", [(), ("--lr-scaling=none",)], ids=["scaled", "unscaled"])
def test_a_step_in_other_batches_does_not_change_the_learning_rate_unasked(tmp_path, change):
    """The images of a step stay, by more accumulation, and by that number the learning rate would be scaled."""
    trainer_ranks.run(tmp_path, *OPTIONS, *change, "--max-steps=1", ranks=1)
    if change:
        assert "resumed from" in trainer_ranks.run(tmp_path, *OPTIONS, *change, "--max-steps=2", "--batch-size=2", ranks=1)
        return
    line = refused(tmp_path, "--max-steps=2", "--batch-size=2")
    assert "--batch-size was 4 and is 2 (the learning rate would be scaled for 2 batches a step, not 1)" in line


def test_what_a_training_began_with_is_not_needed_to_go_on(tmp_path):
    trainer_ranks.run(tmp_path / "first", *OPTIONS, "--max-steps=1", ranks=1)
    begin = f"--init-from={trainer_ranks.checkpoints(tmp_path / 'first')[0]}"
    trainer_ranks.run(tmp_path / "run", *OPTIONS, begin, "--max-steps=1", ranks=1)
    shutil.rmtree(tmp_path / "first")
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, "--max-steps=2", ranks=1)
    assert "resumed from" in text and "warning" not in text
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, "--init-from=/elsewhere/a.h5", "--max-steps=3", ranks=1)
    assert "--init-from: /elsewhere/a.h5: is ignored" in text


@pytest.mark.parametrize("resume", ["never", "file"])
def test_a_training_that_was_given_up_for_another_is_kept(tmp_path, resume):
    """Whether its steps are earlier or later ones, and of the same number too."""
    run = tmp_path / "run"
    trainer_ranks.run(run, *OPTIONS, "--max-steps=6", "--checkpoint-steps=2", "--checkpoint-mode=sync", "--keep-last=9", ranks=1)
    kept = {path.name: path.read_bytes() for path in trainer_ranks.checkpoints(run)}
    assert len(kept) == 3
    if resume == "file":
        trainer_ranks.run(tmp_path / "other", *OPTIONS, "--max-steps=3", "--lr=0.003", ranks=1)
    value = "never" if resume == "never" else str(tmp_path / "other" / "step-00000003.h5")
    trainer_ranks.run(run, *OPTIONS, "--lr=0.003", "--max-steps=8", "--checkpoint-steps=4", "--checkpoint-mode=sync", "--keep-last=1",
                      f"--resume={value}", ranks=1)
    aside = {path.name.removesuffix(".superseded"): path.read_bytes() for path in run.glob("*.superseded*")}
    assert aside == kept
    assert [path.name for path in trainer_ranks.checkpoints(run)] == ["step-00000008.h5"]


def test_behind_a_damaged_file_another_training_is_not_gone_on_from(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=1)
    old = (tmp_path / "step-00000002.h5").read_bytes()
    trainer_ranks.run(tmp_path, *OPTIONS, "--lr=0.003", "--max-steps=4", "--resume=never", ranks=1)
    (tmp_path / "step-00000002.h5").write_bytes(old)
    newest = tmp_path / "step-00000004.h5"
    with newest.open("r+b") as file:
        file.seek(newest.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 255]))
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--lr=0.003", "--max-steps=5", ranks=1, code=76)
    assert "step-00000002.h5 is of another training: --lr was 0.002 and is 0.003" in text


def test_a_mistyped_file_leaves_the_stage_alone(tmp_path):
    run, stage = tmp_path / "run", tmp_path / "stage"
    stage.mkdir()
    options = (*OPTIONS, f"--checkpoint-stage={stage}")
    trainer_ranks.run(run, *options, "--max-steps=1", ranks=1)
    shutil.copy(run / "step-00000001.h5", next(stage.iterdir()) / "step-00000001.h5")
    before = sorted(path.name for path in stage.rglob("*"))
    trainer_ranks.run(run, *options, "--max-steps=2", "--resume=/nowhere/step-00000001.h5", ranks=1, code=66)
    assert sorted(path.name for path in stage.rglob("*")) == before


def test_a_finished_training_says_so(tmp_path):
    first = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    again = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    assert "nothing is left to do" not in first and "is the end of this training, at step 1: nothing is left to do" in again


# ---------------------------------------------------------------- which folder


def test_each_element_of_a_job_array_has_a_folder_and_a_name_decides(tmp_path):
    environment = {**trainer_ranks.environment(tmp_path, 0, 1), "SLURM_JOB_NAME": "sweep"}
    train = [str(trainer_ranks.PROGRAM), *OPTIONS, "--max-steps=1"]
    printed = []
    for more, options in (({}, []), ({"SLURM_ARRAY_TASK_ID": "7"}, []), ({"SLURM_ARRAY_TASK_ID": "7"}, ["--run-name=resnet_a"])):
        done = subprocess.run([*train, *options], env={**environment, **more}, check=True, capture_output=True, text=True)
        printed.append("of the job array is a training of its own" in done.stderr)
    assert printed == [False, True, False]
    assert sorted(path.name for path in (tmp_path / "rollcall").iterdir()) == ["resnet_a", "sweep", "sweep-7"]
    assert all((path / "checkpoints" / "step-00000001.h5").exists() for path in (tmp_path / "rollcall").iterdir())
