"""Background saves: skipped, failed and retained ones, and --init-from."""
import contextlib
import os
import pathlib
import subprocess

import pytest

import trainer_ranks
from trainer_ranks import SMALL, checkpoints, datasets, differences, records

pytest.importorskip("h5py")

pytestmark = [pytest.mark.python, pytest.mark.long]

OPTIONS = (*SMALL, "--valid-epochs=0", "--checkpoint-epochs=0", "--fake-size=80", "--lr=0.001")


def steps(folder, event):
    return [record["step"] for record in records(folder, event)]


def obstruct(folder, step):
    """A folder where the checkpoint's name belongs: the save cannot be finished, for root neither."""
    (folder / f"step-{step:08d}.h5" / "in the way").mkdir(parents=True)


def test_every_save_is_written_or_skipped_and_the_last_is_written(tmp_path):
    skipping, waiting, sync = tmp_path / "skip", tmp_path / "wait", tmp_path / "sync"
    options = (*OPTIONS, "--max-steps=6", "--checkpoint-steps=1", "--keep-last=9")
    trainer_ranks.run(skipping, *options)
    trainer_ranks.run(waiting, *options, "--checkpoint-overlap=wait")
    trainer_ranks.run(sync, *options, "--checkpoint-mode=sync")
    assert sorted(steps(skipping, "checkpoint") + steps(skipping, "checkpoint_skipped")) == [1, 2, 3, 4, 5, 6]
    assert [p.name for p in checkpoints(skipping)] == [f"step-{s:08d}.h5" for s in steps(skipping, "checkpoint")]
    assert checkpoints(skipping)[-1].name == "step-00000006.h5"
    assert steps(waiting, "checkpoint") == steps(sync, "checkpoint") == [1, 2, 3, 4, 5, 6]
    for one, other in zip(checkpoints(waiting), checkpoints(sync)):
        assert differences(one, other) == [], "a copy made during the next step is not the state of its own step"


def test_a_failed_save_is_a_warning_and_the_next_one_succeeds(tmp_path):
    obstruct(tmp_path, 2)
    output = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=6", "--checkpoint-steps=2", "--checkpoint-overlap=wait",
                               "--checkpoint-retries=0", "--resume=never")
    assert output.count("the checkpoint of step 2 was not written") == 1
    assert [record["written"] for record in records(tmp_path, "checkpoint")] == [False, True, True]


def test_too_many_failures_in_a_row_stop_all_ranks(tmp_path):
    for step in range(1, 50):
        obstruct(tmp_path, step)
    output = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=49", "--checkpoint-steps=1", "--checkpoint-retries=0",
                               "--checkpoint-failures=2", "--resume=never", code=73)
    assert output.count("was not written") == 2
    assert sum(line.startswith("rollcall: ") and "warning" not in line for line in output.splitlines()) == 1


