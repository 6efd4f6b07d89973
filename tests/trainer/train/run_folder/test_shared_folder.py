"""A folder that other users may write to: which checkpoints and records a run uses."""
import os

import pytest
import trainer_ranks
from folder_runs import OPTIONS, refused

pytest.importorskip("h5py")

pytestmark = [pytest.mark.python, pytest.mark.long]


def of_another_user(*paths):
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    for path in paths:
        os.chown(path, 4711, 4711)


def test_a_checkpoint_of_another_user_is_used_only_if_named(tmp_path):
    """Any member of a project can put a newest checkpoint into its shared folder."""
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


def test_records_of_another_user_are_not_appended_to(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1)
    records = tmp_path / "metrics.jsonl"
    of_another_user(records)
    before = records.read_bytes()
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=1, code=73)
    assert f"--run-dir: {records}: cannot be opened for appending: belongs to user 4711; try" in text
    assert records.read_bytes() == before


def test_a_folder_writable_by_others_is_reported_once(tmp_path):
    tmp_path.chmod(0o777)
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", "--checkpoint-steps=1", ranks=2)
    assert text.count("everybody may write to it; others can therefore stop this run") == 1
    tmp_path.chmod(0o755)
    assert "may write to it" not in trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=2)
