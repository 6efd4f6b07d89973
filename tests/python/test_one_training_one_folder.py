"""A folder belongs to one training, and one run writes to it at a time."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading

import pytest
import trainer_ranks

pytest.importorskip("h5py")

OPTIONS = (*trainer_ranks.SMALL, "--data=fake", "--fake-size=103", "--valid-epochs=0", "--checkpoint-epochs=0", "--epochs=9", "--optimizer=sgd",
           "--lr=0.002", "--log-steps=1", "--lease-timeout=0")


def options_in(path):
    """The options of the optimizer's first group of parameters in a checkpoint."""
    import h5py
    with h5py.File(path) as file:
        return json.loads(file["optimizer/param_groups"][()])[0]


def refused(folder, *options):
    text = trainer_ranks.run(folder, *OPTIONS, *options, ranks=1, code=76)
    lines = [line for line in text.splitlines() if line.startswith("rollcall: ")]
    assert len(lines) == 1, text
    return lines[0]


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
    left, again = re.search(r"of the (\d+) images that are left of it, (\d+) were seen in it before, and as many others are not", text).groups()
    assert int(left) == size_of_training(tmp_path) - 6 * 4 and 0 < int(again) <= 6 * 4
    assert "were seen in it before" not in trainer_ranks.run(tmp_path, *OPTIONS, change, "--max-steps=8", ranks=1)


def size_of_training(folder):
    return trainer_ranks.records(folder, "begin")[0]["training_images"]


VALIDATED = ("--valid-epochs=1", "--fake-size=40", "--keep-last=1", "--epochs=2")


def accuracies(folder):
    return {record["step"]: record["top1"] for record in trainer_ranks.records(folder, "validation")}


def test_the_best_of_another_folder_does_not_count_in_this_one(tmp_path):
    """Its checkpoint does not lie here: nothing would be the best, however long it trains."""
    one, two = tmp_path / "one", tmp_path / "two"
    trainer_ranks.run(one, *OPTIONS, *VALIDATED, "--epochs=1", ranks=1)
    file = trainer_ranks.checkpoints(one)[0]
    assert (one / "best.h5").readlink().name == file.name
    text = trainer_ranks.run(two, *OPTIONS, *VALIDATED, f"--resume={file}", ranks=1)
    assert f"of its 1 best validations 1 have no checkpoint in {two}" in text
    (step,) = accuracies(two)
    assert accuracies(two)[step] <= next(iter(accuracies(one).values())), "the test's condition"
    assert (two / "best.h5").readlink().name == f"step-{step:08d}.h5" and (two / "best.h5").is_file()


def test_the_best_of_this_folder_goes_on_to_count(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, *VALIDATED, "--epochs=1", ranks=1)
    best = (tmp_path / "best.h5").readlink().name
    text = trainer_ranks.run(tmp_path, *OPTIONS, *VALIDATED, f"--resume={tmp_path}/best.h5", ranks=1)
    assert "no longer count" not in text
    first, second = accuracies(tmp_path).items()
    assert (tmp_path / "best.h5").readlink().name == (best if second[1] <= first[1] else f"step-{second[0]:08d}.h5")


def test_the_best_by_other_images_stays_until_there_is_one_by_these(tmp_path):
    pictures, run = tmp_path / "pictures", tmp_path / "run"
    make_pictures(pictures / "train", 30)
    make_pictures(pictures / "val", 12)
    options = (*OPTIONS, *VALIDATED, f"--data={pictures}", "--epochs=4", "--checkpoint-steps=1", "--checkpoint-mode=sync")
    trainer_ranks.run(run, *options, "--max-steps=8", ranks=1)
    best = (run / "best.h5").readlink().name
    (pictures / "val" / "class 0" / "0.png").rename(pictures / "val" / "class 0" / "zero.png")
    text = trainer_ranks.run(run, *options, "--max-steps=10", "--valid-epochs=0", "--resume=continue-with-changes", ranks=1)
    assert "the best validation so far was of other images: the best checkpoint is chosen anew" in text
    assert (run / "best.h5").readlink().name == best and (run / "best.h5").is_file()
    trainer_ranks.run(run, *options, "--max-steps=12", ranks=1)
    (last,) = [step for step in accuracies(run) if step > 10]
    assert (run / "best.h5").readlink().name == f"step-{last:08d}.h5" and not (run / best).exists()


# ---------------------------------------------------------------- whose it is


def of_another_user(*paths):
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    for path in paths:
        os.chown(path, 4711, 4711)


