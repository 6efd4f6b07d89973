"""What belongs to another job or step is not believed."""

import os

import pytest

from minicluster import SOURCE, poll


@pytest.mark.parametrize("template", ["run.sbatch", pytest.param("run_elastic.sbatch", marks=pytest.mark.long)])
def test_a_job_that_an_arrays_element_submits_requeues_itself(cluster, rollcall, template):
    """And not the element, whose number is in the job's environment. The training is a stand-in: interrupted, then done."""
    folder = cluster.new_folder()
    training = folder / "rollcall-train"
    training.write_text(f"#!/bin/bash\n[ -e {folder}/second ] && exit 0\ntouch {folder}/second\nexit 75\n")
    training.chmod(0o755)
    inner = f"sbatch --parsable --nodes=1 --cpus-per-task=1 --output={folder}/out {SOURCE}/sbatch_templates/{template}"
    env = {"PATH": f"{folder}:{rollcall.parent}:{os.environ['PATH']}", "RANKS_PER_NODE": "1"}
    outer = cluster.run("sbatch", "--parsable", "--array=5", "-n1", f"--output={folder}/outer", "--wrap",
                        f"{inner} > {folder}/job; sleep 300", env=env).stdout.strip()
    job = poll(lambda: (folder / "job").exists() and (folder / "job").read_text().strip(), "the inner job")
    poll(lambda: "JobState=COMPLETED" in cluster.run("scontrol", "show", "job", job).stdout, "its end", 300)
    shown = {name: cluster.run("scontrol", "show", "job", name).stdout for name in (job, outer)}
    cluster.run("scancel", outer)
    assert "Restarts=1" in shown[job] and "Restarts=0" in shown[outer] and "JobState=RUNNING" in shown[outer]
