"""Steps of every shape: how each is started, and the worlds of ranks that it forms."""

import dataclasses
import shlex


@dataclasses.dataclass(frozen=True)
class Launch:
    """How rollcall gets in front of a program: by the plugin's option, or by the command."""
    options: tuple = ()  # of srun
    prefix: tuple = ()  # before the program

    def srun(self, *options):
        return lambda command: ["srun", *self.options, *options, *self.prefix, *command]


@dataclasses.dataclass(frozen=True)
class Shape:
    """`start(cluster, launch, command)` runs `command` in each task, with rollcall in front. `worlds` has a list of hosts
    for each world, the host of each rank: worlds of one step stand in the order of their ranks. The environment alone
    tells `command` enough, unless `plugin_only` says why not. Nodes are named, since those of the shape before may not be
    free yet. `gpus`: what each rank sees of the node's four."""
    name: str
    start: object
    worlds: list
    settings: str = ""  # as in --ddp=
    plugin_only: str = ""
    gpus: list = None


def hosts(text):
    """"1 1 2" as ["x0001", "x0001", "x0002"]: nodes of the cluster whose names are made of x and four digits."""
    return [f"x{int(number):04}" for number in text.split()]


def direct(*options, files=None):
    """A single srun. `files`: name of a variable and the lines of the file that it names."""
    def start(cluster, launch, command):
        env = {}
        for variable, lines in (files or {}).items():
            path = cluster.new_folder() / variable
            path.write_text("\n".join(lines) + "\n")
            path.parent.chmod(0o755)
            env[variable] = str(path)
        cluster.run(*launch.srun(*options)(command), env=env)
    return start


def in_salloc(allocation, *options):
    def start(cluster, launch, command):
        cluster.run("salloc", *allocation, *launch.srun(*options)(command))
    return start


def in_batch(directives, script):
    """A batch script in which {step} stands for the step without "srun", {and} for what ends a step of several."""
    def start(cluster, launch, command):
        here = cluster.new_folder()
        meet = f"touch {here}/$SLURM_STEP_ID; until [ -e {here}/0 ] && [ -e {here}/1 ]; do sleep 0.02; done; "
        text = "".join(f"#SBATCH {line}\n" for line in directives) + script.format(
            options=shlex.join(launch.options),
            command=shlex.join([*launch.prefix, *command]),
            meeting=shlex.join(["bash", "-c", meet + "exec " + shlex.join([*launch.prefix, *command])]))
        output = cluster.batch("#!/bin/bash\n" + text)
        assert "error" not in output, output
    return start


def het_direct(tasks, *components):
    """srun A : B without an allocation around it. The tasks stay until all have recorded themselves, as those of a real
    program do: slurmctld forgets a component whose tasks have ended, and with it where rank 0 was. The components end a second
    apart: with --mpi=pmix, Slurm 22.05's srun may wait for ever for a thread of its own where two end in the same instant."""
    def start(cluster, launch, command):
        all_there = f"for i in {{1..1000}}; do [ $(ls {command[-1]} | wc -l) = {tasks} ] && break; sleep 0.02; done"
        parts = [["srun", *launch.options]]
        for component, options in enumerate(components):
            parts[-1] += [*options, *launch.prefix, "bash", "-c", f"{shlex.join(command)}; {all_there}; sleep {component}"]
            parts.append([":"])
        arguments = [word for part in parts[:-1] for word in part]
        cluster.run(*arguments)
    return start


CONCURRENT = "srun {options} %s {meeting} &\nsrun {options} %s {meeting} &\nwait\n"
BACKWARDS = ("-w", "x0003", "-n1", ":", "-w", "x[0001-0002]", "-N2", "-n3")  # component 0 on a later node than component 1

