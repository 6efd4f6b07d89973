"""scripts/minicluster: clusters start and work, and stop without leftovers."""

import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import subprocess

import pytest

from minicluster import SCRIPT, Minicluster, clean_environment, poll, processes_of

pytestmark = pytest.mark.slurm


@pytest.fixture
def started(short_folder, request):
    """Starts clusters that are stopped when the test ends."""
    made = []

    def start(*options, prefix=(), folder=None):
        cluster = Minicluster(folder or short_folder / f"m{os.getpid()}-{request.node.name[:20]}-{len(made)}", *options, prefix=prefix)
        made.append(cluster)
        return cluster.start()

    yield start
    for cluster in made:
        cluster.script("stop", check=False)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def port_of(cluster):
    conf = (cluster.folder / "etc" / "slurm.conf").read_text()
    return int(next(line for line in conf.splitlines() if line.startswith("SlurmctldPort=")).split("=")[1])


def test_every_node_runs_a_task_with_the_given_number_of_cpus(started):
    cluster = started("--nodes=3", "--cpus=6", "--prefix=host")
    names = cluster.run("srun", "-N3", "--ntasks-per-node=6", "bash", "-c", "echo $SLURMD_NODENAME").stdout.split()
    assert sorted(names) == ["host0001"] * 6 + ["host0002"] * 6 + ["host0003"] * 6


