"""Unresponsive files, file servers and name servers block at most the tasks of the user, never slurmstepd and so never a
node. Hanging tasks are ended after the setting task.timeout, or with the job, like any program."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time

import pytest

from minicluster import Minicluster, clean_environment, poll, rollcall_lines
from test_no_drain import check_nodes

pytestmark = [pytest.mark.slurm, pytest.mark.long]

# For a file server and a name server that do not answer: no handler of a signal ends the wait, as in the kernel's NFS client.
STAND_IN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static void hang(void) {
  for (;;) pause();
}

static int open_as(const char* name, const char* path, int flags, int mode) {
  if (strstr(path, "/hangs/")) hang();
#ifdef ABSENT
  if (strcmp(path, ABSENT) == 0) { errno = ENOENT; return -1; }
#endif
  int (*real)(const char*, int, ...) = dlsym(RTLD_NEXT, name);
  return real(path, flags, mode);
}

#define OPEN(name) \
  int name(const char* path, int flags, ...) { \
    va_list more; \
    va_start(more, flags); \
    int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, int) : 0; \
    va_end(more); \
    return open_as(#name, path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

#ifdef NO_LAYOUT
void* slurm_job_step_layout_get(void* step) { return step ? NULL : step; }
#endif

int getaddrinfo(const char* node, const char* service, const struct addrinfo* hints, struct addrinfo** found) {
  if (node && strncmp(node, "hangs", 5) == 0) hang();
  int (*real)(const char*, const char*, const struct addrinfo*, struct addrinfo**) = dlsym(RTLD_NEXT, "getaddrinfo");
  return real(node, service, hints, found);
}
"""


def stand_in(folder, *defines):
    """A library to preload."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    library = folder / "stand_in.so"
    (folder / "stand_in.c").write_text(STAND_IN)
    subprocess.run([compiler, "-shared", "-fPIC", *defines, "-o", library, folder / "stand_in.c", "-ldl"], check=True)
    return library


def srun_in_background(cluster, *options):
    return threading.Thread(target=cluster.run, args=("srun", *options, "true"), kwargs={"check": False})


# ---------------------------------------------------------------- what the user's file can be


def fifo(path):
    os.mkfifo(path)


def endless_device(path):
    path.symlink_to("/dev/zero")


def terminal(path):
    path.symlink_to("/dev/tty")


def folder(path):
    path.mkdir()


def deep_key(path):
    path.write_text("a." * 50_000 + "a = 1\n")


def deep_table(path):
    path.write_text("[" + "a." * 30_000 + "a]\n")


def deep_quoted_key(path):
    path.write_text("x = 1\n" + '"a".' * 15_000 + "a = 1\n")


def deep_array(path):
    path.write_text("threads = " + "[" * 30_000 + "]" * 30_000 + "\n")


def long_file(path):
    with path.open("w") as file:
        file.truncate(10 << 30)


FILES = [fifo, endless_device, terminal, folder, deep_key, deep_table, deep_quoted_key, deep_array, long_file]


@pytest.fixture
def home(tmp_path):
    """A user's folder of settings, and the file that is to be made in it."""
    tmp_path.chmod(0o755)
    (tmp_path / "rollcall").mkdir()
    return tmp_path


@pytest.mark.parametrize("make", FILES, ids=lambda function: function.__name__)
def test_a_bad_user_config_file_ends_only_the_users_step(cluster, home, make):
    make(home / "rollcall" / "config.toml")
    step = cluster.run("srun", "--ddp", f"--export=ALL,XDG_CONFIG_HOME={home}", "-N2", "--ntasks-per-node=2", "echo", "ran", check=False)
    assert step.returncode in (66, 78) and "ran" not in step.stdout, step.stderr
    lines = rollcall_lines(step.stderr)
    assert len(lines) == 2 and all(f"{home}/rollcall/config.toml" in line for line in lines), step.stderr  # each node's own
    here = cluster.run("srun", "--ddp", "-N2", "true", env={"XDG_CONFIG_HOME": str(home)}, check=False)
    assert here.returncode != 0 and len(rollcall_lines(here.stderr)) == 1  # srun itself looks, too
    check_nodes(cluster)


