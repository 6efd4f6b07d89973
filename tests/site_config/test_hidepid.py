"""A cluster whose processes are hidden from other users (/proc with hidepid=2), on the nodes and where srun runs, and a user who is not
root: a step and a job from a task have the answers that they have without."""

import json
import os
import shutil

import pytest

from minicluster import Minicluster

USER = "nobody"
HIDDEN = ["unshare", "--mount", "--propagation=private", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount /proc and play several users")]


@pytest.fixture(scope="module")
def clusters(short_folder, plugin, cluster):
    """One that hides them, and one that does not."""
    hides = Minicluster(short_folder / "hides", f"--plugin={plugin}", prefix=HIDDEN)
    started = hides.script(*hides.slurm, *hides.options, "start", check=False)
    if "unshare: " in started.stderr or "mount: " in started.stderr:
        pytest.skip("this machine does not mount /proc with hidepid")
    assert started.returncode == 0, started.stderr
    try:
        if any(as_user(made, "srun", "--chdir=/tmp", "true", check=False).returncode != 0 for made in (hides, cluster)):
            pytest.skip(f"{USER} cannot run steps here")
        yield [hides, cluster]
    finally:
        hides.stop()


def as_user(cluster, *command, **options):
    return cluster.run("runuser", "-u", USER, "--", *command, **options)


def own_folder(cluster):
    folder = cluster.new_folder()
    folder.parent.chmod(0o755)
    shutil.chown(folder, USER)
    return folder


def answers(cluster, folder):
    """What the files in `folder` say, by rank, without what differs between two jobs."""
    of_job = ("MASTER_PORT", "PET_MASTER_PORT", "JAX_COORDINATOR_ADDRESS", "ROLLCALL_SET", "ROLLCALL_STEP", "ROLLCALL_SECRET_FD")
    said = [json.loads(file.read_text().replace(str(cluster.folder), "")) for file in sorted(folder.iterdir())]
    return [({key: value for key, value in each["facts"].items() if key not in ("job_id", "step_id")}, each["warnings"],
             {v["name"]: v["value"] for v in each["variables"] if v["name"] not in of_job}) for each in said]


def test_processes_of_others_are_hidden_in_a_task(clusters):
    command = ("srun", "--chdir=/tmp", "-N1", "cat", "/proc/1/comm")
    assert [as_user(cluster, *command, check=False).returncode == 0 for cluster in clusters] == [False, True]


def test_the_plugin_ignores_the_values_of_an_outer_torchrun(clusters):
    left = {"TORCHELASTIC_RUN_ID": "none", "RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "192.0.2.1"}
    show = ("sh", "-c", "echo $RANK $WORLD_SIZE ${TORCHELASTIC_RUN_ID-unset}")
    for cluster in clusters:
        shown = as_user(cluster, "srun", "--chdir=/tmp", "--ddp", "-N2", "-n2", *show, env=left).stdout
        assert sorted(shown.splitlines()) == ["0 2 unset", "1 2 unset"]


@pytest.mark.parametrize("option", ["--ddp", "--mpi=none"], ids=["plugin", "no plugin"])
def test_a_step_has_the_same_answers(clusters, rollcall, option):
    both = []
    for cluster in clusters:
        folder = own_folder(cluster)
        as_user(cluster, "srun", "--chdir=/tmp", "-N2", "-n4", option, "sh", "-c", f"{rollcall} env --json > {folder}/$SLURM_PROCID")
        both.append(answers(cluster, folder))
    assert len(both[0]) == 4 and both[0] == both[1]


def test_a_job_from_a_task_does_not_believe_the_values_of_the_task(clusters, rollcall):
    both = []
    for cluster in clusters:
        folder = own_folder(cluster)
        inner = folder.parent / f"{folder.name}.sh"
        inner.write_text(f"#!/bin/bash\n{rollcall} env --json > {folder}/batch\nsrun {rollcall} env --json > {folder}/step\n")
        submit = f"[ $SLURM_PROCID = 0 ] || sbatch --wait -N1 -n1 --output=/dev/null {inner}"
        as_user(cluster, "srun", "--chdir=/tmp", "-N2", "-n2", "--ddp", "--overcommit", "--mem=0", "bash", "-c", submit)
        both.append(answers(cluster, folder))
    assert [facts["world_size"] for facts, _, _ in both[0]] == [1, 1] and both[0] == both[1]
