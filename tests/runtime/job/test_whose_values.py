"""Variables of another job or step are ignored, and so are rank variables equal in all tasks: each variable that rollcall reads
is tried with another job's value, with one value for all tasks and absent, in each way to start, against a clean environment."""

import json
import os
import re
import shlex

import pytest

from minicluster import SLURM, SOURCE, Minicluster, poll

pytestmark = pytest.mark.slurm
HOSTS = "jwb[0001-0002]"  # the submitting step has the nodes of the new job: the node list alone distinguishes nothing

# As task 1 of step 3 of job 7 has them, requeued twice, which is element 5 of an array, a component of a het job, and under PMIx
# and pmi2 at once. srun takes some variables of its own tasks for options of its own: these have the values of the new step.
ANOTHER_JOBS = {
    "SLURM_STEP_ID": "3", "SLURM_STEPID": "3", "SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_GTIDS": "1",
    "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": HOSTS, "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_STEP_RESV_PORTS": "17500-17501", "SLURMD_NODENAME": "jwb0002", "SLURM_DISTRIBUTION": "cyclic",
    "SLURM_RESTART_COUNT": "2", "SLURM_JOB_END_TIME": "1", "SLURM_CPUS_ON_NODE": "99", "SLURM_STEP_GPUS": "3",
    "SLURM_GPUS_ON_NODE": "1", "SLURM_JOB_GPUS": "3", "SLURM_ARRAY_JOB_ID": "6", "SLURM_ARRAY_TASK_ID": "5",
    "PMIX_NAMESPACE": "slurm.pmix.7.3", "PMIX_RANK": "1", "PMI_JOBID": "7.3", "PMI_RANK": "1", "PMI_SIZE": "2"}
# With these srun itself refuses to start in a batch script.
HET = {"SLURM_HET_SIZE": "2", "SLURM_JOB_ID_HET_GROUP_0": "7", "SLURM_JOB_NODELIST_HET_GROUP_0": "jwb0002",
       "SLURM_JOB_NODELIST_HET_GROUP_1": "jwb0001"}
# Slurm's handle of the job, the cluster's name, variables that Slurm sets again, options of sbatch and srun, those between srun and a
# task prolog, and variables of launchers that do not know Slurm jobs.
NOT_LEFT_BEHIND = re.compile(r"SLURM_(JOB_ID|JOB_NUM_NODES|CLUSTER_NAME|CPUS_PER_TASK|HOSTFILE|KILL_BAD_EXIT|TASK_PROLOG|ROLLCALL_\w+)$"
                             r"|SLURM_SCRIPT_CONTEXT$|OMPI_|MPI_|PMI_LOCAL_|PMI_KVSNAME$")
IDENTITY = ("SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST")  # without one of these a process is no task


def test_every_slurm_variable_that_rollcall_reads_is_covered_here(cluster, rollcall):
    table = cluster.run(rollcall, "--print-environment-markdown").stdout.partition("reads besides")[2].partition("never sets")[0]
    read = {name for name in re.findall(r"^\| `((?:SLURM|PMI|OMPI|MPI)\w*)`", table, re.M) if not NOT_LEFT_BEHIND.match(name)}
    assert {name for name in read if not any(tried.startswith(name) for tried in (*ANOTHER_JOBS, *HET))} == set()


def comparable(job, said):
    """The output of `rollcall env` without the values that differ between two jobs: ids, and the ports derived from them."""
    of_job = ("MASTER_PORT", "PET_MASTER_PORT", "JAX_COORDINATOR_ADDRESS", "ROLLCALL_SET", "ROLLCALL_STEP")
    facts = {**said["facts"], "job_id": said["facts"]["job_id"] in (None, int(job)), "step_id": said["facts"]["step_id"] is not None}
    return {"facts": facts, "warnings": said["warnings"],
            "variables": {v["name"]: v["value"] for v in said["variables"] if v["name"] not in of_job}}


@pytest.fixture
def record(cluster, rollcall):
    """The command of a task that records the output of `rollcall env`, and a function that reads the records by rank."""
    folder = cluster.new_folder()
    script = folder / "record"
    script.write_text(f'#!/bin/bash\n{rollcall} env --json > "$1/$SLURM_JOB_ID.$SLURM_PROCID.$$" 2>&1\n')
    script.chmod(0o755)

    def command():
        place = cluster.new_folder()

        def read():
            said = [(file.name.partition(".")[0], json.loads(file.read_text())) for file in place.iterdir()]
            return sorted((comparable(job, each) for job, each in said), key=json.dumps)
        return f"{script} {place}", read
    return command


