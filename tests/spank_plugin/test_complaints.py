"""Known complaints about other launchers, one test for each that no other file tests; docs/developer/evidence.md has the list.
Where it is cheap, a test also reproduces the complaint with the usual recipe."""

import json
import os
import pathlib
import re
import shlex

import pytest

from minicluster import SOURCE, poll

pytestmark = pytest.mark.slurm
WITHOUT_RESERVED_PORTS = ["env", "-u", "SLURM_STEP_RESV_PORTS"]


@pytest.fixture(scope="module")
def command(cluster, rollcall):
    """rollcall exec with the profile that plugstack.conf names for the plugin."""
    return ["env", f"ROLLCALL_SITE_CONFIG={cluster.folder}/etc/site.toml", str(rollcall), "exec", "--"]


def rollcall_lines(text):
    return [line for line in text.splitlines() if "rollcall: " in line]


def ephemeral_ports():
    first, last = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    return range(int(first), int(last) + 1)


@pytest.mark.parametrize("before", [[], WITHOUT_RESERVED_PORTS], ids=["reserved by Slurm", "hashed"])
def test_02_master_port_is_outside_the_ephemeral_range(cluster, command, before):
    record, read = cluster.recorder()
    cluster.run("srun", "-N2", *before, *command, *record)
    ports = {int(e["MASTER_PORT"]) for e in read()}
    assert len(ports) == 1 and not ports & set(ephemeral_ports())


def test_02_an_ephemeral_port_range_is_warned_of_once(cluster, command):
    """Not refused: where all ports from 1024 on are ephemeral no range is outside of them."""
    first = ephemeral_ports()[0]
    result = cluster.run("srun", "-N2", *WITHOUT_RESERVED_PORTS, f"ROLLCALL_PORT_RANGE={first}-{first + 9}", *command, "true")
    (line,) = rollcall_lines(result.stderr)
    assert "MASTER_PORT" in line and "ephemeral" in line and f"ip_local_reserved_ports={first}-{first + 9}" in line


def test_03_steps_of_a_job_without_reserved_ports_get_distinct_ports(cluster, command):
    """Here without Slurm's reservation, which rules it out: the place of job and step in port.range, twenty steps of one job."""
    step = shlex.join(["srun", "-n1", *WITHOUT_RESERVED_PORTS, *command, "printenv", "MASTER_PORT"])
    ports = cluster.run("salloc", "-n1", "bash", "-c", f"for step in {{1..20}}; do {step}; done").stdout.split()
    assert len(ports) == 20 and len(set(ports)) == 20
    assert {int(port) - int(ports[0]) for port in ports[1:]} <= {*range(1, 20), *range(-9999, -9980)}  # one after the other


def test_05_a_master_addr_set_by_the_user_is_kept(cluster):
    environments, errors = cluster.environments("--ddp", "-N2", env={"MASTER_ADDR": "127.0.0.1"})
    assert {e["MASTER_ADDR"] for e in environments} == {"127.0.0.1"}
    assert rollcall_lines(errors) == []  # it is the head node's, under another name


def test_05_an_unresolvable_host_name_ends_the_step(cluster):
    result = cluster.run("srun", "--ddp=host.template={host}.nowhere", "-N2", "sleep", "600", check=False)
    assert result.returncode == 69
    (line,) = rollcall_lines(result.stderr)
    assert "does not resolve" in line


def test_07_gloo_gets_only_existing_complete_interface_names(cluster):
    for names in ("l", "lo1"):
        result = cluster.run("srun", f"--ddp=interface.gloo={names}", "-N2", "true", check=False)
        assert result.returncode == 69 and f"interface.gloo: {names}: is not an interface" in rollcall_lines(result.stderr)[0]
    environments, _ = cluster.environments("--ddp=interface.gloo=eth77+lo", "-N2")
    assert {e["GLOO_SOCKET_IFNAME"] for e in environments} == {"lo"}  # the first that exists


def test_09_cpus_per_task_of_sbatch_reach_the_task_or_are_warned_of(cluster):
    record, read = cluster.recorder()
    output = cluster.batch(f"#!/bin/bash\n#SBATCH -n2 --cpus-per-task=2\nsrun --ddp {shlex.join(record)}\n")
    lost = [e for e in read() if e["OMP_NUM_THREADS"] != "2"]
    assert not lost or any("--cpus-per-task" in line or "SRUN_CPUS_PER_TASK" in line for line in rollcall_lines(output))
    record, read = cluster.recorder()
    cluster.batch("#!/bin/bash\n#SBATCH -n2 --cpus-per-task=2\nexport SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n"
                  f"srun --ddp {shlex.join(record)}\n")
    assert [e["OMP_NUM_THREADS"] for e in read()] == ["2", "2"]


def test_11_a_wrong_world_size_is_rejected_naming_both_numbers(cluster):
    result = cluster.run("srun", "--ddp", "-N2", "-n2", "true", env={"WORLD_SIZE": "8"}, check=False)
    assert result.returncode == 76
    (line,) = rollcall_lines(result.stderr)
    assert "WORLD_SIZE: 8: the number of ranks is 2" in line


# Writes its pid, records the signals it receives, and ends on SIGTERM.
TELL_SIGNALS = """
import os, signal, sys
folder = sys.argv[1] + "/" + os.environ["RANK"]
got = []
def note(number, frame):
    got.append(signal.Signals(number).name)
    open(folder + "." + got[-1], "w").close()
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, note)
open(folder + ".pid", "w").write(str(os.getpid()) + " " + os.environ["SLURM_TASK_PID"])
while "SIGTERM" not in got:
    signal.pause()
print("got", *got, flush=True)
"""


