"""A step ends with its first failing task: `srun --ddp` implies Slurm's --kill-on-bad-exit, unless the user sets it."""

import time

import pytest

pytestmark = pytest.mark.slurm
TWO_NODES = ["-N2", "--ntasks-per-node=2"]
ENOUGH = 60  # seconds that the other tasks would wait
RANK_1_FAILS = f"if [ $SLURM_PROCID = 1 ]; then exit 7; fi; echo waits; sleep {ENOUGH} && echo waited"
# Rank 1 fails once the three others would survive its end.
OTHERS_END_WELL = """
if [ $SLURM_PROCID = 1 ]; then until [ $(ls {folder} | wc -l) = 3 ]; do sleep 0.01; done; exit 7; fi
trap 'exit 0' TERM; touch {folder}/$SLURM_PROCID; sleep 60 & wait
"""
PATIENT = "if [ $SLURM_PROCID = 1 ]; then exit 7; fi; sleep 1; echo went on"


def step(cluster, script, *srun, env=None):
    before = time.monotonic()
    result = cluster.run("srun", *srun, *TWO_NODES, "sh", "-c", script, env=env, check=False, timeout=ENOUGH + 60)
    return result, time.monotonic() - before


def is_ended(result):
    """By Slurm, with what it says of the cause. The tasks that it ended count as 143, which is above the cause's 7."""
    assert "task 1: Exited with exit code 7" in result.stderr
    return result.returncode == 143


def test_the_step_ends_with_its_first_failing_task(cluster):
    result, seconds = step(cluster, RANK_1_FAILS, "--ddp")
    assert is_ended(result) and "waited" not in result.stdout
    print(f"the step ended after {seconds:.2f} s")


def test_the_exit_code_is_that_of_the_failed_task_if_others_exit_cleanly(cluster):
    result, _ = step(cluster, OTHERS_END_WELL.format(folder=cluster.new_folder()), "--ddp")
    assert result.returncode == 7


def test_without_ddp_the_other_tasks_continue(cluster):
    result, _ = step(cluster, PATIENT)
    assert result.returncode == 7 and result.stdout.count("went on") == 3
    result = cluster.run("srun", *TWO_NODES, "sh", "-c", PATIENT, "--ddp", check=False)  # the program's own option
    assert result.returncode == 7 and result.stdout.count("went on") == 3


def test_kill_on_bad_exit_off_disables_it(cluster):
    result, _ = step(cluster, PATIENT, "--ddp=kill-on-bad-exit=off")
    assert result.returncode == 7 and result.stdout.count("went on") == 3


@pytest.mark.parametrize("srun, env", [
    (["--ddp"], {"ROLLCALL_KILL_ON_BAD_EXIT": "off"}),
    (["--ddp", "--kill-on-bad-exit=0"], {}),
    (["--ddp"], {"SLURM_KILL_BAD_EXIT": "0"}),
    (["--ddp=off"], {}),
])
def test_kill_on_bad_exit_of_the_user_has_precedence(cluster, srun, env):
    result, _ = step(cluster, PATIENT, *srun, env=env)
    assert result.returncode == 7 and result.stdout.count("went on") == 3


def test_kill_on_bad_exit_applies_to_steps_of_a_job_with_ddp(cluster):
    output = cluster.batch(f"#!/bin/sh\nsrun {' '.join(TWO_NODES)} sh -c '{RANK_1_FAILS}'\necho code $?\n", "--ddp", "-N2",
                           "--ntasks-per-node=2")
    assert "code 143" in output and "waited" not in output


def test_a_het_step_ends_with_its_first_failing_task(cluster):
    waits = cluster.new_folder() / "waits"  # the other fails only then: before, TERM would not find a shell to end
    result = cluster.run("srun", "-n1", "sh", "-c", f"touch {waits}; sleep {ENOUGH} && echo waited", ":",
                         "--ddp", "-n1", "sh", "-c", f"until [ -e {waits} ]; do sleep 0.05; done; exit 7", check=False, timeout=ENOUGH + 60)
    assert result.returncode == 143 and "waited" not in result.stdout


def test_tasks_do_not_see_slurm_kill_bad_exit_set_by_the_plugin(cluster):
    environments, _ = cluster.environments("--ddp", "-n1")
    assert "SLURM_KILL_BAD_EXIT" not in environments[0]
    environments, _ = cluster.environments("--ddp", "-n1", env={"SLURM_KILL_BAD_EXIT": "1"})
    assert environments[0]["SLURM_KILL_BAD_EXIT"] == "1"  # the user's own stays


def test_the_exit_code_of_a_rollcall_error_is_preserved(cluster):
    """All tasks fail, none at the same time: who is ended while it still looks for its environment counts less."""
    for _ in range(5):
        result, _ = step(cluster, "true", "--ddp=host.template=nowhere.invalid")
        assert result.returncode == 69, result.stderr


# Rank 1 writes its process id and fails. Rank 0 fails in the same way once rank 1 catches SIGTERM or has ended.
RANK_0_IS_LATE = """
if [ $SLURM_PROCID = 1 ]; then echo $$ > {file}.new; mv {file}.new {file}; exec {command}; fi
until [ -s {file} ]; do :; done
caught() {{ sed -n 's/^SigCgt:\\s*//p' /proc/$(cat {file})/status 2> /dev/null; }}
while signals=$(caught) && [ -n "$signals" ] && [ $((0x0$signals >> 14 & 1)) = 0 ]; do :; done
exec {command}
"""


def test_an_error_of_all_ranks_is_told_by_rank_0_even_if_it_starts_last(cluster, rollcall):
    script = RANK_0_IS_LATE.format(file=cluster.new_folder() / "pid", command=f"{rollcall} exec --no-such-option true")
    result = cluster.run("srun", "-N2", "--ntasks-per-node=1", "--kill-on-bad-exit=1", "sh", "-c", script, check=False)
    assert "--no-such-option: unknown option" in result.stderr and result.stderr.count("rollcall: ") == 1
    assert result.returncode == 64
