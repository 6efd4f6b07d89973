"""Checkpoints on a file system with a page cache per host: NFS, as tests/support/nfs_client.cpp emulates it."""
import subprocess

import pytest
import trainer_ranks
from trainer_ranks import BUILD, SMALL, checkpoints, differences, records

pytest.importorskip("h5py")

pytestmark = [pytest.mark.python, pytest.mark.long]

OPTIONS = (*SMALL, "--fake-size=40", "--valid-epochs=0", "--checkpoint-epochs=0", "--max-steps=4", "--checkpoint-steps=2",
           "--checkpoint-overlap=wait", "--keep-last=9", "--optimizer=adamw", "--lr=0.001", "--resume=never")
CLIENT = BUILD / "tests" / "libnfs_client.so"


def hosts(folder, **more):
    """Environment that makes each rank a host with its own page cache."""
    return {"LD_PRELOAD": str(CLIENT), "NFS_FOLDER": str(folder), **more}


def verified(folder):
    program = BUILD / "trainer" / "rollcall-checkpoint"
    return subprocess.run([program, "verify", folder], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("read_back", ["memory", "device"])
def test_no_rank_overwrites_data_of_other_ranks(tmp_path, parallel, read_back):
    options = (*OPTIONS, f"--parallel={parallel}", f"--checkpoint-read-back={read_back}")
    trainer_ranks.run(tmp_path / "nfs", *options, env=hosts(tmp_path / "nfs"))
    trainer_ranks.run(tmp_path / "local", *options)
    looked = verified(tmp_path / "nfs")
    assert looked.returncode == 0, looked.stdout + looked.stderr
    ours, theirs = checkpoints(tmp_path / "nfs"), checkpoints(tmp_path / "local")
    assert [p.name for p in ours] == [p.name for p in theirs] == ["step-00000002.h5", "step-00000004.h5"]
    assert all(differences(a, b) == [] for a, b in zip(ours, theirs))
    assert {(record["written"], record["tries"]) for record in records(tmp_path / "nfs", "checkpoint")} == {(True, 1)}


def test_a_damaged_file_is_not_committed_without_direct_io(tmp_path):
    output = trainer_ranks.run(tmp_path, *OPTIONS, "--parallel=fsdp", "--checkpoint-retries=0", "--checkpoint-failures=9",
                               env=hosts(tmp_path, NFS_REFUSES_DIRECT="1"), code=74)
    assert "reading back what was written failed" in output
    assert not any(record["written"] for record in records(tmp_path, "checkpoint")) and checkpoints(tmp_path) == []