def in_script(*options, before=""):
    def start(cluster, command, env):
        cluster.batch(f"#!/bin/bash\n{before}{command}\n", "-N2", "-n2", f"-w{HOSTS}", *options, env=env)
    return start


def direct(*options):
    def start(cluster, command, env):
        cluster.run("srun", "-N2", "-n2", f"-w{HOSTS}", *options, *command.split(), env=env)
    return start


def from_a_task(cluster, command, env):
    """The second task of a step submits the job and waits for its end."""
    script = cluster.new_folder() / "inner"
    script.write_text(f"#!/bin/bash\n{command}\nsrun {command}\n")
    submit = f"[ $SLURM_PROCID = 0 ] || sbatch --wait -N2 -n2 -w{HOSTS} --output=/dev/null {script}"
    cluster.run("srun", "-N2", "-n2", f"-w{HOSTS}", "--overcommit", "--mem=0", "bash", "-c", submit, env=env)


STARTS = {
    "batch script": in_script(),
    "batch script, --export=NONE": in_script("--export=NONE"),
    "array element": in_script("--array=3"),
    "step": direct(),
    "step, --export=NONE": direct("--export=NONE"),
    "step of a batch script": in_script(before="srun "),
    "step of an array element": in_script("--array=3-4", before="srun "),
    "step in a step": in_script(before="srun -N2 -n2 srun --overlap -N1 -n1 "),
    "job from a task": from_a_task,
}
WITH_SRUN_INSIDE = ("step of a batch script", "step of an array element", "step in a step", "job from a task")


@pytest.mark.long
@pytest.mark.parametrize("start", STARTS)
def test_variables_left_by_another_job_have_no_effect(cluster, record, start):
    command, read = record()
    STARTS[start](cluster, command, {})
    expected = read()
    command, read = record()
    left = {**ANOTHER_JOBS, **({} if start in WITH_SRUN_INSIDE else HET)}
    if SLURM and start.endswith("NONE"):  # without PATH a task finds no squeue of a Slurm that is unpacked somewhere
        left = {name: value for name, value in left.items() if name != "SLURM_RESTART_COUNT"}
    STARTS[start](cluster, command, left)
    assert expected and read() == expected


