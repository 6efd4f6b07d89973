"""A folder belongs to one training: how another one is rejected, and which settings may change."""
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

def test_another_training_is_rejected_naming_each_difference(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    kept = trainer_ranks.checkpoints(tmp_path)[0].read_bytes()
    line = refused(tmp_path, "--max-steps=2", "--lr=0.004", "--momentum=0.5", "--seed=3", "--batch-size=8")
    for difference in ("--lr was 0.002 and is 0.004", "--momentum was 0.9 and is 0.5", "--seed was 0 and is 3", "--batch-size was 4 and is 8",
                       "--run-name", "--resume=continue-with-changes", "--resume=never"):
        assert difference in line
    assert [path.read_bytes() for path in trainer_ranks.checkpoints(tmp_path)] == [kept]


def test_settings_that_do_not_define_a_training_may_change(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", "--epochs=7", "--lr=2e-3", "--train-num-workers=0", "--keep-last=9",
                             "--parallel=none", "--checkpoint-steps=1", ranks=1)
    assert "resumed from" in text and "warning" not in text


@pytest.mark.parametrize("change", ["--epochs=8", "--max-steps=3"])
def test_a_cosine_schedule_of_another_length_is_another_training(tmp_path, change):
    trainer_ranks.run(tmp_path, *OPTIONS, "--lr-schedule=cosine", "--max-steps=1", ranks=1)
    assert change.split("=")[0] + " was" in refused(tmp_path, "--lr-schedule=cosine", "--max-steps=1", change)


def test_continue_with_changes_applies_and_reports_the_changes(tmp_path):
    """The optimizer uses the settings of the command line, not those of the checkpoint."""
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    changed = ("--lr=0.004", "--momentum=0.5", "--weight-decay=0.2")
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", *changed, "--resume=continue-with-changes", ranks=1)
    assert "resumed from" in text and "--momentum was 0.9 and is 0.5" in text
    saved = options_in(trainer_ranks.checkpoints(tmp_path)[-1])
    assert (saved["momentum"], saved["weight_decay"], saved["lr"]) == (0.5, 0.2, 0.004)
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", *changed, ranks=1)
    assert "resumed from" in text and "warning" not in text


def test_resume_from_a_file_of_another_training_warns(tmp_path):
    trainer_ranks.run(tmp_path / "one", *OPTIONS, "--max-steps=1", ranks=1)
    file = trainer_ranks.checkpoints(tmp_path / "one")[0]
    text = trainer_ranks.run(tmp_path / "two", *OPTIONS, "--max-steps=2", "--momentum=0.5", f"--resume={file}", ranks=1)
    assert "--momentum was 0.9 and is 0.5" in text
    assert options_in(trainer_ranks.checkpoints(tmp_path / "two")[-1])["momentum"] == 0.5


@pytest.mark.parametrize("change", ["--seed=3", "--shuffle-window=4"])
def test_resume_in_another_order_reports_images_seen_twice(tmp_path, change):
    """metrics.jsonl does not contain the orders, so only bounds of the number are checked."""
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=6", ranks=1)
    text = trainer_ranks.run(tmp_path, *OPTIONS, change, "--max-steps=7", "--resume=continue-with-changes", ranks=1)
    left, again = re.search(r"of its (\d+) remaining images, (\d+) were seen in it before, and as many others are not", text).groups()
    assert int(left) == size_of_training(tmp_path) - 6 * 4 and 0 < int(again) <= 6 * 4
    assert "were seen in it before" not in trainer_ranks.run(tmp_path, *OPTIONS, change, "--max-steps=8", ranks=1)


def size_of_training(folder):
    return trainer_ranks.records(folder, "begin")[0]["training_images"]


def test_another_seed_is_rejected_if_it_selects_the_validation_split(tmp_path):
    """Images without a validation folder are split by the seed."""
    make_pictures(tmp_path / "pictures")
    data = f"--data={tmp_path}/pictures"
    trainer_ranks.run(tmp_path / "run", *OPTIONS, data, "--max-steps=1", ranks=1)
    line = refused(tmp_path / "run", data, "--max-steps=2", "--seed=3", "--resume=continue-with-changes")
    assert "--seed: 3: seed 0 selected the validation images" in line


def test_newly_supported_image_formats_are_named_as_the_difference(tmp_path):
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


def test_changed_images_or_classes_are_another_training(tmp_path):
    """One image less may leave the same number for training but in another split; a renamed class changes labels."""
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
def test_another_batch_size_does_not_silently_rescale_the_learning_rate(tmp_path, change):
    """More accumulation keeps the images of a step, but the learning rate would be scaled by the number of batches."""
    trainer_ranks.run(tmp_path, *OPTIONS, *change, "--max-steps=1", ranks=1)
    if change:
        assert "resumed from" in trainer_ranks.run(tmp_path, *OPTIONS, *change, "--max-steps=2", "--batch-size=2", ranks=1)
        return
    line = refused(tmp_path, "--max-steps=2", "--batch-size=2")
    assert "--batch-size was 4 and is 2 (the learning rate would be scaled for 2 batches a step, not 1)" in line


def test_resume_does_not_need_the_init_from_file(tmp_path):
    trainer_ranks.run(tmp_path / "first", *OPTIONS, "--max-steps=1", ranks=1)
    begin = f"--init-from={trainer_ranks.checkpoints(tmp_path / 'first')[0]}"
    trainer_ranks.run(tmp_path / "run", *OPTIONS, begin, "--max-steps=1", ranks=1)
    shutil.rmtree(tmp_path / "first")
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, "--max-steps=2", ranks=1)
    assert "resumed from" in text and "warning" not in text
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, "--init-from=/elsewhere/a.h5", "--max-steps=3", ranks=1)
    assert "--init-from: /elsewhere/a.h5: is ignored" in text


