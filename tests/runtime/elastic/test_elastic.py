"""run_elastic.sbatch on a real Slurm: a lost node costs at most a step and not the job, and killed agents are restarted."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess

import pytest

from minicluster import SOURCE, Minicluster, poll

pytestmark = [pytest.mark.slurm, pytest.mark.long]

SMALL = ("--data=fake", "--model=resnet20", "--image-size=32", "--batch-size=4", "--num-classes=10", "--fake-size=200", "--train-num-workers=1",
         "--valid-num-workers=1", "--progress=lines", "--log-steps=1", "--valid-epochs=0", "--rank-seconds=0", "--report=off", "--lr=0.001",
         "--epochs=10000")
STEPS = 150


class Job:
    """The template's job, whose trainer writes its records and checkpoints below `folder`."""

    def __init__(self, cluster, folder, nodes, *options, steps=STEPS, sbatch=(), **env):
        self.cluster, self.folder, self.last_step = cluster, folder, steps
        self.id = cluster.run(
            "sbatch", "--parsable", f"--nodes={nodes}", "--cpus-per-task=1", *sbatch, f"--output={folder}/out",
            SOURCE / "sbatch_templates" / "run_elastic.sbatch", *SMALL, f"--max-steps={steps}", f"--run-dir={folder}/run",
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

    def output(self):
        return (self.folder / "out").read_text()

    def state(self):
        return self.cluster.run("squeue", "-h", "-t", "all", "-j", self.id, "-o", "%T").stdout.strip()

    def wait_for_state(self, state):
        poll(lambda: self.state() == state, f"job {self.id} {state}, {self.state()}", 240)


@contextlib.contextmanager
def submitting(cluster, rollcall, rollcall_train, folder):
    """Submits the template; afterwards the job is gone."""
    jobs = []

    def submit_job(nodes, *options, **more):
        path = f"{rollcall.parent}:{rollcall_train.parent}:{os.environ['PATH']}"
        jobs.append(Job(cluster, folder, nodes, *options, PATH=path, **more))
        return jobs[-1]
    yield submit_job
    for job in jobs:
        cluster.run("scancel", job.id, check=False)


@pytest.fixture
def submit(cluster, rollcall, rollcall_train, tmp_path):
    """To nodes that are this host; afterwards all of them are there again."""
    with submitting(cluster, rollcall, rollcall_train, tmp_path) as submit_job:
        yield submit_job
    for node in cluster.nodes_in_state("down", "drained", "draining"):
        cluster.script("restart-node", node)


def check_steps(job, losses=1):
    """Each step was done once, and recorded except for those that a lost rank 0 could not record."""
    steps = job.steps()
    assert steps == sorted(set(steps)) and steps[-1] == job.last_step and len(steps) >= job.last_step - losses, steps


def ranks_of_worlds(job):
    return [record["ranks"] for record in job.records("begin")[:1] + job.records("regrouped")]


def restarted_nodes(job):
    return [line.split()[2] for line in job.output().splitlines() if line.startswith("run_elastic.sbatch: starting ")]


def check_node_rejoined(job):
    """By the restarted node, possibly before the others have done a step without it."""
    assert ranks_of_worlds(job) in ([3, 2, 3], [3, 3]), job.output()
    check_steps(job)


# What nodes say, by "STATUS [as told|lost]", and what the job ends with.
ENDINGS = {
    "0,0": 0, "69,137 lost,0": 0, "75,75": 75, "75,69": 75, "69,65": 65, "65,69": 69, "137 lost,69,69": 69, "137 lost": 69, "": 69,
    "139,139": 139, "137 lost,139,139": 139, "139,137": 69, "127,127": 127, "76,64": 64,
    "75 as told,64,64": 64, "75 as told,69": 69, "75 as told,75 as told": 75, "75 as told,0 as told": 75,
    "0 as told,75 as told": 75, "0 as told,0 as told": 0, "0 as told,69": 69}


@pytest.mark.parametrize("nodes", ENDINGS)
def test_the_exit_status_of_the_job_is_that_of_the_run(nodes):
    """Runs the template's own awk program."""
    template = (SOURCE / "sbatch_templates" / "run_elastic.sbatch").read_text()
    result = template.partition("\nresult='")[2].partition("'\n")[0]
    lines = "".join(f"{node} \n" for node in nodes.split(",") if node)
    assert subprocess.run(["awk", result], input=lines, text=True, check=False).returncode == ENDINGS[nodes]


@pytest.mark.parametrize("template", ["run.sbatch", "run_elastic.sbatch"])
@pytest.mark.parametrize("down, refuses, calls", [(2, 0, 3), (0, 9, 2), (2, 9, 4)])
def test_requeue_is_retried_while_slurmctld_restarts(tmp_path, template, down, refuses, calls):
    """scontrol is a stand-in that prints the messages of a controller that is down."""
    text = (SOURCE / "sbatch_templates" / template).read_text()
    requeue = "requeue() {" + text.partition("\nrequeue() {")[2].partition("\n}\n")[0] + "\n}"
    stand_in = tmp_path / "scontrol"
    stand_in.write_text(f"""#!/bin/bash
cd {tmp_path}
down=$(( $(grep -c . < asked) < {down} + 1 ))
[ "$1" = requeue ] || {{ [ $down = 0 ] && echo 'Slurmctld(primary) at a is UP' || echo 'Slurmctld(primary) at a is DOWN'; exit $down; }}
echo "$*" >> asked
[ "$(grep -c . < asked)" -le {down} ] && echo 'Unexpected message received for job 5' >&2 && exit 1
[ {refuses} -eq 0 ] || {{ echo 'Requested operation is presently disabled for job 5' >&2; exit 1; }}
""")
    stand_in.chmod(0o755)
    (tmp_path / "asked").touch()
    run = subprocess.run(["bash", "-c", f"sleep() {{ :; }}\n{requeue}\nrequeue 5"], check=False, text=True, capture_output=True,
                         env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert (tmp_path / "asked").read_text() == "requeue 5\n" * calls
    assert run.returncode == (1 if refuses else 0)
    assert ("was not requeued: Requested operation is presently disabled" in run.stderr) == bool(refuses)


def test_the_template_does_not_execute_text_from_an_agent(tmp_path):
    template = (SOURCE / "sbatch_templates" / "run_elastic.sbatch").read_text()
    (listens,) = [line for line in template.splitlines() if line.startswith("listens()")]
    run = subprocess.run(["bash", "-c", f'{listens}\nlistens "\\$(touch {tmp_path}/x)" 1; listens "a; touch {tmp_path}/y;" 1'], check=False,
                         capture_output=True, text=True)
    assert run.returncode != 0 and not list(tmp_path.iterdir())


def test_a_lost_node_costs_no_step(submit, cluster):
    job = submit(3)
    job.wait_for_step(10)
    cluster.script("kill-node", 3)
    job.wait_for_state("COMPLETED")
    assert ranks_of_worlds(job) == [3, 2]
    check_steps(job)


def test_losing_the_batch_node_with_the_rendezvous_costs_no_step(submit, cluster):
    job = submit(3)
    job.wait_for_step(10)
    cluster.script("kill-node", 1)
    job.wait_for_state("CANCELLED")  # by the nodes that are left, once they have finished
    assert ranks_of_worlds(job) == [3, 2]
    check_steps(job)
    assert job.records("end")[-1]["ending"] == "finished"


def agents_of(rollcall, job):
    """{node: the status of its agent}. All nodes are this host, which may have other clusters, too."""
    told = subprocess.run([rollcall, "run", "--status", "--json"], capture_output=True, text=True, check=True, timeout=60)
    found = {}
    for run in json.loads(told.stdout):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            environment = pathlib.Path(f"/proc/{run['pid']}/environ").read_bytes().decode().split("\0")
            if f"SLURM_JOB_ID={job.id}" in environment and f"SLURM_CONF={job.cluster.folder}/etc/slurm.conf" in environment:
                node, = [value.removeprefix("SLURMD_NODENAME=") for value in environment if value.startswith("SLURMD_NODENAME=")]
                found[node] = run
    return found


def agents_on_hosts(rollcall, job):
    """The same of nodes that are hosts of their own."""
    found = {}
    for node in ("jwb0001", "jwb0002", "jwb0003"):
        told = job.cluster.script("on", node, rollcall, "run", "--status", "--json")
        for run in json.loads(told.stdout):
            found[node] = run
    return found


def wait_for_another(agents, rollcall, job, node, ended):
    """Until another agent than the one that `ended` has workers on that node."""
    def another():
        run = agents(rollcall, job).get(node)
        return run if run and run["pid"] != ended["pid"] and run["workers"] else None
    return poll(another, f"another agent on {node}", 60)


def shell_of(run):
    """Which runs the agent as a part of the task."""
    return int(pathlib.Path(f"/proc/{run['pid']}/stat").read_text().rpartition(")")[2].split()[1])


def node_without_coordinator(agents):
    return next((node, run) for node, run in sorted(agents.items()) if not run["coordinator"])


def test_a_spare_node_replaces_a_lost_node(submit, cluster, rollcall):
    job = submit(4, SPARE_NODES="1")
    job.wait_for_step(10)
    training = [node for node, run in agents_of(rollcall, job).items() if run["workers"]]
    assert len(training) == 3
    cluster.script("kill-node", max(training))
    job.wait_for_state("COMPLETED")
    assert ranks_of_worlds(job) == [3, 3]
    check_steps(job)


@pytest.mark.parametrize("killed", ["agent", "task"])
def test_a_killed_agent_or_task_is_restarted_on_its_node(submit, rollcall, killed):
    job = submit(3, steps=400)
    job.wait_for_step(10)
    node, run = node_without_coordinator(agents_of(rollcall, job))
    if killed == "task":  # first its shell, which would say how the agent ended
        os.kill(shell_of(run), signal.SIGKILL)
    os.kill(run["pid"], signal.SIGKILL)
    job.wait_for_state("COMPLETED")
    assert restarted_nodes(job) == [node]
    assert (f"{node} ended with 137" in job.output()) == (killed == "agent")
    check_node_rejoined(job)


def test_a_fenced_node_is_restarted_only_after_its_agent_continues(submit, rollcall):
    job = submit(3, steps=800)
    job.wait_for_step(10)
    node, run = node_without_coordinator(agents_of(rollcall, job))
    os.kill(run["pid"], signal.SIGSTOP)
    poll(lambda: job.records("regrouped"), "the others go on", 60)
    assert not restarted_nodes(job)
    os.kill(run["pid"], signal.SIGCONT)
    job.wait_for_state("COMPLETED")
    assert restarted_nodes(job) == [node] and f"{node} ended with 69" in job.output()
    check_node_rejoined(job)


def test_a_node_that_receives_sigterm_is_not_restarted(submit, rollcall):
    job = submit(3)
    job.wait_for_step(10)
    node, run = node_without_coordinator(agents_of(rollcall, job))
    for pid in (shell_of(run), run["pid"]):
        os.kill(pid, signal.SIGTERM)
    job.wait_for_state("COMPLETED")
    assert not restarted_nodes(job) and f"{node} ended with " in job.output() and " as told" in job.output()
    assert [record["ranks"] for record in job.records("begin")] == [3, 2]


def test_a_node_is_excluded_after_three_restarts(submit, rollcall):
    job = submit(3, steps=600)
    job.wait_for_step(10)
    node, run = node_without_coordinator(agents_of(rollcall, job))
    for _ in range(3):
        os.kill(run["pid"], signal.SIGKILL)
        run = wait_for_another(agents_of, rollcall, job, node, run)
    os.kill(run["pid"], signal.SIGKILL)
    job.wait_for_state("COMPLETED")
    assert restarted_nodes(job) == 3 * [node] and f"{node} was started again three times" in job.output()
    assert ranks_of_worlds(job)[-1] == 2
    check_steps(job, losses=4)


def test_a_restarted_rendezvous_node_joins_the_run_at_its_new_endpoint(network, rollcall, rollcall_train, tmp_path):
    """First on the batch node, where no agent can be queried afterwards, and then on another one."""
    with submitting(network, rollcall, rollcall_train, tmp_path) as submit_job:
        job = submit_job(3, steps=500)
        job.wait_for_step(10)
        lost = []
        for _ in range(2):
            agents = agents_on_hosts(rollcall, job)
            node, = [node for node, run in agents.items() if run["coordinator"]]
            lost.append(node)
            worlds = len(job.records("regrouped"))
            os.kill(agents[node]["pid"], signal.SIGKILL)
            run = wait_for_another(agents_on_hosts, rollcall, job, node, agents[node])
            assert not run["coordinator"] and run["rendezvous"] != agents[node]["rendezvous"]
            poll(lambda: 3 in [record["ranks"] for record in job.records("regrouped")[worlds:]], "its first step", 60)
            job.wait_for_step(job.steps()[-1] + 30)  # until all know that all others know of the new world, the one before has a say
        job.wait_for_state("COMPLETED")
    assert lost[0] == "jwb0001" and lost[1] != "jwb0001" and restarted_nodes(job) == lost
    assert ranks_of_worlds(job)[-1] == 3
    check_steps(job, losses=2)


def test_a_restarted_step_gets_the_memory_and_gpus_of_the_first(short_folder, plugin, rollcall, rollcall_train, tmp_path):
    """The first step has all of them: Slurm refuses a second step that requests them like the job."""
    cluster = Minicluster(short_folder / "g", f"--plugin={plugin}", "--gpus=2", "--conf=SelectTypeParameters=CR_CPU_Memory").start()
    try:
        with submitting(cluster, rollcall, rollcall_train, tmp_path) as submit_job:
            job = submit_job(3, steps=400, sbatch=["--gpus=6", "--mem-per-cpu=1000"])
            job.wait_for_step(10)
            node, run = node_without_coordinator(agents_of(rollcall, job))
            os.kill(run["pid"], signal.SIGKILL)
            again = wait_for_another(agents_of, rollcall, job, node, run)
            environment = pathlib.Path(f"/proc/{again['pid']}/environ").read_bytes().decode().split("\0")
            assert "CUDA_VISIBLE_DEVICES=0,1" in environment and "SLURM_STEP_NUM_NODES=1" in environment
            job.wait_for_state("COMPLETED")
            check_node_rejoined(job)
    finally:
        cluster.stop()


def test_an_interrupted_job_is_requeued_and_finishes_after_a_node_loss(submit, cluster):
    """Whatever exit code srun gives a step that lost a node: since 23.02 it is 1."""
    job = submit(3)
    job.wait_for_step(10)
    cluster.script("kill-node", 3)
    poll(lambda: job.records("regrouped"), "the others go on", 60)
    cluster.script("restart-node", 3)
    cluster.run("scancel", "--signal=USR1", job.id)
    poll(lambda: "requeueing" in job.output(), "the requeue", 60)
    job.wait_for_state("COMPLETED")
    check_steps(job)
    assert [record["ranks"] for record in job.records("begin")] == [3, 2, 3]
    assert len(job.records("resume")) == 2  # of those that were left, and of the job's second start
    assert not restarted_nodes(job)


def test_a_failed_training_ends_the_job_with_its_exit_code(submit, cluster):
    job = submit(2, "--model=resnet20000")
    job.wait_for_state("FAILED")
    assert "ExitCode=64:0" in cluster.run("scontrol", "show", "job", job.id).stdout
    assert "resnet20000" in job.output() and job.output().count("generation") < 20 and not restarted_nodes(job), job.output()
