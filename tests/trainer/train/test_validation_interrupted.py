"""A stop during validation: the epoch is saved before it, the signal takes effect within a batch, and the validation is repeated."""
import json
import os
import shutil
import signal
import subprocess
import time

import pytest
import small_trainings
import trainer_ranks
from small_trainings import SAME_BITS, SMALL

pytest.importorskip("h5py")

pytestmark = [pytest.mark.python, pytest.mark.long]

SETTINGS = {**SMALL, **SAME_BITS, "optimizer": "sgd", "batch-size": 4, "epochs": 2, "log-steps": 1, "progress": "none"}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A few pictures to train with, and so many to validate with that it takes seconds."""
    tree = small_trainings.make_tree(tmp_path_factory.mktemp("pictures"), (32, 32), train=1, valid=1)
    for picture in list((tree / "val").rglob("*.*")):
        for copy in range(50):
            os.link(picture, picture.with_name(f"copy {copy}{picture.suffix}"))
    return tree


def events(folder):
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def of_kind(folder, kind):
    return [(record["step"], record["loss"], record["top1"], record["samples"]) for record in events(folder) if record["event"] == kind]


def stop_in_validation(folder, options, ranks, number):
    """Sends rank 0 a signal once the first epoch has ended, which only validation follows."""
    processes = trainer_ranks.start(folder, *options, ranks=ranks)
    end = time.monotonic() + 120
    while not of_kind(folder, "epoch"):
        assert time.monotonic() < end and processes[0].poll() is None
        time.sleep(0.01)
    processes[0].send_signal(number)
    trainer_ranks.finish(processes, 75)


@pytest.mark.parametrize("parallel, ranks, number", [("ddp", 1, signal.SIGTERM), ("ddp", 2, signal.SIGUSR1), ("fsdp", 2, signal.SIGTERM)])
def test_a_signal_during_validation_saves_and_repeats_the_validation(tmp_path, pictures, parallel, ranks, number):
    import h5py
    options = small_trainings.options({**SETTINGS, "data": str(pictures), "parallel": parallel})
    whole, part = tmp_path / "whole", tmp_path / "part"
    trainer_ranks.run(whole, *options, ranks=ranks)
    stop_in_validation(part, options, ranks, number)
    assert of_kind(part, "validation") == []
    first_epochs = of_kind(part, "epoch")[0][0]
    newest = trainer_ranks.checkpoints(part)[-1]
    assert newest.name == f"step-{first_epochs:08}.h5"
    with h5py.File(newest) as file:
        assert int(file["progress/validation_due"][()]) == 1 and int(file["progress/epoch"][()]) == 1
    trainer_ranks.run(part, *options, ranks=ranks)
    assert of_kind(part, "validation") == of_kind(whole, "validation") and len(of_kind(whole, "validation")) == 2
    assert of_kind(part, "epoch") == of_kind(whole, "epoch")
    last = trainer_ranks.checkpoints(whole)[-1].name
    assert trainer_ranks.differences(whole / last, part / last) == []


@pytest.mark.parametrize("ranks", [1, 2])
def test_requeues_of_a_validation_that_never_ends_are_limited(tmp_path, pictures, ranks):
    """All but the first have all of their time for it. One or two may have been preempted; three were too short. Who submits
    again has changed something."""
    options = small_trainings.options({**SETTINGS, "data": str(pictures)})
    stop_in_validation(tmp_path, options, ranks, signal.SIGUSR1)
    for number, code in enumerate((75, 75, 64, 75)):
        processes = trainer_ranks.start(tmp_path, *options, ranks=ranks)
        end = time.monotonic() + 120
        while sum(record["event"] == "resume" for record in events(tmp_path)) <= number:
            assert time.monotonic() < end and processes[0].poll() is None
            time.sleep(0.01)
        processes[0].send_signal(signal.SIGUSR1)
        text = trainer_ranks.finish(processes, code)
        told = "the last 3 runs only repeated it" in text and "--valid-epochs=0, then submitting again" in text
        assert told == (code == 64)
    trainer_ranks.run(tmp_path, *options, ranks=ranks)
    assert len(of_kind(tmp_path, "validation")) == 2 and len(of_kind(tmp_path, "epoch")) == 2


def test_an_epoch_is_saved_before_its_validation(tmp_path, pictures):
    """A job that is killed during validation loses no step."""
    options = small_trainings.options({**SETTINGS, "data": str(pictures), "checkpoint-mode": "sync", "progress": "lines"})
    process = trainer_ranks.start(tmp_path, *options, ranks=1)[0]
    end = time.monotonic() + 120
    while not any(record["event"] == "checkpoint" for record in events(tmp_path)):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert of_kind(tmp_path, "validation") == [] and len(trainer_ranks.checkpoints(tmp_path)) == 1
    assert "resumed from" in trainer_ranks.run(tmp_path, *options, "--max-steps=3", ranks=1)


def test_a_run_ended_by_max_steps_is_validated(tmp_path, pictures):
    """In the middle of an epoch, at its end, and again when more steps are asked for."""
    options = small_trainings.options({**SETTINGS, "data": str(pictures), "valid-epochs": 2, "epochs": 9})
    for steps, validated in ((1, [1]), (2, [1, 2]), (5, [1, 2, 4, 5])):
        trainer_ranks.run(tmp_path, *options, f"--max-steps={steps}", ranks=1)
        assert [step for step, *_ in of_kind(tmp_path, "validation")] == validated


@pytest.mark.parametrize("batch_size", [4, 8], ids=["in mid-epoch", "at an epoch's end"])
def test_the_next_run_validates_a_run_stopped_at_its_last_step(tmp_path, pictures, batch_size):
    settings = {**SETTINGS, "data": str(pictures), "batch-size": batch_size, "max-steps": 1}
    whole, part = tmp_path / "whole", tmp_path / "part"
    trainer_ranks.run(whole, *small_trainings.options(settings), ranks=1)
    near = {"SLURM_JOB_END_TIME": str(int(time.time()) + 30)}
    trainer_ranks.run(part, *small_trainings.options(settings), "--save-before-limit=60", ranks=1, code=75, env=near)
    assert of_kind(part, "validation") == []
    trainer_ranks.run(part, *small_trainings.options(settings), ranks=1)
    for kind in ("step", "epoch", "validation"):
        assert of_kind(part, kind) == of_kind(whole, kind)
    assert len(of_kind(whole, "validation")) == 1


def test_a_due_validation_is_skipped_with_valid_epochs_zero(tmp_path, pictures):
    """A run whose validation fails, for example on a broken image, can continue without it."""
    options = small_trainings.options({**SETTINGS, "data": str(pictures)})
    stop_in_validation(tmp_path, options, 1, signal.SIGTERM)
    trainer_ranks.run(tmp_path, *options, "--valid-epochs=0", ranks=1)
    assert of_kind(tmp_path, "validation") == []
    assert [step for step, *_ in of_kind(tmp_path, "epoch")] == [2, 4]


def test_the_next_run_ends_an_epoch_saved_at_its_last_step(tmp_path, pictures):
    """A kill between the save of an epoch's last step and that of its end leaves such a file."""
    options = small_trainings.options({**SETTINGS, "data": str(pictures), "valid-epochs": 2, "checkpoint-steps": 2, "checkpoint-epochs": 0})
    trainer_ranks.run(tmp_path / "before", *options, "--max-steps=3", ranks=1)
    (tmp_path / "after").mkdir()
    shutil.copy(tmp_path / "before" / "step-00000002.h5", tmp_path / "after")
    trainer_ranks.run(tmp_path / "after", *options, "--max-steps=2", "--valid-epochs=1", ranks=1)
    assert [step for step, *_ in of_kind(tmp_path / "after", "epoch")] == [2]
    assert [step for step, *_ in of_kind(tmp_path / "after", "validation")] == [2]


def test_the_final_save_is_made_after_too_many_failed_saves(tmp_path, pictures):
    """The rename of the run's first checkpoint fails; the disk works again when the run ends."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    options = small_trainings.options({**SETTINGS, "data": str(pictures), "epochs": 1, "checkpoint-steps": 2, "checkpoint-mode": "sync",
                                      "checkpoint-retries": 0, "checkpoint-failures": 1, "keep-last": 9, "progress": "lines"})
    fault = ["strace", "-f", "-qq", "-o", tmp_path / "trace", "-e", "trace=rename", "-e", "inject=rename:error=EIO:when=1"]
    command = [*fault, trainer_ranks.PROGRAM, f"--checkpoint-dir={tmp_path}", *options]
    done = subprocess.run([str(word) for word in command], env=trainer_ranks.environment(tmp_path, 0, 1), capture_output=True, text=True,
                          check=False, timeout=240)
    assert "(INJECTED)" in (tmp_path / "trace").read_text()
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in trainer_ranks.checkpoints(tmp_path)] == ["step-00000002.h5"]
    assert len(of_kind(tmp_path, "validation")) == 1
