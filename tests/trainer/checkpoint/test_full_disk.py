"""A training whose file system fills up: warnings, no lost checkpoint, and an exit after --checkpoint-failures failures."""
import json
import subprocess

import pytest

import trainer_ranks
from trainer_ranks import BUILD, PROGRAM, SMALL

pytestmark = pytest.mark.python
TOOL = BUILD / "trainer" / "rollcall-checkpoint"
SMALL_TMPFS = 'mount -t tmpfs -o size=4m none "$0" && tool="$1" && shift && "$@"; code=$?; "$tool" verify "$0" >&2 || exit 99; exit $code'


@pytest.fixture
def small_fs(tmp_path):
    """A folder that becomes a file system of 4 MiB in the mount namespace of the command that gets it."""
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"mounting a tmpfs is refused here: {tried.stderr.strip()}")
    folder = tmp_path / "small"
    folder.mkdir()
    return folder


def test_a_full_disk_gives_warnings_until_the_failure_limit(tmp_path, small_fs):
    """Two checkpoints of 1.5 MiB fit; --keep-last=9 makes no room for a third."""
    command = [PROGRAM, *SMALL, "--optimizer=sgd", "--lr-schedule=none", "--momentum=0", "--fake-size=80", "--valid-epochs=0",
               "--checkpoint-epochs=0",
               "--checkpoint-steps=2", "--checkpoint-overlap=wait", "--checkpoint-retries=0", "--checkpoint-failures=2", "--keep-last=9",
               "--max-steps=60", f"--checkpoint-dir={small_fs}", f"--run-dir={tmp_path}", "--log-steps=1"]
    done = subprocess.run([str(c) for c in ("unshare", "-m", "sh", "-c", SMALL_TMPFS, small_fs, TOOL, *command)], capture_output=True,
                          text=True, check=False, env=trainer_ranks.environment(tmp_path, 0, 1), timeout=300)
    output = done.stdout + done.stderr
    assert done.returncode == 74, output
    assert "warning: the checkpoint of step 6 was not written" in output and "warning: the checkpoint of step 8 was not written" in output
    assert "earlier checkpoints are unchanged" in output and "a checkpoint takes" in output
    assert output.count(": intact, ") == 2, output
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(r["step"], r["written"]) for r in records if r["event"] == "checkpoint"] == [(2, True), (4, True), (6, False), (8, False)]
    assert max(r["step"] for r in records if r["event"] == "step") >= 8