def test_a_growing_config_file_ends_only_the_users_step(cluster, home):
    path = home / "rollcall" / "config.toml"
    path.write_text("threads = 3\n")
    stop = threading.Event()

    def grow():
        with path.open("a") as file:
            while not stop.is_set() and file.tell() < 1 << 28:
                file.write("# and on\n" * 1000)

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        step = cluster.run("srun", "--ddp", f"--export=ALL,XDG_CONFIG_HOME={home}", "-N2", "true", check=False)
    finally:
        stop.set()
        growing.join()
    assert step.returncode == 78 and "is longer than" in step.stderr
    check_nodes(cluster)


# ---------------------------------------------------------------- servers that do not answer


@pytest.fixture(scope="module")
def silent(short_folder, plugin, tmp_path_factory):
    """Two nodes whose file server has lost the folder `hangs`, and whose name server does not answer for names that begin so."""
    folder = tmp_path_factory.mktemp("silent")
    for part in (folder, *list(folder.parents)[:2]):
        part.chmod(0o755)
    cluster = Minicluster(short_folder / "silent", "--nodes=2", f"--plugin={plugin}")
    cluster.script(*cluster.slurm, *cluster.options, "start", env={**clean_environment(), "LD_PRELOAD": str(stand_in(folder))})
    yield cluster
    cluster.stop()


def test_a_silent_name_server_ends_the_tasks_at_the_time_limit(silent):
    step = silent.run("srun", "--ddp=task.timeout=1,host.template=hangs-{host}", "-N2", "--ntasks-per-node=3", "echo", "ran", check=False)
    assert step.returncode == 69 and "ran" not in step.stdout
    lines = [line[line.index("rollcall:"):] for line in rollcall_lines(step.stderr)]
    # One line a node, whatever the number of its tasks. With the first task that ends, Slurm may end the other node's before its time is up.
    assert lines and len(set(lines)) == len(lines) and set(lines) <= {
        f"rollcall: task.timeout: 1 s: {node} still looks up hangs-jwb0001; try checking the file server or name server that this waits for"
        for node in ("jwb0001", "jwb0002")}, step.stderr
    check_nodes(silent)


def test_a_silent_file_server_ends_the_tasks_at_the_time_limit(silent):
    """The settings themselves: the default's 30 s hold, since nothing else is known yet."""
    begin = time.monotonic()
    step = silent.run("srun", "--ddp", "--export=ALL,XDG_CONFIG_HOME=/hangs/", "-N2", "true", check=False, timeout=170)
    assert time.monotonic() - begin > 25
    assert step.returncode == 69
    assert [line for line in rollcall_lines(step.stderr) if "task.timeout: 30 s: jwb000" not in line] == []
    check_nodes(silent)


def tasks_that_are_set_up(cluster):
    """Of this cluster: others of the same machine may have some as well."""
    sockets = subprocess.run(["ss", "-Hxlp"], capture_output=True, text=True, check=True).stdout.splitlines()
    daemons = {pid for line in sockets if f"{cluster.folder}/spool/" in line for pid in re.findall(r"pid=(\d+)", line)}
    count = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # one that has ended
            status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
            count += status["Name"] == "rollcall-task" and status["PPid"] in daemons
    return count


def test_a_task_ends_in_time_even_if_its_stderr_is_blocked(silent, tmp_path):
    """Its errors go to a FIFO that is full."""
    for part in (tmp_path, *list(tmp_path.parents)[:2]):
        part.chmod(0o755)
    path = tmp_path / "errors-0"
    os.mkfifo(path)
    path.chmod(0o666)
    full = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        with contextlib.suppress(BlockingIOError):
            while os.write(full, b"x" * 4096):
                pass
        step = silent.run("srun", "--ddp=task.timeout=1,host.template=hangs-{host}", "-N1", f"--error={tmp_path}/errors-%t", "true", check=False)
        assert step.returncode == 69
        check_nodes(silent)
    finally:
        os.close(full)


@pytest.mark.parametrize("options", [["--ddp=host.template=hangs-{host}"], ["--ddp", "--export=ALL,XDG_CONFIG_HOME=/hangs/"]],
                         ids=["name server", "file server"])
def test_a_hanging_step_can_be_cancelled(silent, options):
    step = srun_in_background(silent, *options, "-N2", "--ntasks-per-node=2")
    step.start()
    job = poll(lambda: silent.run("squeue", "-h", "-t", "running", "-o", "%i").stdout.split(), "a job that runs")[0]
    poll(lambda: tasks_that_are_set_up(silent) == 4, "tasks that hang")
    silent.run("scancel", job)
    check_nodes(silent)
    step.join()


