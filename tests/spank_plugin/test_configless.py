"""Configless Slurm, where slurmctld distributes the configuration files: the plugin and the command find the site profile."""

import contextlib
import os
import re
import shutil
import signal

import pytest

from minicluster import Minicluster, poll
from test_no_drain import all_nodes_idle

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a node folders of its own")]

NODES = ("jwb0001", "jwb0002")
# A node with a /run of its own, in which slurmd finds nothing but munge's socket: all else comes from slurmctld.
SLURMD = """mount -t tmpfs tmpfs /run && mkdir /run/munge && ln -s {folder}/run/munge.socket /run/munge/munge.socket.2 && {plugins}
unset SLURM_CONF && cd / && exec slurmd -N {node} --conf-server 127.0.0.1:{port}"""
# An unpacked Slurm looks where it was built for, as long as it has no files: there lies this machine's own.
PLUGINS = "mount --bind {here} /usr/lib/x86_64-linux-gnu/slurm-wlm &&"


@pytest.fixture(scope="module")
def configless(believed_folder, plugin, rollcall):
    for folder, file in (("lib", plugin), ("bin", rollcall)):  # an installation of root's, wherever the build is
        (believed_folder / folder).mkdir()
        shutil.copy(file, believed_folder / folder)
    plugin = believed_folder / "lib" / plugin.name
    cluster = Minicluster(believed_folder / "configless", "--nodes=2", f"--plugin={plugin}",
                          "--conf=SlurmctldParameters=enable_configless")
    with contextlib.ExitStack() as at_the_end:
        at_the_end.callback(cluster.stop)
        cluster.start()
        for node in NODES:
            end(cluster, node)
        etc = cluster.folder / "etc"
        profile = (etc / "site.toml").rename(cluster.folder / "site.toml")  # the plugin's file and the profile are on each node
        (etc / "plugstack.conf").write_text(f"optional {plugin} config={profile}\n")
        conf = re.sub("(?m)^PlugStackConfig=.*\n", "", (etc / "slurm.conf").read_text())  # Slurm hands out what lies beside slurm.conf
        (etc / "slurm.conf").write_text(conf)
        cluster.run("scontrol", "reconfigure")
        port = re.search("(?m)^SlurmctldPort=([0-9]+)", conf)[1]
        unpacked = re.search("(?m)^PluginDir=(.*)", conf)
        plugins = PLUGINS.format(here=unpacked[1]) if unpacked else ""
        for node in NODES:
            start = SLURMD.format(folder=cluster.folder, node=node, port=port, plugins=plugins)
            cluster.run("unshare", "--mount", "--propagation=private", "sh", "-c", start)
            at_the_end.callback(end, cluster, node)  # its command line does not name the cluster's folder, by which stop() knows its own
        poll(lambda: all_nodes_idle(cluster), "idle nodes")
        yield cluster


def end(cluster, node):
    """By KILL: told to end by TERM, Slurm 24.11's slurmd on a busy machine now and then spins for good instead."""
    file = cluster.folder / "run" / f"slurmd.{node}.pid"
    pid = int(file.read_text())
    os.kill(pid, signal.SIGKILL)
    file.unlink()
    poll(lambda: is_gone(pid), f"the end of {node}'s slurmd")


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            return "State:\tZ" in file.read()
    except FileNotFoundError:
        return True


def test_a_step_gets_its_environment_in_configless_mode(configless):
    (first, second), errors = configless.environments("--ddp", "-N2")
    assert "rollcall" not in errors
    for task in (first, second):
        assert task["SLURM_CONF"].startswith(f"{configless.folder}/spool/{task['SLURMD_NODENAME']}/conf-cache/")
        assert (task["MASTER_ADDR"], task["GLOO_SOCKET_IFNAME"], task["WORLD_SIZE"]) == ("localhost", "lo", "2")


def test_the_command_finds_the_plugin_profile_in_configless_mode(configless, rollcall):
    shown = configless.run("srun", "-N1", str(rollcall), "--print-config").stdout
    assert f"recognised by config= in plugstack.conf, {configless.folder}/site.toml" in shown
    told = configless.run("srun", "-N2", str(rollcall), "doctor", "--no-bench", "--only=answer,way,environment,head-name,head-port")
    assert "srun has --ddp (site installation" in told.stdout
