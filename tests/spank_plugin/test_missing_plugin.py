"""A node on which the plugin does not run: its tasks would start without a rendezvous, train alone, exit with 0 and
leave the others waiting. The plugin in srun makes such tasks fail immediately."""

import os

import pytest

from common_fixtures import BUILD
from minicluster import SLURM, Minicluster

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(os.geteuid() != 0, reason="only root may put another file in a file's place on one node")]

# As programs do: without RANK and WORLD_SIZE they train alone, with them they wait for the others.
PROGRAM = r"""
import os, time
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
time.sleep(40 if world > 1 else 0)
"""
MISSING = "rollcall-plugin-missing-on-this-node.invalid"


def incompatible_plugin():
    """The plugin's file of another Slurm, whose loader takes no other's."""
    for suite in ("trixie", "forky"):
        path = BUILD / "spank_plugin" / suite / "spank_rollcall.so"
        if suite != SLURM and path.exists():
            return path
    pytest.skip("no plugin of another Slurm is built")


def nothing():
    return "/dev/null"


@pytest.fixture(params=[nothing, incompatible_plugin], ids=lambda function: function.__name__)
def gap(request, short_folder, plugin):
    """Two nodes, of which the second cannot load the plugin."""
    other = request.param()
    cluster = Minicluster(short_folder / "gap", "--nodes=2", f"--plugin={plugin}").start()
    cluster.restart_node_with("jwb0002", other, plugin)
    yield cluster
    cluster.stop()


def test_a_node_without_the_plugin_ends_the_step(gap):
    step = gap.run("srun", "--ddp", "-N2", "/usr/bin/python3", "-S", "-c", PROGRAM, check=False, timeout=30)
    assert step.returncode != 0 and "jwb0002: task 1: Exited with exit code 1" in step.stderr, step.stderr

    tell = "echo $SLURMD_NODENAME $MASTER_ADDR $RANK $WORLD_SIZE $PET_NNODES $JAX_NUM_PROCESSES"
    found = dict(line.split(" ", 1) for line in gap.run("srun", "--ddp", "-N2", "sh", "-c", tell).stdout.splitlines())
    assert found["jwb0002"] == " ".join([MISSING] * 5)
    assert found["jwb0001"].split()[1:] == ["0", "2", "2", "2"] and MISSING not in found["jwb0001"]

    # Variables set by the user are kept and not marked; without the option nothing is marked.
    asked = gap.run("srun", "--ddp", "-N2", "printenv", "MASTER_ADDR", env={"MASTER_ADDR": "127.0.0.1"}).stdout
    assert asked == "127.0.0.1\n" * 2
    for option in ("--ddp=off", "--overlap"):
        assert MISSING not in gap.run("srun", option, "-N2", "env").stdout
    inside = gap.run("srun", "--ddp", "-N2", "-n2", "sh", "-c",
                     'test "$SLURMD_NODENAME" = jwb0001 || exit 0; srun --overlap -N2 env; echo; env', check=False).stdout
    assert MISSING not in inside
    # `rollcall exec`, which resolves the step itself, does not mistake the markers for values of the user.
    healed = gap.run("srun", "--ddp", "-N2", str(BUILD / "runtime" / "rollcall"), "exec", "--", "printenv", "RANK", check=False)
    assert sorted(healed.stdout.split()) == ["0", "1"], healed.stderr


def test_salloc_shells_and_batch_scripts_do_not_see_the_marker(cluster):
    assert MISSING not in cluster.batch("#!/bin/bash\n#SBATCH -N2 --ddp\nenv\n")
    shell = cluster.run("salloc", "-N2", "--ddp", "srun", "--interactive", "-N1", "-n1", "env").stdout  # as use_interactive_step does
    assert "SLURM_JOB_ID" in shell and MISSING not in shell


def test_an_export_list_with_rendezvous_variables_changes_nothing(cluster):
    """srun takes the values of the listed variables from its own environment, which does not contain the marker."""
    for env in ({}, {"SLURM_EXPORT_ENV": "PATH,MASTER_ADDR,RANK,WORLD_SIZE"}):
        options = [] if env else ["--export=PATH,MASTER_ADDR,RANK,WORLD_SIZE"]
        step = cluster.run("srun", "--ddp", "-N2", "-n2", *options, "sh", "-c", "echo $RANK of $WORLD_SIZE at $MASTER_ADDR", env=env)
        assert sorted(line.partition(" at ")[0] for line in step.stdout.splitlines()) == ["0 of 2", "1 of 2"]
        assert MISSING not in step.stdout + step.stderr and "you set" not in step.stderr, step.stderr
