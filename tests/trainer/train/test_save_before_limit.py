"""--save-before-limit: a run saves a checkpoint and exits before the job's time limit in Slurm."""
import time

import pytest

import trainer_ranks
from trainer_ranks import SMALL, checkpoints, records

pytestmark = [pytest.mark.python, pytest.mark.long]


def test_all_ranks_save_and_exit_before_the_limit_known_to_rank_0(tmp_path):
    end = {"SLURM_JOB_END_TIME": str(int(time.time()) + 66)}
    output = trainer_ranks.run(tmp_path, *SMALL, "--epochs=1000", "--log-steps=1", "--valid-epochs=0", "--save-before-limit=60",
                               env=end, code=75)
    assert "time limit is near" in output
    last = records(tmp_path, "step")[-1]["step"]
    assert checkpoints(tmp_path)[-1].name == f"step-{last:08d}.h5"


def test_an_unknown_limit_is_a_warning(tmp_path):
    output = trainer_ranks.run(tmp_path, *SMALL, "--max-steps=1", "--valid-epochs=0", "--save-before-limit=60", ranks=1)
    assert "no time limit" in output


def test_a_save_slower_than_half_the_notice_is_one_warning(tmp_path):
    """The notice is 1 ms, too short to write any file."""
    end = {"SLURM_JOB_END_TIME": str(int(time.time()) + 3600)}
    output = trainer_ranks.run(tmp_path, *SMALL, "--max-steps=3", "--valid-epochs=0", "--checkpoint-steps=1", "--checkpoint-mode=sync",
                               "--save-before-limit=0.001", env=end)
    assert output.count("until it was written, but this run ends 0.001 s before the time limit") == 1
    assert "try --save-before-limit=60" in output
    in_job = trainer_ranks.run(tmp_path, *SMALL, "--max-steps=4", "--valid-epochs=0", ranks=1, env={"SLURM_JOB_ID": "5"})
    assert "until it was written" not in in_job
