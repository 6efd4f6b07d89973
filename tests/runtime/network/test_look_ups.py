"""How often a node looks names up when a step starts: once, whatever the number of its tasks."""

import shutil
import socket
import subprocess

import pytest

from minicluster import Minicluster, clean_environment

pytestmark = [pytest.mark.slurm, pytest.mark.long]

COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes a line to COUNT_FILE for every look-up of a name without a service: rollcall's. Slurm asks with a port. */
int getaddrinfo(const char* node, const char* service, const struct addrinfo* hints, struct addrinfo** found) {
  int (*real)(const char*, const char*, const struct addrinfo*, struct addrinfo**) = dlsym(RTLD_NEXT, "getaddrinfo");
  if (service == NULL && node != NULL) {
    char line[300];
    const char* host = getenv("SLURMD_NODENAME");
    int length = snprintf(line, sizeof line, "%s %s %d\n", host ? host : "-", node, (int)getpid());
    int file = open(COUNT_FILE, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0) {
      if (write(file, line, length) < 0) { }
      close(file);
    }
  }
  return real(node, service, hints, found);
}
"""


@pytest.fixture
def counter(tmp_path):
    """A library to preload that records getaddrinfo calls, and a function that reads what it recorded."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    tmp_path.chmod(0o777)
    lines = tmp_path / "lines"
    (tmp_path / "counter.c").write_text(COUNTER)
    subprocess.run([compiler, "-shared", "-fPIC", f'-DCOUNT_FILE="{lines}"', "-o", tmp_path / "counter.so", tmp_path / "counter.c",
                    "-ldl"], check=True)
    return tmp_path / "counter.so", lambda: lines.read_text().split("\n")[:-1] if lines.exists() else []


@pytest.fixture
def own_address():
    """An address of this machine that is not loopback: a name that every 'node' resolves, and that is on an interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no route: no address but loopback")
        return probe.getsockname()[0]


def test_the_plugin_looks_up_once_per_node(counter, own_address, plugin, short_folder):
    library, lines = counter
    cluster = Minicluster(short_folder / "look-ups", "--nodes=3", f"--plugin={plugin}")
    cluster.script(*cluster.options, "start", env={**clean_environment(), "LD_PRELOAD": str(library)})
    try:
        cluster.run("srun", "-N3", "--ntasks-per-node=3", "true")
        assert lines() == []  # without the option there is none
        cluster.run("srun", f"--ddp=host.template={own_address}", "-N3", "--ntasks-per-node=3", "true")
        assert [line.split()[1] for line in lines()] == [own_address] * 3
        assert len({line.split()[2] for line in lines()}) == 3  # each by another step daemon
    finally:
        cluster.stop()


@pytest.mark.parametrize("mpi", ["none", "pmix"])
def test_exec_looks_up_the_head_name_once_per_task(counter, own_address, cluster, rollcall, mpi):
    library, lines = counter
    cluster.run("srun", f"--mpi={mpi}", "-N2", "--ntasks-per-node=2", "env", f"LD_PRELOAD={library}", rollcall, "exec",
                f"--host-template={own_address}", "--", "env", "-u", "LD_PRELOAD", "true")
    assert [line.split()[1] for line in lines()] == [own_address] * 4
    assert len({line.split()[2] for line in lines()}) == 4