def test_another_users_checkpoint_is_taken_only_by_its_name(tmp_path):
    """Whoever may write to a folder that a project shares can leave a checkpoint there, which is the newest."""
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    file = trainer_ranks.checkpoints(tmp_path)[0]
    of_another_user(file)
    for asked in ((), ("--resume=continue-with-changes",), ("--lr=0.004",)):
        line = refused(tmp_path, "--max-steps=2", *asked)
        assert f"{file} belongs to user 4711" in line and f"--resume={file}" in line and "--resume=never" in line
    assert trainer_ranks.checkpoints(tmp_path) == [file]
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", f"--resume={file}", ranks=1)
    assert "resumed from" in text and "warning" not in text
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", ranks=1)  # the newest is this user's again
    assert "resumed from" in text and "step-00000002.h5" in text


def test_records_are_not_added_to_another_users(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    records = tmp_path / "metrics.jsonl"
    of_another_user(records)
    before = records.read_bytes()
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=1, code=73)
    assert f"--run-dir: {records}: cannot be opened for appending: belongs to user 4711; try" in text
    assert records.read_bytes() == before


def test_a_folder_that_others_may_write_to_is_told_once(tmp_path):
    tmp_path.chmod(0o777)
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", "--checkpoint-steps=1", ranks=2)
    assert text.count("everybody may write to it, and so can stop this run") == 1
    tmp_path.chmod(0o755)
    assert "may write to it" not in trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=2)


def make_pictures(folder, count=60):
    import numpy
    from PIL import Image
    random = numpy.random.default_rng(5)
    for number in range(count):
        path = folder / f"class {number % 3}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (40, 40, 3), dtype=numpy.uint8)).save(path)


def test_another_seed_may_not_train_with_what_validated(tmp_path):
    """Pictures without a part for validation are split by the seed."""
    make_pictures(tmp_path / "pictures")
    data = f"--data={tmp_path}/pictures"
    trainer_ranks.run(tmp_path / "run", *OPTIONS, data, "--max-steps=1", ranks=1)
    line = refused(tmp_path / "run", data, "--max-steps=2", "--seed=3", "--resume=continue-with-changes")
    assert "--seed: 3: seed 0 decided which images validate" in line


def test_pictures_that_changed_are_another_training(tmp_path):
    """One picture less may leave as many to train on, and be another split; a renamed class is another label."""
    pictures = tmp_path / "pictures"
    make_pictures(pictures, 100)
    data = f"--data={pictures}"
    trainer_ranks.run(tmp_path / "run", *OPTIONS, data, "--max-steps=1", ranks=1)
    (pictures / "class 0" / "0.png").rename(tmp_path / "0.png")
    assert "has 99 images, the checkpoint is of a training with 100" in refused(tmp_path / "run", data, "--max-steps=2")
    (tmp_path / "0.png").rename(pictures / "class 0" / "0.png")
    (pictures / "class 1").rename(pictures / "Class 1")
    assert "the names of the classes are others" in refused(tmp_path / "run", data, "--max-steps=2", "--resume=continue-with-changes")
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
    assert "--init-from: /elsewhere/a.h5: is not read" in text


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
    for more, options in (({}, []), ({"SLURM_ARRAY_TASK_ID": "7"}, []), ({"SLURM_ARRAY_TASK_ID": "7"}, ["--run-name=resnet/a"])):
        done = subprocess.run([*train, *options], env={**environment, **more}, check=True, capture_output=True, text=True)
        printed.append("of the job array trains by itself" in done.stderr)
    assert printed == [False, True, False]
    assert sorted(path.name for path in (tmp_path / "rollcall").iterdir()) == ["resnet_a", "sweep", "sweep-7"]
    assert all((path / "checkpoints" / "step-00000001.h5").exists() for path in (tmp_path / "rollcall").iterdir())


# ---------------------------------------------------------------- a job that Slurm restarts