@pytest.mark.parametrize("command", ["start", "status", "stop"])
@pytest.mark.parametrize("planted", ["folder", "parameters", "link", "mode"])
def test_a_folder_of_another_user_is_rejected(short_folder, planted, command):
    """Its parameters are sourced: here they would leave a mark."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of another user")
    folder, mark = short_folder / f"planted-{planted}-{command}", short_folder / f"mark-{planted}-{command}"
    real = folder if planted != "link" else short_folder / f"real-{command}"
    real.mkdir()
    if planted == "link":
        folder.symlink_to(real)
    (real / "parameters").write_text(f"touch {mark}\n")
    (real / "parameters").chmod(0o646 if planted == "mode" else 0o644)
    if planted != "mode":
        os.chown(real / "parameters" if planted == "parameters" else real, 4711, 4711)
    result = subprocess.run([SCRIPT, f"--dir={folder}", command], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 69 and "another user" in result.stderr, result.stderr
    assert not mark.exists()


def test_stop_ends_running_jobs_and_leaves_no_process(started):
    cluster = started("--nodes=2")
    cluster.run("sbatch", "-N2", "--output=/dev/null", "--wrap", "srun sleep 1000 & setsid sleep 1001 & wait")
    poll(lambda: len(cluster.run("squeue", "-h", "-s", "-o", "%i").stdout.split()) >= 2, "the step runs")
    assert processes_of(cluster.folder)
    cluster.stop()
    assert processes_of(cluster.folder) == []


def test_stop_of_a_stopped_cluster_is_no_error(started):
    cluster = started("--nodes=1")
    cluster.stop()
    cluster.stop()


def test_a_second_start_in_the_same_folder_is_rejected(started):
    cluster = started("--nodes=1")
    again = cluster.script("start", check=False)
    assert again.returncode == 73 and "runs there already" in again.stderr
    assert cluster.run("srun", "true").returncode == 0


def test_two_clusters_run_at_once_on_different_ports(started):
    one, two = started("--nodes=1"), started("--nodes=2")
    assert abs(port_of(one) - port_of(two)) >= 400
    one.stop()
    assert two.run("srun", "-N2", "hostname").returncode == 0


def test_a_port_in_use_is_rejected_with_the_reason(started, short_folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = min(taken.getsockname()[1], 65136)
        result = Minicluster(short_folder / "p").script(f"--port={port}", "start", check=False)
    assert result.returncode == 69 and "in use" in result.stderr


@pytest.mark.parametrize("planted", ["link", "pipe", "file", "open folder", "folder of another user"])
def test_a_start_is_not_blocked_by_a_forged_lock(short_folder, tmp_path, planted):
    """What stands in the place of the folder that is locked is neither followed, opened nor made."""
    runtime = short_folder / f"runtime-{planted.replace(' ', '-')}"
    runtime.mkdir(mode=0o700)
    turn, victim = runtime / "rollcall-minicluster-turn", tmp_path / "victim"
    if planted == "link":
        turn.symlink_to(victim)
    elif planted == "pipe":
        os.mkfifo(turn)
    elif planted == "file":
        turn.write_text("")
    else:
        turn.mkdir()
        turn.chmod(0o777 if planted == "open folder" else 0o700)
    if planted == "folder of another user":
        if os.geteuid() != 0:
            pytest.skip("only root can make a folder of another user")
        os.chown(turn, 4711, 4711)
    cluster = Minicluster(short_folder / f"t-{runtime.name}")
    result = cluster.script("start", check=False, env={**clean_environment(), "XDG_RUNTIME_DIR": str(runtime)}, timeout=20)
    cluster.script("stop", check=False)
    assert result.returncode == 69 and f"{turn}: can be read or written by others" in result.stderr, result.stderr
    assert not victim.exists() and result.stderr.count("\n") == 1


def test_a_runtime_folder_accessible_to_others_is_not_used(short_folder):
    """As after `su`: the variable names the folder of whoever logged in."""
    other = short_folder / "runtime-of-another"
    other.mkdir()
    other.chmod(0o755)
    cluster = Minicluster(short_folder / "other", "--nodes=1", prefix=["env", f"XDG_RUNTIME_DIR={other}"])
    try:
        assert cluster.start().run("srun", "true").returncode == 0
        assert list(other.iterdir()) == []
    finally:
        cluster.stop()


def test_a_cluster_can_restart_with_other_options(started):
    cluster = started("--nodes=3")
    cluster.stop()
    cluster.options = ("--nodes=1", "--prefix=x")
    cluster.start()
    assert cluster.run("sinfo", "-h", "-o", "%N").stdout.strip() == "x0001"


def test_a_killed_node_is_down_with_its_tasks_and_comes_back(started):
    cluster = started("--nodes=2")
    cluster.run("sbatch", "-N2", "--no-requeue", "--output=/dev/null", "--wrap", "srun sleep 1000")
    poll(lambda: len(sleepers(cluster)) == 2, "two tasks sleep")
    cluster.script("kill-node", 2)
    assert cluster.nodes_in_state("down") == ["jwb0002"]
    assert all(b"SLURMD_NODENAME=jwb0002\0" not in of_process(pid, "environ") for pid in sleepers(cluster))
    cluster.script("restart-node", "jwb0002")
    assert "jwb0002" not in cluster.nodes_in_state("down")
    poll(lambda: len(cluster.nodes_in_state("idle")) == 2, "both nodes are idle")
    assert cluster.run("srun", "-N2", "true").returncode == 0


def sleepers(cluster):
    """Pids of this cluster's `sleep 1000` tasks."""
    return [pid for pid in processes_of(cluster.folder) if of_process(pid, "cmdline").endswith(b"/sleep\x001000\x00")]


def of_process(pid, name):
    """Nothing of one that has ended."""
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc", pid, name).read_bytes()
    return b""


def test_tasks_survive_the_restart_of_their_slurmd(started):
    cluster = started("--nodes=1")
    cluster.run("sbatch", "--output=/dev/null", "--wrap", "srun sleep 1000")
    before = poll(lambda: sleepers(cluster), "the task sleeps")
    cluster.script("restart-node", 1)
    assert sleepers(cluster) == before


def test_a_private_parent_folder_is_supported(started, short_folder):
    private = short_folder / "private"
    private.mkdir(mode=0o700)
    assert started("--nodes=1", folder=private / "c").run("srun", "true").returncode == 0


