"""run_elastic.sbatch on a real Slurm: nodes that are lost cost a step, not the job."""

import json
import os
import pathlib
import subprocess

import pytest

from minicluster import SOURCE, poll

SMALL = ("--model=resnet20", "--image-size=32", "--batch-size=4", "--num-classes=10", "--fake-size=200", "--train-num-workers=1",
         "--valid-num-workers=1", "--progress=lines", "--log-steps=1", "--valid-epochs=0", "--rank-seconds=0", "--report=off", "--lr=0.001",
         "--epochs=10000")
STEPS = 150


class Job:
    """The template's job, whose trainer writes its records and checkpoints below `folder`."""

    def __init__(self, cluster, folder, nodes, *options, **env):
        self.cluster, self.folder = cluster, folder
        self.id = cluster.run(
            "sbatch", "--parsable", f"--nodes={nodes}", "--cpus-per-task=1", f"--output={folder}/out",
            SOURCE / "sbatch_templates" / "run_elastic.sbatch", *SMALL, f"--max-steps={STEPS}", f"--run-dir={folder}/run",
            f"--checkpoint-dir={folder}/run", *options, env={"SCRATCH": str(folder), "RANKS_PER_NODE": "1", **env}).stdout.strip()

    def records(self, event):
        try:
            lines = (self.folder / "run" / "metrics.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [record for record in map(json.loads, (line for line in lines if line.endswith("}"))) if record["event"] == event]

    def steps(self):
        return [record["step"] for record in self.records("step")]

    def wait_for_step(self, step):
        poll(lambda: (self.steps() or [0])[-1] >= step, f"step {step}", 60)

    def state(self):
        return self.cluster.run("squeue", "-h", "-t", "all", "-j", self.id, "-o", "%T").stdout.strip()

    def wait_for_state(self, state):
        poll(lambda: self.state() == state, f"job {self.id} {state}, {self.state()}", 120)


@pytest.fixture
def submit(cluster, rollcall, rollcall_train, tmp_path):
    """Submits the template; afterwards the job is gone and all nodes are there again."""
    jobs = []

    def submit_job(nodes, *options, **env):
        path = f"{rollcall.parent}:{rollcall_train.parent}:{os.environ['PATH']}"
        jobs.append(Job(cluster, tmp_path, nodes, *options, PATH=path, **env))
        return jobs[-1]
    yield submit_job
    for job in jobs:
        cluster.run("scancel", job.id, check=False)
    for node in cluster.nodes_in_state("down", "drained", "draining"):
        cluster.script("restart-node", node)


def check_steps(job):
    """All were done once, and recorded but for one that rank 0 may have died before it told of."""
    steps = job.steps()
    assert steps == sorted(set(steps)) and steps[-1] == STEPS and len(steps) >= STEPS - 1, steps


def ranks_of_worlds(job):
    return [record["ranks"] for record in job.records("begin")[:1] + job.records("regrouped")]


def test_a_lost_node_costs_no_step(submit, cluster):
    job = submit(3)
    job.wait_for_step(10)
    cluster.script("kill-node", 3)
    job.wait_for_state("COMPLETED")
    assert ranks_of_worlds(job) == [3, 2]
    check_steps(job)


def test_the_loss_of_the_scripts_node_with_the_rendezvous_costs_no_step_and_the_job_ends(submit, cluster):
    job = submit(3)
    job.wait_for_step(10)
    cluster.script("kill-node", 1)
    job.wait_for_state("CANCELLED")  # by the nodes that are left, once they have finished
    assert ranks_of_worlds(job) == [3, 2]
    check_steps(job)
    assert job.records("end")[-1]["ending"] == "finished"


def nodes_of(rollcall, job):
    """{node: how many workers its agent has}. All nodes are this host."""
    told = subprocess.run([rollcall, "run", "--status", "--json"], capture_output=True, text=True, check=True, timeout=60)
    found = {}
    for run in json.loads(told.stdout):
        environment = pathlib.Path(f"/proc/{run['pid']}/environ").read_bytes().decode().split("\0")
        if f"SLURM_JOB_ID={job.id}" in environment:
            node, = [value.removeprefix("SLURMD_NODENAME=") for value in environment if value.startswith("SLURMD_NODENAME=")]
            found[node] = len(run.get("workers", []))
    return found


def test_a_spare_node_steps_in(submit, cluster, rollcall):
    job = submit(4, SPARE_NODES="1")
    job.wait_for_step(10)
    training = [node for node, workers in nodes_of(rollcall, job).items() if workers]
    assert len(training) == 3
    cluster.script("kill-node", max(training))
    job.wait_for_state("COMPLETED")
    assert ranks_of_worlds(job) == [3, 3]
    check_steps(job)


def test_an_interrupted_job_is_requeued_and_finishes_also_after_a_loss(submit, cluster):
    """Whatever srun says of a step that lost a node: since 23.02 it ends with 1."""
    job = submit(3)
    job.wait_for_step(10)
    cluster.script("kill-node", 3)
    poll(lambda: job.records("regrouped"), "the others go on", 60)
    cluster.script("restart-node", 3)
    cluster.run("scancel", "--signal=USR1", job.id)
    poll(lambda: "requeueing" in (job.folder / "out").read_text(), "the requeue", 60)
    job.wait_for_state("COMPLETED")
    check_steps(job)
    assert [record["ranks"] for record in job.records("begin")] == [3, 2, 3]
    assert len(job.records("resume")) == 2  # of those that were left, and of the job's second start


def test_a_training_that_fails_ends_the_job_with_its_code(submit, cluster):
    job = submit(2, "--model=resnet20000")
    job.wait_for_state("FAILED")
    assert "ExitCode=64:0" in cluster.run("scontrol", "show", "job", job.id).stdout
    output = (job.folder / "out").read_text()
    assert "resnet20000" in output and output.count("generation") < 20, output