@pytest.mark.parametrize("way", ["plugin", "command"])
def test_12_signals_reach_the_program_itself(cluster, command, way):
    """There is no process between slurmstepd and the program: its pid is the one that slurmstepd forked."""
    folder = cluster.new_folder()
    script = folder / "job.sh"
    program = ["/usr/bin/python3", "-S", "-c", TELL_SIGNALS, str(folder)]
    step = ["srun", "--ddp", *program] if way == "plugin" else ["srun", *command, *program]
    script.write_text(f"#!/bin/bash\ntrap : TERM USR1\n{shlex.join(step)}\n")
    job = cluster.run("sbatch", "--parsable", "-N2", f"--output={folder}/out", "--no-requeue", script).stdout.strip()
    for rank in "01":
        poll(lambda: (folder / f"{rank}.pid").exists() and len((folder / f"{rank}.pid").read_text().split()) == 2, "start", 60)
        pid, task = (folder / f"{rank}.pid").read_text().split()
        assert pid == task
    for name in ("SIGUSR1", "SIGTERM"):
        cluster.run("scancel", f"--signal={name[3:]}", f"{job}.0")
        poll(lambda: all((folder / f"{rank}.{name}").exists() for rank in "01"), name, 60)
    poll(lambda: (folder / "out").read_text().count("got SIGUSR1 SIGTERM") == 2, "output of both tasks", 60)


def test_13_a_killed_rank_ends_the_step_of_the_template(cluster, tmp_path):
    program = tmp_path / "train.py"
    program.write_text("import os, signal, time\n"
                       "os.kill(os.getpid(), signal.SIGKILL) if os.environ['RANK'] == '1' else time.sleep(3600)\n")
    template = SOURCE / "sbatch_templates" / "run_python.sbatch"
    python = tmp_path / "python"
    python.symlink_to("/usr/bin/python3")
    result = cluster.run("sbatch", "--wait", "--parsable", "--cpus-per-task=1", f"--output={tmp_path}/out", template, program,
                         env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False, timeout=120)
    assert result.returncode != 0
    assert "task 1" in (tmp_path / "out").read_text()


def test_14_compilation_caches_are_node_local_and_downloads_shared(cluster, tmp_path):
    local, shared = tmp_path / "local", tmp_path / "shared"
    local.mkdir()
    shared.mkdir()
    environments, _ = cluster.environments(f"--ddp=cache.local={local},cache.shared={shared}", "-N2")
    for e in environments:
        for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR"):
            assert e[name].startswith(f"{local}/")
        for name in ("TORCH_HOME", "HF_HOME"):
            assert e[name].startswith(f"{shared}/")


def test_15_every_variable_set_by_the_user_is_kept(cluster):
    """Except ranks that contradict the step, which end it: they would make a program hang or falsify its results."""
    written, _ = cluster.environments("--ddp", "-N1", "-n1")
    ours = re.findall(r"(\w+):[0-9a-f]{8}", written[0]["ROLLCALL_SET"])
    users = {name: written[0][name] if name in ("RANK", "WORLD_SIZE", "MASTER_PORT") else "of-the-user" for name in ours}
    kept, errors = cluster.environments("--ddp", "-N1", "-n1", env=users)
    assert len(ours) > 10
    assert {name: kept[0][name] for name in ours} == users
    told = rollcall_lines(errors)
    assert all(any(f"warning: {name}: " in line for line in told) for name in ("LOCAL_RANK", "OMP_NUM_THREADS", "MASTER_ADDR"))


def test_15_world_size_counts_tasks_and_the_port_is_not_the_default(cluster):
    environments, _ = cluster.environments("--ddp", "-N2", "--ntasks-per-node=2")
    assert {e["WORLD_SIZE"] for e in environments} == {"4"}
    assert {e["MASTER_PORT"] for e in environments} != {"29500"}


AWKWARD = ["two words", "$(touch /tmp/x)", "`id`", "a;b", "*", "'", '"', "\\", "line\nbreak", "", "--", "-x", "ä"]


@pytest.mark.parametrize("way", ["plugin", "command"])
def test_16_arguments_and_values_are_not_interpreted_by_a_shell(cluster, command, way):
    folder = cluster.new_folder()
    program = ["/usr/bin/python3", "-S", "-c", "import os,sys,json; json.dump([sys.argv[2:], os.environ['AWKWARD']], open(sys.argv[1], 'w'))",
               str(folder / "seen")]
    step = ["srun", "--ddp", "-n1", *program] if way == "plugin" else ["srun", "-n1", *command, *program]
    everything = "|".join(AWKWARD)
    cluster.run(*step, *AWKWARD, env={"AWKWARD": everything, "PYTHONUTF8": "1"})
    assert json.loads((folder / "seen").read_text()) == [AWKWARD, everything]


def test_17_all_of_128_ranks_get_consistent_environments(cluster):
    """Gloo builds its full mesh itself; the launcher provides an endpoint that does not depend on the number of ranks."""
    seen = cluster.run("srun", "--ddp", "-N4", "-n128", "--overcommit", "--distribution=cyclic", "sh", "-c",
                       'echo "$RANK $WORLD_SIZE $LOCAL_RANK $NODE_RANK $MASTER_ADDR:$MASTER_PORT"', timeout=120).stdout.split("\n")
    tasks = sorted((line.split() for line in seen if line), key=lambda words: int(words[0]))
    assert [int(words[0]) for words in tasks] == list(range(128))
    assert {words[1] for words in tasks} == {"128"}
    assert sorted(words[2] for words in tasks) == sorted(str(rank) for rank in range(32) for _ in range(4))
    assert len({words[4] for words in tasks}) == 1
