"""Images that cannot be read: skipped, counted over all ranks, and an error if there are too many."""
import json
import shutil

import pytest
import small_trainings
import trainer_ranks

pytestmark = pytest.mark.python
h5py = pytest.importorskip("h5py")

SETTINGS = {**small_trainings.SMALL, "optimizer": "sgd", "epochs": 1, "log-steps": 1, "valid-epochs": 1, "checkpoint-steps": 1,
            "checkpoint-mode": "sync", "train-num-workers": 1}


def options(root, **changes):
    return small_trainings.options({**SETTINGS, "data": str(root), **changes})


def pictures(root, part):
    return sorted(path for path in (root / part).rglob("*") if not path.is_dir())


def damage(path):
    path.write_bytes(path.read_bytes()[:200])


def make_unreadable(path):
    """As with a lost file server: the name exists, its content does not."""
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


@pytest.fixture
def root(tmp_path):
    return small_trainings.make_tree(tmp_path / "tree", train=20, valid=10)


def records(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def of(folder, event):
    return [record for record in records(folder) if record["event"] == event]


def errors(text):
    return [line for line in text.splitlines() if line.strip().startswith("rollcall: ") and "warning" not in line]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_bad_samples_of_all_ranks_are_counted_by_kind_and_reported(tmp_path, root, parallel):
    train, valid = pictures(root, "train"), pictures(root, "val")
    damage(train[0])
    make_unreadable(train[1])
    damage(valid[0])
    text = trainer_ranks.run(tmp_path / "run", *options(root, parallel=parallel, **{"max-bad-samples": 0.2}), ranks=2)
    [epoch] = of(tmp_path / "run", "epoch")
    assert (epoch["samples"], epoch["bad_samples"], epoch["unread_samples"]) == (len(train) - 2, 2, 1)
    assert sum(step["bad_samples"] for step in of(tmp_path / "run", "step")) == 2
    [validation] = of(tmp_path / "run", "validation")
    assert (validation["samples"], validation["bad_samples"], validation["unread_samples"]) == (len(valid) - 1, 1, 0)
    assert "skipped images: 2 (1 damaged, 1 unreadable)" in text


@pytest.mark.parametrize("spoil, code, action", [(damage, 65, "repairing the data set"), (make_unreadable, 74, "checking the file system")])
def test_too_many_bad_samples_end_the_run_and_keep_checkpoints(tmp_path, root, spoil, code, action):
    for path in pictures(root, "train")[::4]:
        spoil(path)
    text = trainer_ranks.run(tmp_path / "run", *options(root), ranks=2, code=code)
    [error] = errors(text)
    count = len(pictures(root, "train"))
    assert f" of {count} images for training were skipped" in error and action in error
    assert records(tmp_path / "run")[-1]["event"] == "failed"
    for path in trainer_ranks.checkpoints(tmp_path / "run"):
        with h5py.File(path) as file:
            sums = file["progress/epoch_totals"]
            assert sums["damaged"][()] + sums["unread"][()] <= 0.05 * count


def test_too_many_bad_validation_samples_leave_no_best_checkpoint(tmp_path, root):
    for path in pictures(root, "val")[::4]:
        make_unreadable(path)
    text = trainer_ranks.run(tmp_path / "run", *options(root), ranks=1, code=74)
    assert "images for validation were skipped" in errors(text)[0]
    assert not (tmp_path / "run" / "best.h5").exists()


@pytest.mark.long
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_too_many_bad_samples_do_not_abort_a_pending_save(tmp_path, root, parallel):
    """All ranks end together; a rank that exited at once would leave the slow save of the others unfinished."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    for path in pictures(root, "train")[::4]:
        make_unreadable(path)
    slow = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=1000000"]
    given = options(root, parallel=parallel, **{"checkpoint-mode": "async", "checkpoint-overlap": "skip", "checkpoint-retries": 0})
    trainer_ranks.finish(trainer_ranks.start(tmp_path / "run", *given, ranks=2, prefixes={0: slow}), code=74)
    assert [path.name for path in trainer_ranks.checkpoints(tmp_path / "run")] == ["step-00000001.h5"]
    assert of(tmp_path / "run", "step")[-1]["step"] > 1


def test_the_bad_sample_count_of_an_epoch_survives_a_resume(tmp_path, root):
    for path in pictures(root, "train")[::4]:
        damage(path)
    given = options(root, **{"max-bad-samples": 0.9})
    for steps in (2, 4):
        trainer_ranks.run(tmp_path / "run", *given, f"--max-steps={steps}", ranks=1)
    assert sum(step["bad_samples"] for step in of(tmp_path / "run", "step")) > 1
    trainer_ranks.run(tmp_path / "run", *given, ranks=1)
    [epoch] = of(tmp_path / "run", "epoch")
    assert epoch["bad_samples"] == len(pictures(root, "train")[::4])