SHAPES = [
    Shape("one task", direct("-N1", "-n1", "-w", "x0001"), [hosts("1")]),
    Shape("block", direct("-w", "x[0001-0002]", "--ntasks-per-node=2"), [hosts("1 1 2 2")]),
    Shape("one task on each of four nodes", direct("-N4", "--ntasks-per-node=1"), [hosts("1 2 3 4")]),
    Shape("unequal tasks per node", direct("-w", "x[0001-0002]", "-n4", "--cpus-per-task=1"), [hosts("1 1 1 2")]),
    Shape("cyclic", direct("-w", "x[0001-0003]", "--ntasks-per-node=2", "-m", "cyclic"), [hosts("1 2 3 1 2 3")]),
    Shape("block, unequal", direct("-w", "x[0001-0003]", "-n7", "-m", "block"), [hosts("1 1 1 1 2 2 3")]),
    Shape("plane", direct("-w", "x[0001-0002]", "-n8", "-m", "plane=2"), [hosts("1 1 2 2 1 1 2 2")]),
    Shape("arbitrary by host file", direct("-m", "arbitrary", "-n3", files={"SLURM_HOSTFILE": hosts("3 1 3")}),
          [hosts("3 1 3")]),
    Shape("arbitrary by node list", direct("-m", "arbitrary", "-n3", "-w", "x0003,x0001,x0003"), [hosts("3 1 3")],
          plugin_only="SLURM_HOSTFILE"),
    Shape("node list out of order", direct("-w", "x0003,x0002", "-n2"), [hosts("2 3")]),
    Shape("subset of the job's nodes", in_salloc(["-N4", "--ntasks-per-node=2"], "-N2", "-n3"), [hosts("1 1 2")]),
    Shape("later nodes by --relative", in_salloc(["-N4"], "-N2", "-n2", "--relative=2"), [hosts("3 4")]),
    Shape("without a node", in_salloc(["-w", "x[0001-0003]"], "-N2", "-n2", "--exclude=x0001"), [hosts("2 3")]),
    Shape("job array", in_batch(["--array=0-2", "-w x0002", "-n2"], "srun {options} {command}\n"), [hosts("2 2")] * 3),
    Shape("concurrent steps with --overlap",
          in_batch(["-w x[0001-0002]", "--ntasks-per-node=2"], CONCURRENT % (("--overlap",) * 2)), [hosts("1 1 2 2")] * 2),
    Shape("concurrent steps with --exact",
          in_batch(["-w x[0001-0002]", "--ntasks-per-node=4"], CONCURRENT % (("--exact -N2 -n4 --ntasks-per-node=2",) * 2)),
          [hosts("1 1 2 2")] * 2),
    Shape("concurrent steps on nodes of their own",
          in_batch(["-w x[0001-0002]", "--ntasks-per-node=2"],
                   CONCURRENT % ("-N1 -n2 -w x0002", "-N1 -n2 -w x0001")), [hosts("1 1"), hosts("2 2")]),
    Shape("het job", in_salloc(["-w", "x0001", "-n1", ":", "-w", "x[0002-0003]", "-n3"], "--het-group=0,1"), [hosts("1 2 2 3")]),
    Shape("het job backwards", in_salloc(BACKWARDS, "--het-group=0,1"), [hosts("3 1 1 2")]),
    Shape("some components of a het job", in_salloc(["-w", "x0001", ":", "-w", "x0003", ":", "-w", "x0002", "-n2"], "--het-group=1,2"),
          [hosts("3 2 2")]),
    Shape("one component of a het job", in_salloc(BACKWARDS, "--het-group=1"), [hosts("1 1 2")]),
    Shape("het batch job",
          in_batch(["-w x0002 -n2", "hetjob", "-w x0001 -n1"], "srun {options} --het-group=0,1 {command}\n"), [hosts("2 2 1")]),
    Shape("het step without allocation", het_direct(4, ["-w", "x0001"], ["-w", "x[0002-0003]", "-n3"]), [hosts("1 2 2 3")]),
    Shape("het step without allocation backwards", het_direct(4, ["-w", "x0003"], ["-w", "x[0001-0002]", "-n3"]),
          [hosts("3 1 1 2")], plugin_only="SLURM_HOSTFILE"),
    Shape("het step in an ordinary job",
          in_batch(["-w x[0001-0002]", "-n2"], "srun {options} -N1 -n1 {command} : -N1 -n1 {command}\n"), [hosts("1 2")]),
    Shape("a world per component", in_salloc(BACKWARDS, "--het-group=0,1"), [hosts("3"), hosts("1 1 2")], "world=component"),
    Shape("a world per component of three",
          in_salloc(["-w", "x0004", ":", "-w", "x0003", "-n2", ":", "-w", "x[0001-0002]", "-n2"], "--het-group=0-2"),
          [hosts("4"), hosts("3 3"), hosts("1 2")], "world=component"),
    Shape("a world per component without allocation", het_direct(4, ["-w", "x0003"], ["-w", "x[0001-0002]", "-n3"]),
          [hosts("3"), hosts("1 1 2")], "world=component", plugin_only="world=component"),
    Shape("world=component where there is one", direct("-w", "x[0001-0002]", "-n2"), [hosts("1 2")], "world=component"),
    Shape("a GPU of its own for each task", direct("-w", "x[0001-0002]", "-n4", "--ntasks-per-node=2", "--gpus-per-task=1"),
          [hosts("1 1 2 2")], gpus=["0", "1", "0", "1"]),
    Shape("all GPUs of the step for each task", direct("-w", "x0001", "-n2", "--gpus-per-task=1"), [hosts("1 1")],
          "gpus.visible=node", plugin_only="gpus.visible", gpus=["0,1", "0,1"]),
    Shape("GPUs of the node for each task", direct("-w", "x[0001-0002]", "--gpus-per-node=2"), [hosts("1 2")],
          "gpus.visible=node", gpus=["0,1", "0,1"]),
    Shape("--export=NONE", direct("--export=NONE", "-w", "x[0001-0002]"), [hosts("1 2")]),
    Shape("salloc", in_salloc(["-w", "x[0001-0002]", "--ntasks-per-node=2"]), [hosts("1 1 2 2")]),
    Shape("batch job", in_batch(["-w x[0001-0002]", "--ntasks-per-node=2"], "srun {options} {command}\n"), [hosts("1 1 2 2")]),
    Shape("a second step", in_batch(["-w x[0001-0002]", "-n2"], "srun true\nsrun {options} {command}\n"), [hosts("1 2")]),
]


def by_name(names):
    return [shape for shape in SHAPES if shape.name in names]
