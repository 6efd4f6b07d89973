"""Ranks that were started with different settings or files are rejected."""
import shutil

import pytest
import trainer_ranks
from trainer_ranks import SMALL

pytestmark = pytest.mark.python
pytest.importorskip("h5py")

OPTIONS = (*SMALL, "--fake-size=32", "--valid-epochs=0", "--checkpoint-epochs=0", "--max-steps=2", "--checkpoint-steps=2", "--lr=0.01")


def with_rank_1_given(folder, *more, env=(), code=0, options=OPTIONS):
    prefix = ["env", *env, "sh", "-c", 'exec "$@" ' + " ".join(more), "sh"]
    return trainer_ranks.finish(trainer_ranks.start(folder, *options, prefixes={1: prefix}), code)


@pytest.mark.parametrize("parallel", ["ddp", pytest.param("fsdp", marks=pytest.mark.long)])
@pytest.mark.parametrize("more, named, values", [
    ("--lr=0.02", "--lr: 0.02: ", "rank 0 has 0.01"),
    ("--seed=7", "--seed: 7: ", "rank 0 has 0"),
    ("--batch-size=8", "--batch-size: 8: ", "rank 0 has 4"),
    ("--global-batch=15", "--global-batch: 15: ", "rank 0 has 0"),
    ("--checkpoint-steps=1", "--checkpoint-steps: 1: ", "rank 0 has 2"),
    ("--resume=never", "--resume: never: ", "rank 0 has auto"),
    ("--resume=continue-with-changes", "--resume: continue-with-changes: ", "rank 0 has auto"),
    ("--resume=/none.h5", "--resume: /none.h5: ", "rank 0 has auto"),
    ("--init-from=/none.h5", "--init-from: /none.h5: ", "rank 0 has no value"),
])
def test_a_differing_setting_on_one_rank_is_rejected_by_name(tmp_path, parallel, more, named, values):
    text = with_rank_1_given(tmp_path, more, code=76, options=(*OPTIONS, f"--parallel={parallel}"))
    [line] = [line for line in text.splitlines() if line.startswith("rollcall: ")]
    assert line.startswith("rollcall: " + named) and "rank 1 on " in line and values in line and "; try " in line
    assert not trainer_ranks.checkpoints(tmp_path) and not (tmp_path / "metrics.jsonl").exists()


def test_a_differing_environment_variable_is_rejected(tmp_path):
    assert "--weight-decay: 0.3: " in with_rank_1_given(tmp_path, env=["ROLLCALL_WEIGHT_DECAY=0.3"], code=76)


def test_per_node_settings_and_spellings_may_differ(tmp_path):
    with_rank_1_given(tmp_path, "--lr=1e-2", "--train-num-workers=0", "--prefetch=3", "--progress=none")
    assert trainer_ranks.checkpoints(tmp_path)


@pytest.mark.parametrize("parallel", ["ddp", pytest.param("fsdp", marks=pytest.mark.long)])
@pytest.mark.parametrize("option", ["--init-from", "--resume"])
def test_a_different_file_under_the_same_path_is_rejected(tmp_path, option, parallel):
    """As with copies on node-local disks, one of them outdated."""
    for seed in (1, 2):
        trainer_ranks.run(tmp_path / str(seed), *OPTIONS, f"--seed={seed}")
    mine, other = (trainer_ranks.checkpoints(tmp_path / str(seed))[-1] for seed in (1, 2))
    options = (*OPTIONS, f"{option}={mine}", "--max-steps=4", f"--parallel={parallel}")
    text = with_rank_1_given(tmp_path / "run", f"{option}={other}", code=76, options=options)
    assert f"rollcall: {option}: {mine}: rank 1 opened a different file than rank 0 under this name; try " in text
    copy = tmp_path / "copy.h5"
    shutil.copy(mine, copy)
    with_rank_1_given(tmp_path / "same", f"{option}={copy}", options=options)
