"""Every spelling of the option reaches the tasks of the step with every Slurm version: Slurm passes a bare --ddp as a
null pointer, "", or "(null)", calls the option callback once or twice, and inherits an outer option through the environment."""

import shlex

import pytest

pytestmark = pytest.mark.slurm
# How Slurm itself hands an outer command's option on to the steps inside.
OPTION_VARIABLE = "_SLURM_SPANK_OPTION_rollcall_ddp"


def ours(environment):
    """What rollcall would have set, where it did not keep out."""
    return [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "ROLLCALL_SET") if name in environment]


def check(environments, threads=None, tasks=2):
    """All tasks have their ranks, and the last word on `threads` is the one that counts."""
    assert [e.get("RANK") for e in environments] == [str(rank) for rank in range(tasks)]
    assert {e["WORLD_SIZE"] for e in environments} == {str(tasks)}
    if threads is not None:
        assert {e["OMP_NUM_THREADS"] for e in environments} == {str(threads)}


@pytest.mark.parametrize("options, threads", [
    ("--ddp", None),
    ("--ddp=", None),
    ("--ddp=(null)", None),
    ("--ddp --ddp", None),
    ("--ddp=threads=3", 3),
    ("--ddp --ddp=threads=3", 3),
    ("--ddp=threads=3 --ddp=threads=5", 5),
    ("--ddp=off --ddp", None),
    ("--ddp=off --ddp=threads=5", 5),
])
def test_every_spelling_of_ddp_reaches_the_tasks_of_srun(cluster, options, threads):
    environments, errors = cluster.environments(*options.split(), "-N2")
    check(environments, threads)
    assert errors == ""


@pytest.mark.parametrize("options", ["--ddp=off", "--ddp --ddp=off", "--ddp=threads=3 --ddp=off"])
def test_a_last_ddp_off_disables_srun(cluster, options):
    environments, errors = cluster.environments(*options.split(), "-N2")
    assert [ours(e) for e in environments] == [[], []]
    assert errors == ""


@pytest.mark.parametrize("options", ["--ddp=threads=many", "--ddp --ddp=threads=many", "--ddp=threads=many --ddp=off"])
def test_srun_rejects_a_mistake_in_any_of_several_ddp_options(cluster, options):
    refused = cluster.run("srun", *options.split(), "-N2", "echo", "ran", check=False)
    assert refused.returncode != 0 and "ran" not in refused.stdout
    assert refused.stderr.count("rollcall: ") == 1 and "srun: error: rollcall: --ddp=threads: many: " in refused.stderr


# An outer command's option -> those of the steps inside, each with the number of threads that tells whose settings count.
# OFF: nothing is set.
OFF = "off"
NESTED = {
    "": [("--ddp", None), ("--ddp=threads=3", 3), ("--ddp=off", OFF), ("", OFF)],
    "--ddp": [("", None), ("--ddp", None), ("--ddp=", None), ("--ddp=threads=3", 3), ("--ddp=off", OFF), ("", None)],
    "--ddp=": [("", None), ("--ddp=threads=3", 3)],
    "--ddp=threads=3": [("", 3), ("--ddp=threads=5", 5), ("--ddp=off", OFF), ("", 3)],
    "--ddp=off": [("", OFF), ("--ddp", None), ("--ddp=threads=3", 3)],
}
EVERY_OUTER = pytest.mark.parametrize("outer", NESTED, ids=lambda outer: outer or "nothing")


def steps_inside(outer, record):
    """Lines of a script: one srun a row of the table."""
    return "".join(f"srun {inner} {shlex.join(record)}\n" for inner, _ in NESTED[outer])


def check_quiet(output):
    """No complaint. (A step right after another may have to wait, and Slurm says so.)"""
    assert "rollcall" not in output and "error" not in output


def check_steps(outer, environments):
    for step, (_, threads) in enumerate(NESTED[outer]):
        tasks = [e for e in environments if e["SLURM_STEP_ID"] == str(step)]
        if threads == OFF:
            assert [ours(e) for e in tasks] == [[], []]
        else:
            check(tasks, threads)


@EVERY_OUTER
def test_steps_inherit_ddp_from_sbatch_directives(cluster, outer):
    record, read = cluster.recorder()
    check_quiet(cluster.batch(f"#!/bin/bash\n#SBATCH -N2 {outer}\n{steps_inside(outer, record)}"))
    check_steps(outer, read())


@EVERY_OUTER
def test_steps_inherit_ddp_from_the_sbatch_command_line(cluster, outer):
    record, read = cluster.recorder()
    check_quiet(cluster.batch(f"#!/bin/bash\n#SBATCH -N2\n{steps_inside(outer, record)}", *([outer] if outer else [])))
    check_steps(outer, read())


@EVERY_OUTER
def test_steps_inherit_ddp_from_salloc(cluster, outer):
    record, read = cluster.recorder()
    result = cluster.run("salloc", *([outer] if outer else []), "-N2", "bash", "-c", steps_inside(outer, record))
    check_quiet(result.stderr)
    check_steps(outer, read())


def test_the_sbatch_command_line_overrides_directives(cluster):
    record, read = cluster.recorder()
    cluster.batch(f"#!/bin/bash\n#SBATCH -N2 --ddp=threads=3\nsrun {shlex.join(record)}\n", "--ddp=threads=5")
    check(read(), 5)


def test_steps_of_wrapped_and_array_jobs_inherit_ddp(cluster):
    record, read = cluster.recorder()
    job = cluster.run("sbatch", "--parsable", "--ddp", "-N2", "--array=0-1", "--output=/dev/null", "--wrap", f"srun {shlex.join(record)}")
    cluster.wait_for_job(job.stdout.strip())
    for element in "01":
        check([e for e in read() if e["SLURM_ARRAY_TASK_ID"] == element])


@pytest.mark.parametrize("value, threads", [("", None), ("(null)", None), ("threads=3", 3)])
def test_steps_inherit_ddp_through_the_environment(cluster, value, threads):
    environments, errors = cluster.environments("-N2", env={OPTION_VARIABLE: value})
    check(environments, threads)
    assert errors == ""


def test_steps_inherit_ddp_with_export_none(cluster):
    record, read = cluster.recorder()
    cluster.run("salloc", "--ddp=threads=3", "-N2", "srun", "--export=NONE", *record)
    check(read(), 3)