def test_steps_without_ddp_contact_no_server(silent):
    assert silent.run("srun", "--export=ALL,XDG_CONFIG_HOME=/hangs/", "-N2", "true").returncode == 0


# ---------------------------------------------------------------- one node that is not like the others


def test_a_node_without_the_site_profile_reports_it(cluster, plugin, short_folder, tmp_path):
    """Its tasks end; those of the other node do not know, and rank 0 is there."""
    for part in (tmp_path, *list(tmp_path.parents)[:2]):
        part.chmod(0o755)
    apart = Minicluster(short_folder / "apart", "--nodes=2", f"--plugin={plugin}").start()
    try:
        profile = apart.folder / "etc" / "site.toml"
        library = stand_in(tmp_path, f'-DABSENT="{profile}"')
        apart.script("restart-node", "jwb0002", env={**clean_environment(), "LD_PRELOAD": str(library)})
        step = apart.run("srun", "--ddp", "-N2", "--ntasks-per-node=3", "sh", "-c", "echo ran on $SLURMD_NODENAME", check=False)
        assert step.returncode == 66
        assert "jwb0002" not in step.stdout
        (line,) = rollcall_lines(step.stderr)
        assert f"{profile}: No such file or directory" in line
        check_nodes(apart)
    finally:
        apart.stop()


def test_a_node_without_answer_from_slurmctld_ends_the_step(short_folder, tmp_path, plugin):
    """A program that started there without MASTER_ADDR would train alone."""
    apart = Minicluster(short_folder / "apart", "--nodes=2", f"--plugin={plugin}").start()
    try:
        library = stand_in(tmp_path, "-DNO_LAYOUT")
        apart.script("restart-node", "jwb0002", env={**clean_environment(), "LD_PRELOAD": str(library)})
        step = ["-m", "arbitrary", "-n3", "-w", "jwb0001,jwb0002,jwb0002"]
        run = ["sh", "-c", "echo ran on $SLURMD_NODENAME with $MASTER_ADDR"]
        lost = apart.run("srun", "--ddp", *step, *run, check=False)
        assert lost.returncode == 69 and "jwb0002" not in lost.stdout, lost.stderr
        (line,) = rollcall_lines(lost.stderr)
        assert "MASTER_ADDR: jwb0002 does not know the node of rank 0" in line
        told = apart.run("srun", "--ddp", *step, *run, env={"MASTER_ADDR": "127.0.0.1"})
        assert told.stdout.count("with 127.0.0.1") == 3
        check_nodes(apart)
    finally:
        apart.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may put another file in a file's place on one node")
@pytest.mark.parametrize("older", [["jwb0002"], ["jwb0001", "jwb0002"]], ids=["one node", "all nodes"])
def test_a_setting_unknown_to_an_older_rollcall_ends_its_tasks(short_folder, tmp_path, plugin, rollcall, older):
    """srun's takes it, so that nothing else would tell: Slurm passes over what a node's option handling fails with."""
    known = b"scratch.warn-days"
    assert known in rollcall.read_bytes()
    program = tmp_path / "older"
    program.write_bytes(rollcall.read_bytes().replace(known, b"scratch.warn-week"))
    program.chmod(0o755)
    apart = Minicluster(short_folder / "apart", "--nodes=2", f"--plugin={plugin}").start()
    try:
        for node in older:
            apart.restart_node_with(node, program, rollcall)
        step = ["-N2", "--ntasks-per-node=3", "--kill-on-bad-exit=0", "sh", "-c", "echo ran on $SLURMD_NODENAME"]
        newer = apart.run("srun", f"--ddp={known.decode()}=3", *step, check=False)
        assert newer.returncode == 76, newer.stderr
        assert [node for node in older if node in newer.stdout] == []
        lines = sorted(line[line.index("rollcall:"):] for line in rollcall_lines(newer.stderr))
        assert len(lines) == len(older), newer.stderr
        for node, line in zip(older, lines):
            assert f"--ddp={known.decode()}: unknown setting on {node}, whose rollcall is of another version" in line
        assert apart.run("srun", "--ddp=threads=2", *step).stdout.count("ran") == 6  # what both know
        check_nodes(apart)
    finally:
        apart.stop()