def test_pmix_tasks_start(started):
    cluster = started("--nodes=2", "--mpi=pmix")
    ranks = cluster.run("srun", "-N2", "bash", "-c", "echo $PMIX_RANK").stdout.split()
    assert sorted(ranks) == ["0", "1"]


def as_user(name):
    """A command that runs another one as user `name`, from root."""
    if os.geteuid() != 0:
        pytest.skip("only root can run as another user")
    if shutil.which("runuser") is None or not any(entry.pw_name == name for entry in pwd.getpwall()):
        pytest.skip(f"no user {name} or no runuser")
    if subprocess.run(["runuser", "-u", name, "--", "test", "-x", SCRIPT]).returncode != 0:
        pytest.skip(f"the sources are not readable for {name}")
    return ("runuser", "-u", name, "--")


@pytest.fixture
def cluster_of_nobody(started):
    """Two nodes that an ordinary user started, beside a folder that everybody can enter."""
    folder = pathlib.Path(f"/tmp/rc-nobody-{os.getpid()}")
    cluster = started("--nodes=2", prefix=as_user("nobody"), folder=folder)
    yield cluster
    cluster.stop()
    shutil.rmtree(folder)
    assert processes_of(folder) == []


def test_a_minicluster_runs_as_an_ordinary_user(cluster_of_nobody):
    assert cluster_of_nobody.run("srun", "-N2", "id", "-un").stdout.split() == ["nobody", "nobody"]


def test_other_users_cannot_use_the_cluster_of_an_ordinary_user(cluster_of_nobody):
    """Its slurmd would run the job as the user who started it. (srun itself looks for another slurm.conf for a minute.)"""
    for path in ("etc/slurm.conf", "run/munge.socket", "munge/key", "log/slurmctld.log"):
        assert (cluster_of_nobody.folder / path).exists()
        assert subprocess.run([*as_user("games"), "test", "-e", str(cluster_of_nobody.folder / path)]).returncode != 0, path


def test_any_user_can_run_steps_on_a_cluster_of_root(started):
    other = as_user("nobody")
    cluster = started("--nodes=1")
    conf = cluster.folder / "etc" / "slurm.conf"
    result = subprocess.run([*other, "env", f"SLURM_CONF={conf}", "srun", "id", "-un"], capture_output=True, text=True,
                            timeout=60, check=False, cwd="/tmp")
    assert result.stdout.split() == ["nobody"], result.stderr


@pytest.mark.parametrize("arguments, text", [
    (["--nodes=0", "start"], "--nodes: 0"),
    (["--nodes=x", "start"], "--nodes: x"),
    (["--mpi=openmpi", "start"], "neither none nor pmix"),
    (["--plugin=/nowhere/x.so", "start"], "does not exist"),
    (["--frobnicate", "start"], "--frobnicate"),
    (["dance"], "no cluster was started there"),
    (["run"], "no cluster was started there"),
    (["kill-node", "1"], "no cluster was started there"),
])
def test_minicluster_rejects_bad_input_in_one_line(short_folder, arguments, text):
    result = Minicluster(short_folder / "nothing").script(*arguments, check=False)
    assert result.returncode in (64, 66)
    assert text in result.stderr and result.stderr.startswith("rollcall: minicluster: ") and result.stderr.count("\n") == 1


def test_minicluster_rejects_a_folder_with_other_files(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    result = Minicluster(tmp_path).script("start", check=False)
    assert result.returncode == 73 and list(tmp_path.iterdir()) == [tmp_path / "thesis.tex"]


def test_an_unknown_node_is_rejected(started):
    cluster = started("--nodes=2")
    assert "is not a node" in cluster.script("kill-node", 3, check=False).stderr


def test_minicluster_help_names_every_command():
    text = subprocess.run([SCRIPT, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    for command in ("start", "stop", "status", "run CMD", "env", "kill-node N", "restart-node N"):
        assert command in text