def test_keep_last_keep_best_and_keep_every_are_combined(tmp_path):
    trainer_ranks.run(tmp_path, *SMALL, "--fake-size=20", "--epochs=8", "--valid-epochs=1", "--keep-last=2", "--keep-best=2",
                      "--keep-every=10", ranks=1)
    saved = steps(tmp_path, "epoch")
    best = sorted(records(tmp_path, "validation"), key=lambda r: (-r["top1"], r["step"]))[:2]
    kept = {record["step"] for record in best} | set(saved[-2:])
    kept |= {min(s for s in saved if s // 10 == stretch) for stretch in {s // 10 for s in saved}}
    assert {int(p.name[5:13]) for p in checkpoints(tmp_path)} == kept
    assert (tmp_path / "best.h5").readlink().name == f"step-{best[0]['step']:08d}.h5"


def best_of(validations):
    return max(validations, key=lambda record: (record["top1"], -record["step"]))["step"]


@pytest.mark.parametrize("ranks, seed", [(1, 2), (2, 3)])
def test_the_best_checkpoint_stays_if_saving_a_better_one_fails(tmp_path, ranks, seed):
    """A better step that was never written neither removes the best checkpoint nor blocks the next best."""
    options = (*SMALL, "--model=resnet18", "--data=fake", f"--seed={seed}", "--fake-size=60", f"--batch-size={16 // ranks}", "--epochs=5",
               "--lr=0.02", "--valid-epochs=1", "--checkpoint-epochs=0", "--checkpoint-steps=5", "--checkpoint-retries=0", "--keep-last=1",
               "--keep-best=1")
    whole, part = tmp_path / "whole", tmp_path / "part"
    trainer_ranks.run(whole, *options, ranks=ranks)
    validations = records(whole, "validation")
    record_steps = [v["step"] for i, v in enumerate(validations) if v["step"] == best_of(validations[:i + 1])]
    assert len(record_steps) > 1
    failing = [step for step in record_steps[1:] if step != validations[-1]["step"]][-1]
    obstruct(part, failing)
    trainer_ranks.run(part, *options, "--resume=never", ranks=ranks)
    assert [record["step"] for record in records(part, "checkpoint") if not record["written"]] == [failing]
    assert [v["step"] for v in records(part, "validation")] == [v["step"] for v in validations]
    best = best_of([v for v in validations if v["step"] != failing])
    assert (part / "best.h5").readlink().name == f"step-{best:08d}.h5" and (part / "best.h5").is_file()


def test_prune_keeps_the_same_files_as_training_with_the_same_options(tmp_path):
    options = (*SMALL, "--fake-size=20", "--epochs=8", "--valid-epochs=1")
    rules = ("--keep-last=2", "--keep-best=2", "--keep-every=10")
    thrifty, lavish = tmp_path / "thrifty", tmp_path / "lavish"
    trainer_ranks.run(thrifty, *options, *rules, ranks=1)
    trainer_ranks.run(lavish, *options, "--keep-last=99", "--keep-best=2", ranks=1)
    assert len(checkpoints(lavish)) == 8 > len(checkpoints(thrifty))
    subprocess.run([trainer_ranks.BUILD / "trainer" / "rollcall-checkpoint", "prune", *rules, lavish], check=True)
    assert [p.name for p in checkpoints(lavish)] == [p.name for p in checkpoints(thrifty)]
    assert (lavish / "best.h5").readlink() == (thrifty / "best.h5").readlink()


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_init_from_loads_all_but_a_head_with_other_classes(tmp_path, parallel):
    old, new = tmp_path / "old", tmp_path / "new"
    trainer_ranks.run(old, *OPTIONS, "--max-steps=2", "--num-classes=20")
    source = old / "step-00000002.h5"
    output = trainer_ranks.run(new, *OPTIONS, "--max-steps=1", "--num-classes=12", "--lr=0", f"--init-from={source}",
                               f"--parallel={parallel}")
    assert "fc.weight is [20,64] in the file and [12,64] in this model, fc.bias is [20] in the file and [12] in this model" in output
    before, after = datasets(source), datasets(new / "step-00000001.h5")
    learned = [name for name in before if name.startswith("model/") and not name.startswith("model/fc")
               and not name.endswith(("running_mean", "running_var", "num_batches_tracked"))]
    assert len(learned) > 50 and [name for name in learned if before[name] != after[name]] == []
    wrong = trainer_ranks.run(tmp_path / "wrong", *OPTIONS, "--max-steps=1", "--model=resnet18", f"--init-from={source}", ranks=1, code=76)
    assert "--init-from" in wrong and "another model" in wrong


def threads_named(process, name):
    tasks = pathlib.Path(f"/proc/{process.pid}/task")
    found = []
    for task in tasks.iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # threads of the start end meanwhile
            if (task / "comm").read_text().strip() == name:
                found.append(int(task.name))
    return found


def test_a_background_save_copies_its_step_before_the_next_update(tmp_path):
    """The threads that save get hardly any time while the training computes; their checkpoint is of its step all the same."""
    # Of resnet18 there are 134 MB to copy, which a thread that waits for the CPU cannot have done by chance.
    options = (*OPTIONS, "--model=resnet18", "--max-steps=8", "--checkpoint-steps=7", "--checkpoint-overlap=wait", "--log-steps=1",
               "--train-num-workers=0")
    slow, sync = tmp_path / "slow", tmp_path / "sync"
    trainer_ranks.run(sync, *options, "--checkpoint-mode=sync", ranks=1)
    process = trainer_ranks.start(slow, *options, ranks=1)[0]
    os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
    savers = []
    while len(savers) < 2 and process.poll() is None:
        savers = threads_named(process, "rollcall-save")
    for thread in savers:
        os.sched_setaffinity(thread, {min(os.sched_getaffinity(0))})
        os.setpriority(os.PRIO_PROCESS, thread, 19)
    metrics = slow / "metrics.jsonl"
    assert len(savers) == 2 and (not metrics.exists() or metrics.read_text().count('"step"') < 5)
    trainer_ranks.finish([process])
    name = "step-00000007.h5"
    assert trainer_ranks.differences(slow / name, sync / name) == []