@pytest.mark.parametrize("resume", ["never", "FILE"])
def test_a_restarted_job_goes_on_from_what_it_wrote(tmp_path, resume):
    """--resume=never or FILE says where the job's first start begins; its restarts would else lose what that did."""
    trainer_ranks.run(tmp_path / "other", *OPTIONS, "--max-steps=1", ranks=1)
    given = f"--resume={tmp_path}/other/step-00000001.h5" if resume == "FILE" else "--resume=never"
    run = tmp_path / "run"
    trainer_ranks.run(run, *OPTIONS, "--max-steps=9", ranks=1, env={"SLURM_JOB_ID": "4"})  # of an earlier job, further on
    job = {"SLURM_JOB_ID": "5"}
    first = trainer_ranks.run(run, *OPTIONS, given, "--max-steps=2", ranks=1, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert "at epoch 1, step 9" not in first and "nothing is left" not in first
    again = trainer_ranks.run(run, *OPTIONS, given, "--max-steps=3", ranks=1, env={**job, "SLURM_RESTART_COUNT": "2"})
    assert f"resumed from {run}/step-00000002.h5" in again


def test_a_restarted_job_goes_on_from_what_its_stage_holds(tmp_path):
    run, stage, job = tmp_path / "run", tmp_path / "stage", {"SLURM_JOB_ID": "5"}
    stage.mkdir()
    options = (*OPTIONS, f"--checkpoint-stage={stage}")
    trainer_ranks.run(run, *options, "--max-steps=2", ranks=1, env=job)
    trainer_ranks.run(tmp_path / "longer", *OPTIONS, "--max-steps=4", ranks=1, env=job)
    shutil.copy(tmp_path / "longer" / "step-00000004.h5", next(stage.iterdir()))
    again = trainer_ranks.run(run, *options, "--resume=never", "--max-steps=5", ranks=1, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert "the checkpoint of step 4 was still in" in again and f"resumed from {run}/step-00000004.h5" in again


def test_a_folder_whose_checkpoints_are_gone_is_no_beginning(tmp_path):
    """The site deletes old files; what is left of a month are its records, which a run at step 0 would go on to write."""
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=1)
    trainer_ranks.checkpoints(tmp_path)[0].unlink()
    before = (tmp_path / "metrics.jsonl").read_text()
    for job in ({}, {"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "1"}):
        text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", ranks=1, code=66, env=job)
        assert f"rollcall: --resume: auto: {tmp_path} holds no checkpoint, though" in text and "one of step 2 that was written" in text
    assert (tmp_path / "metrics.jsonl").read_text() == before
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", "--resume=never", ranks=1)
    assert "begins at step 0, as --resume=never says" in text and "warning" not in text
    trainer_ranks.checkpoints(tmp_path)[0].unlink()
    assert "of step 1 that was written" in trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, code=66)


def test_what_a_restarted_job_saved_and_is_gone_is_missed_though_it_began_anew(tmp_path):
    """--resume=never meant its first start."""
    job = {"SLURM_JOB_ID": "5"}
    options = (*OPTIONS, "--max-steps=1", "--resume=never")
    trainer_ranks.run(tmp_path, *options, ranks=1, env=job)
    trainer_ranks.checkpoints(tmp_path)[0].unlink()
    text = trainer_ranks.run(tmp_path, *options, ranks=1, code=66, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert "a new job with --resume=never" in text
    trainer_ranks.run(tmp_path, *options, ranks=1, env={"SLURM_JOB_ID": "6"})


def test_a_job_that_is_restarted_before_its_first_checkpoint_begins_again(tmp_path):
    job = {"SLURM_JOB_ID": "5"}
    process = trainer_ranks.start(tmp_path, *OPTIONS, "--fake-size=100000", ranks=1, env=job)[0]
    while "step 1/" not in process.stdout.readline():
        assert process.poll() is None
    end(process, signal.SIGKILL)
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert f"begins at step 0: {tmp_path} holds no checkpoint" in text and "warning" not in text


def test_a_restarted_job_that_finds_nothing_at_all_says_so(tmp_path):
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, env={"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "2"})
    assert "warning: job 5 was started again (restart count 2), and" in text


def test_checkpoints_that_were_written_to_another_folder_are_told_of(tmp_path):
    records = f"--run-dir={tmp_path}/records"
    trainer_ranks.run(tmp_path / "one", *OPTIONS, records, "--max-steps=2", ranks=1)
    text = trainer_ranks.run(tmp_path / "two", *OPTIONS, records, "--max-steps=1", ranks=1)
    assert f"one of step 2 that was written to another folder ({tmp_path}/one)" in text


# ---------------------------------------------------------------- one writer


def lease(folder):
    return json.loads((folder / "lease.json").read_text())


def running(folder, *options):
    """A run that has begun to train, in the middle of a long epoch."""
    process = trainer_ranks.start(folder, *OPTIONS, "--fake-size=100000", *options, ranks=1)[0]
    for line in process.stdout:
        if "step 1/" in line:
            return process
    raise AssertionError(process.communicate()[1])


def end(process, number):
    process.send_signal(number)
    process.communicate()


def test_a_second_run_does_not_write_to_the_folder_of_a_running_one(tmp_path):
    process = running(tmp_path)
    try:
        assert lease(tmp_path)["pid"] == process.pid
        text = trainer_ranks.run(tmp_path, *OPTIONS, "--fake-size=100000", ranks=1, code=73)
        assert f"process {process.pid} on" in text and "writes there; try" in text and text.count("rollcall: ") == 1
        assert trainer_ranks.checkpoints(tmp_path) == []
    finally:
        end(process, signal.SIGTERM)
    assert not (tmp_path / "lease.json").exists() and len(trainer_ranks.checkpoints(tmp_path)) == 1


def test_a_second_run_does_not_write_records_among_those_of_a_running_one(tmp_path):
    """Their checkpoints lie in folders of their own; the reports would be made of both."""
    records = tmp_path / "records"
    process = running(tmp_path / "one", f"--run-dir={records}")
    try:
        assert lease(records) == lease(tmp_path / "one")
        text = trainer_ranks.run(tmp_path / "two", *OPTIONS, f"--run-dir={records}", ranks=1, code=73)
        assert f"rollcall: --run-dir: {records}: process {process.pid} on" in text and "another --run-name or --run-dir" in text
        assert not (tmp_path / "two" / "lease.json").exists()
    finally:
        end(process, signal.SIGTERM)
    assert not (records / "lease.json").exists()
    trainer_ranks.run(tmp_path / "two", *OPTIONS, f"--run-dir={records}", "--max-steps=1", ranks=1)


def test_a_holder_that_is_dead_in_one_folder_is_not_waited_for_in_the_other(tmp_path):
    for folder in (tmp_path / "run", tmp_path / "records"):
        elsewhere(folder)
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, f"--run-dir={tmp_path}/records", "--max-steps=1", "--lease-timeout=16", ranks=1)
    assert text.count("waiting up to") == 1


def test_a_run_that_waits_begins_when_the_other_ends(tmp_path):
    first = running(tmp_path)
    second = trainer_ranks.start(tmp_path, *OPTIONS, "--fake-size=100000", "--lease-timeout=120", "--max-steps=1", ranks=1)[0]
    assert "waiting up to 120 s for its end" in second.stderr.readline()
    end(first, signal.SIGTERM)
    assert second.wait(120) == 0


def test_a_killed_runs_folder_is_free_at_once(tmp_path):
    end(running(tmp_path), signal.SIGKILL)
    assert (tmp_path / "lease.json").exists()
    trainer_ranks.run(tmp_path, *OPTIONS, "--fake-size=100000", "--max-steps=1", ranks=1)
    assert not (tmp_path / "lease.json").exists()


def elsewhere(folder, **more):
    """The lease of a holder on another host, of whom nobody knows whether it lives."""
    folder.mkdir(exist_ok=True)
    holder = {"nonce": "0123", "host": "elsewhere", "boot": "another", "processes": "pid:[1]", "pid": 17, "started": "1", "job": "",
              "restarts": "0"}
    (folder / "lease.json").write_text(json.dumps({**holder, **more}))


def test_a_holder_elsewhere_is_not_taken_for_dead_without_a_wait(tmp_path):
    elsewhere(tmp_path)
    assert "process 17 on elsewhere writes there" in trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, code=73)


@contextlib.contextmanager
def renewing(path):
    """As a holder does that lives."""
    ended = threading.Event()

    def renew():
        while not ended.wait(1):
            with contextlib.suppress(FileNotFoundError):
                os.utime(path)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("renewals", ["none", "one", "all"])
def test_a_holder_elsewhere_is_judged_by_its_renewals(tmp_path, renewals):
    """One that was killed after a renewal is as dead as another."""
    elsewhere(tmp_path)
    process = trainer_ranks.start(tmp_path, *OPTIONS, "--max-steps=1", "--lease-timeout=16", ranks=1)[0]
    process.stderr.readline()
    if renewals == "one":
        os.utime(tmp_path / "lease.json")
    with renewing(tmp_path / "lease.json") if renewals == "all" else contextlib.nullcontext():
        text = trainer_ranks.finish([process], 73 if renewals == "all" else 0)
    assert ("writes there; try" in text) == (renewals == "all")


def test_the_same_job_restarted_knows_that_its_last_start_has_ended(tmp_path):
    elsewhere(tmp_path, job="5", restarts="0")
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, env={"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "1"})


@pytest.mark.parametrize("holder, mine, free", [("9", "10", True), ("10", "9", False), ("1", None, False), ("1", "1", False)])
def test_a_start_of_a_job_takes_the_folder_from_earlier_ones_alone(tmp_path, holder, mine, free):
    """A process of the first start that Slurm did not end may come late."""
    elsewhere(tmp_path, job="5", restarts=holder)
    env = {"SLURM_JOB_ID": "5", **({"SLURM_RESTART_COUNT": mine} if mine else {})}
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, env=env, code=0 if free else 73)
    assert ("writes there; try" in text) != free


@pytest.mark.parametrize("answer, code, free", [
    ("", 0, True), ("PENDING", 0, True), ("slurm_load_jobs error: Invalid job id specified", 1, True),
    ("RUNNING", 0, False), ("SUSPENDED", 0, False), ("Unable to contact slurm controller", 1, False)])
def test_slurms_word_on_the_job_of_a_holder(tmp_path, answer, code, free):
    programs = tmp_path / "programs"
    programs.mkdir()
    squeue = programs / "squeue"
    squeue.write_text(f'#!/bin/sh\n[ "$*" = "--noheader --format=%T --jobs=77" ] || exit 9\necho "{answer}"\nexit {code}\n')
    squeue.chmod(0o755)
    elsewhere(tmp_path / "run", job="77", cluster="here")
    trainer_ranks.run(tmp_path / "run", *OPTIONS, "--max-steps=1", "--lease-timeout=9", ranks=1, code=0 if free else 73,
                      env={"PATH": f"{programs}:{os.environ['PATH']}", "SLURM_CLUSTER_NAME": "here"})


@pytest.mark.parametrize("what", ["renewed", "of another cluster"])
def test_slurms_word_does_not_count_where_the_holder_lives_or_is_another_clusters(tmp_path, what):
    """PrivateData hides a job that runs; two clusters with one file system both have a job 77."""
    squeue = tmp_path / "programs" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\necho Invalid job id specified\nexit 1\n")
    squeue.chmod(0o755)
    run = tmp_path / "run"
    elsewhere(run, job="77", cluster="there" if what == "of another cluster" else "here")
    process = trainer_ranks.start(run, *OPTIONS, "--max-steps=1", "--lease-timeout=9", ranks=1,
                                  env={"PATH": f"{squeue.parent}:{os.environ['PATH']}", "SLURM_CLUSTER_NAME": "here"})
    process[0].stderr.readline()
    with renewing(run / "lease.json") if what == "renewed" else contextlib.nullcontext():
        trainer_ranks.finish(process, 73)


def test_a_run_whose_folder_was_taken_ends_and_saves_nothing(tmp_path):
    """It had stood still for so long that the other one took it for dead."""
    process = running(tmp_path)
    elsewhere(tmp_path, nonce="4567")
    text = process.communicate(timeout=120)
    assert process.returncode == 73 and "another run writes there" in text[1]
    assert trainer_ranks.checkpoints(tmp_path) == [] and lease(tmp_path)["nonce"] == "4567"


def test_a_run_whose_folder_is_taken_while_it_validates_saves_nothing(tmp_path):
    """Its validation has no steps that would tell."""
    options = ("--fake-size=200", "--max-steps=1", "--valid-epochs=1", "--checkpoint-steps=0")
    process = running(tmp_path, *options)
    holder = lease(tmp_path)
    (tmp_path / "lease.json").write_text(json.dumps({**holder, "nonce": "another"}))
    text = trainer_ranks.finish([process], 73)
    assert "another run writes there, which took this one for dead" in text
    assert trainer_ranks.checkpoints(tmp_path) == []


@pytest.mark.parametrize("successor", ["runs", "has ended"])
def test_a_run_whose_folder_is_taken_while_it_saves_gives_way(tmp_path, successor):
    """It is stopped in the middle of a write. The other one goes on meanwhile, saves and may have ended, its lease with it."""
    process = running(tmp_path, "--checkpoint-steps=3", "--checkpoint-overlap=wait")
    while not any(".tmp-" in path.name for path in tmp_path.iterdir()):
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    there = {path.name for path in trainer_ranks.checkpoints(tmp_path)}
    (tmp_path / "step-00000900.h5").write_bytes(b"of the other one")
    if successor == "runs":
        elsewhere(tmp_path, nonce="4567")
    else:
        (tmp_path / "lease.json").unlink()
    process.send_signal(signal.SIGCONT)
    text = process.communicate(timeout=120)
    assert process.returncode == 73 and "another run writes there" in text[1]
    assert {path.name for path in tmp_path.glob("step-*")} == {*there, "step-00000900.h5"}
    assert (tmp_path / "lease.json").exists() == (successor == "runs")


def test_what_is_no_lease_is_nobodys(tmp_path):
    (tmp_path / "lease.json").write_text("{")
    process = trainer_ranks.start(tmp_path, *OPTIONS, "--max-steps=1", "--lease-timeout=16", ranks=1)
    trainer_ranks.finish(process)
    assert not pathlib.Path(tmp_path / "lease.json").exists()