@pytest.mark.parametrize("resume", ["never", "file"])
def test_checkpoints_of_an_abandoned_training_are_kept_as_superseded(tmp_path, resume):
    """Whether its steps are earlier, later or the same."""
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


def test_fallback_does_not_resume_another_training(tmp_path):
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


def test_a_missing_resume_file_leaves_the_stage_unchanged(tmp_path):
    run, stage = tmp_path / "run", tmp_path / "stage"
    stage.mkdir()
    options = (*OPTIONS, f"--checkpoint-stage={stage}")
    trainer_ranks.run(run, *options, "--max-steps=1", ranks=1)
    shutil.copy(run / "step-00000001.h5", next(stage.iterdir()) / "step-00000001.h5")
    before = sorted(path.name for path in stage.rglob("*"))
    trainer_ranks.run(run, *options, "--max-steps=2", "--resume=/nowhere/step-00000001.h5", ranks=1, code=66)
    assert sorted(path.name for path in stage.rglob("*")) == before


def test_a_finished_training_reports_that_nothing_is_left(tmp_path):
    first = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    again = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    assert "nothing is left to do" not in first and "is the end of this training, at step 1: nothing is left to do" in again


# ---------------------------------------------------------------- which folder


def test_array_tasks_get_own_folders_unless_a_run_name_is_given(tmp_path):
    environment = {**trainer_ranks.environment(tmp_path, 0, 1), "SLURM_JOB_NAME": "sweep"}
    train = [str(trainer_ranks.PROGRAM), *OPTIONS, "--max-steps=1"]
    printed = []
    for more, options in (({}, []), ({"SLURM_ARRAY_TASK_ID": "7"}, []), ({"SLURM_ARRAY_TASK_ID": "7"}, ["--run-name=resnet_a"])):
        done = subprocess.run([*train, *options], env={**environment, **more}, check=True, capture_output=True, text=True)
        printed.append("of the job array is a training of its own" in done.stderr)
    assert printed == [False, True, False]
    assert sorted(path.name for path in (tmp_path / "rollcall").iterdir()) == ["resnet_a", "sweep", "sweep-7"]
    assert all((path / "checkpoints" / "step-00000001.h5").exists() for path in (tmp_path / "rollcall").iterdir())