LAUNCHERS = {
    "torchrun": {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_x/error.json", "RANK": "1", "WORLD_SIZE": "2",
                 "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_RANK": "1",
                 "ROLE_WORLD_SIZE": "2", "ROLE_NAME": "default", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500"},
    "mpirun": {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
               "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "prterun-elsewhere-1@1", "PMIX_RANK": "1"},
    "hydra": {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "HYDI_CONTROL_FD": "7",
              "GFORTRAN_UNBUFFERED_PRECONNECTED": "y", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "elsewhere"}}
IGNORED_WARNING = re.compile(r"rollcall: warning: (TORCHELASTIC_RUN_ID|OMPI_COMM_WORLD_RANK|MPI_LOCALRANKID): was set before this step by ")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_variables_of_a_launcher_around_sbatch_salloc_or_srun_are_ignored(cluster, rollcall, launcher):
    """A rank of torchrun, mpirun or MPICH's mpiexec that submits a job, takes an allocation, or starts a step."""
    show = "sh -c 'echo $RANK $WORLD_SIZE ${TORCHELASTIC_RUN_ID-none}${OMPI_COMM_WORLD_RANK-none}${PMI_RANK-none}${PMI_FD-none} $MASTER_ADDR'"
    places = {f"{rollcall} exec -- ": "0 1 ", "srun --ddp ": "[01] 2 ", f"srun {rollcall} exec -- ": "[01] 2 "}

    def in_script(command):
        return cluster.batch(f"#!/bin/bash\n{command}\n", "-N2", "-n2", env=LAUNCHERS[launcher])

    def in_allocation(command):
        result = cluster.run("salloc", "-N2", "-n2", "bash", "-c", command, env=LAUNCHERS[launcher])
        return result.stdout + result.stderr

    for start, ranks in places.items():
        for output in in_script(start + show), in_allocation(start + show):
            lines = [line for line in output.splitlines() if re.match(ranks, line)]
            assert len(set(lines)) == int(ranks.split()[-1]) and len(IGNORED_WARNING.findall(output)) == 1, output
            assert all(" nonenonenonenone " in line and "192.0.2.1" not in line for line in lines), output


def test_variables_of_a_launcher_inside_the_job_are_used(cluster, rollcall):
    folder = cluster.new_folder()
    worker = f"{rollcall} env --json > {folder}/$RANK"
    cluster.batch(f"#!/bin/bash\n{rollcall} run --nproc-per-node=2 --no-python bash -c '{worker}'\n", "-n1", env=LAUNCHERS["torchrun"])
    facts = [json.loads((folder / rank).read_text())["facts"] for rank in "01"]
    assert [(each["rank"], each["world_size"]) for each in facts] == [(0, 2), (1, 2)]


@pytest.mark.long
def test_only_commands_that_read_the_step_query_slurmctld(cluster, rollcall, rollcall_train):
    """With a squeue that hangs: help appears at once, and unverified values are used with a warning."""
    folder = cluster.new_folder()
    (folder / "squeue").write_text(f"#!/bin/sh\ntouch {folder}/asked\nexec sleep 60\n")
    (folder / "squeue").chmod(0o755)
    quick = [f"{rollcall} {words}" for words in ("--help", "--version", "--print-config", "help exec", "env --help", "exec --help",
                                                 "doctor --list", "completion bash", "install --status")]
    quick += [f"{rollcall_train} --help", f"{rollcall_train} --print-config"]
    script = "\n".join(["#!/bin/bash", f"PATH={folder}:$PATH", *(f"{command} > /dev/null 2>&1" for command in quick),
                        f"[ -e {folder}/asked ] && echo asked early", f"{rollcall} exec -- true"])
    output = cluster.batch(script, "-n1", env={"SLURM_ARRAY_JOB_ID": "6", "SLURM_ARRAY_TASK_ID": "5"})
    assert (folder / "asked").exists() and "asked early" not in output
    assert "rollcall: warning: SLURM_ARRAY_TASK_ID: 5: is used, but may belong to a job that submitted this one" in output


def test_srun_asks_slurmctld_once_for_all_components_of_a_step(cluster):
    """Also where squeue fails: each query may take its time limit."""
    folder = cluster.new_folder()
    (folder / "squeue").write_text(f"#!/bin/sh\nps -o comm= $(ps -o ppid= $PPID) >> {folder}/asked_by\nexit 1\n")
    (folder / "squeue").chmod(0o755)
    cluster.batch(f"#!/bin/bash\nPATH={folder}:$PATH\nsrun --ddp -N1 -n1 true : --ddp -N1 -n1 true\n", "-N2", "-n2",
                  env={"SLURM_RESTART_COUNT": "2"})
    assert (folder / "asked_by").read_text().split().count("srun") == 1


@pytest.mark.long
@pytest.mark.parametrize("prefix", [("--ddp",), ()])
def test_rank_variables_equal_in_all_tasks_are_replaced_with_a_warning(cluster, rollcall, prefix):
    """`export LOCAL_RANK=$SLURM_LOCALID` in a batch script is 0 in all tasks."""
    names = ("LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "CROSS_RANK", "ROLE_RANK", "JAX_PROCESS_ID")
    shape = ("-N2", "-n4", "--ntasks-per-node=2")
    command, read = cluster.recorder()
    exec_ = () if prefix else (rollcall, "exec", "--")
    expected = tasks_values(cluster.environments(*prefix, *shape)[0], names) if prefix else None
    result = cluster.run("srun", *prefix, *shape, *exec_, *command, env=dict.fromkeys(names, "0"))
    got = tasks_values(read(), names)
    assert got == (expected or got) and [e["JAX_PROCESS_ID"] for e in got] == ["0", "1", "2", "3"]
    assert [e["LOCAL_RANK"] for e in got] == ["0", "1", "0", "1"] and [e["NODE_RANK"] for e in got] == ["0", "0", "1", "1"]
    told = {name: result.stderr.count(f"warning: {name}: 0: was set before srun for all tasks") for name in names}
    assert told == {"LOCAL_RANK": 2, "JAX_PROCESS_ID": 2, "ROLE_RANK": 2, "NODE_RANK": 1, "GROUP_RANK": 1, "CROSS_RANK": 1}


def tasks_values(environments, names):
    return [{name: e[name] for name in names} for e in environments]


@pytest.mark.long
def test_a_missing_slurm_variable_never_changes_the_ranks(cluster, rollcall):
    """Without each variable in turn: the same ranks, or an error."""
    names = [name for name in ANOTHER_JOBS if name.startswith("SLURM") and name not in IDENTITY]
    told = "sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $NODE_RANK'"
    tries = "; ".join(f'echo "{name} $(env -u {name} {rollcall} exec -- {told})"' for name in names)
    said = cluster.run("srun", "-N2", "-n2", "bash", "-c", tries, check=False).stdout.splitlines()
    truth = {name: {f"{name} 0 2 0 0", f"{name} 1 2 0 1"} for name in names}
    assert len(said) == 2 * len(names)
    assert [line for line in said if len(line.split()) > 1 and line not in truth[line.split()[0]]] == []


@pytest.mark.parametrize("template", ["run.sbatch", pytest.param("run_elastic.sbatch", marks=pytest.mark.long)])
def test_a_job_submitted_by_an_array_element_requeues_itself(cluster, rollcall, template):
    """Not the array element, although its index is in the environment. The training is a stand-in: interrupted, then done."""
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


def test_a_job_submitted_by_a_task_has_no_variables_of_that_step(cluster):
    """A trainer that submits its evaluation, whose script starts a program without srun."""
    folder = cluster.new_folder()
    inner = f"sbatch --wait -n1 --output=/dev/null --wrap 'env > {folder}/batch'; salloc -n1 env > {folder}/salloc"
    cluster.run("srun", "--ddp", "-N2", "-n2", "bash", "-c", f"[ $RANK = 0 ] || {{ {inner}; }}")
    for name in ("batch", "salloc"):
        left = re.findall(r"^(?:RANK|WORLD_SIZE|MASTER_\w+|PET_\w+|LOCAL_RANK|JAX_\w+|ROLLCALL_S\w+)=.*", (folder / name).read_text(), re.M)
        assert left == [], name


@pytest.mark.long
def test_a_step_has_no_array_or_restart_variables_of_the_submitting_job(cluster):
    """Programs select their work by SLURM_ARRAY_TASK_ID, and resume from a checkpoint after a restart."""
    names = {"SLURM_ARRAY_JOB_ID": "6", "SLURM_ARRAY_TASK_ID": "5", "SLURM_RESTART_COUNT": "2"}
    show = 'echo "${SLURM_ARRAY_TASK_ID-none} ${SLURM_RESTART_COUNT-none} $TORCHELASTIC_RESTART_COUNT"'
    script = f"#!/bin/bash\nsrun --ddp -n1 bash -c '{show}'\n"
    assert cluster.batch(script, "-n1", env=names).split("\n")[0] == "none none 0"
    assert cluster.batch(script, "-n1", "--array=4", env={"SLURM_RESTART_COUNT": "2"}).split("\n")[0] == "4 none 0"


def test_ddp_in_one_het_component_removes_array_variables_from_all(cluster):
    """Only the second component has --ddp, and an array element submitted the job."""
    show = ["sh", "-c", 'echo "$0 ${SLURM_ARRAY_TASK_ID-none}"']
    script = f"#!/bin/bash\nsrun -n1 {shlex.join(show)} first : --ddp -n1 {shlex.join(show)} second\n"
    output = cluster.batch(script, "-n2", "-N2", env={"SLURM_ARRAY_JOB_ID": "6", "SLURM_ARRAY_TASK_ID": "5"})
    assert sorted(line for line in output.splitlines() if line.startswith(("first", "second"))) == ["first none", "second none"], output


@pytest.mark.long
def test_training_in_a_job_submitted_by_an_array_is_not_an_array_element(cluster, rollcall_train):
    """Its folder name has no array index, and no restart is reported."""
    folder = cluster.new_folder()
    training = (f"{rollcall_train} --data=fake --model=resnet20 --image-size=32 --batch-size=8 --max-steps=1 --valid-epochs=0 --progress=lines "
                "--train-num-workers=1 --valid-num-workers=1")
    env = {**ANOTHER_JOBS, "SCRATCH": str(folder), "OMP_NUM_THREADS": "1"}
    output = cluster.batch(f"#!/bin/bash\n{training}\n", "-n1", "--job-name=mine", env=env)
    assert [path.name for path in (folder / "rollcall").iterdir()] == ["mine"], output
    assert "restart count" not in output and "element" not in output


@pytest.mark.long
def test_cpu_binding_inherited_from_the_submitting_step_is_a_warning(short_folder, plugin):
    cluster = Minicluster(short_folder / "bind", f"--plugin={plugin}", "--conf=TaskPlugin=task/affinity", "--cpus=2").start()
    try:
        folder = cluster.new_folder()
        script = folder / "inner"
        script.write_text("#!/bin/bash\nsrun --ddp true\necho undone\nsrun --ddp --cpu-bind=none true\n"
                          "unset ${!SLURM_CPU_BIND@}\nsrun --ddp true\nSLURM_CPU_BIND=none srun --ddp true\n")
        cluster.run("srun", "-n1", "sbatch", "--wait", "-n2", f"--output={folder}/out", script)
        output = (folder / "out").read_text()
        bound, _, undone = output.partition("undone")
        assert bound.count("rollcall: warning: SLURM_CPU_BIND: quiet,mask_cpu:0x") == 1, output
        assert "SLURM_CPU_BIND" not in undone, output
    finally:
        cluster.stop()
