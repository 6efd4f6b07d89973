"""Upgrades of the plugin while steps are running, and the rollback."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

from common_fixtures import built
from minicluster import SLURM, Minicluster, clean_environment, poll

pytestmark = [pytest.mark.slurm, pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="only root sees what slurmstepd has mapped")]

# Says what the task's slurmstepd has mapped, and ends when it is told to.
TASK = """grep -o '[^ ]*spank_rollcall.so' /proc/$PPID/maps | sort -u; touch {folder}/started.$SLURM_JOB_ID
while [ ! -e {folder}/end ]; do sleep 0.05; done"""


@pytest.fixture
def prefix(short_folder, plugin):
    """Two builds of the plugin: the second differs by a byte behind its ELF structure."""
    folder = short_folder / "upgrade"
    for name, more in (("old", b""), ("new", b"x")):
        (folder / name).mkdir(parents=True)
        (folder / name / "spank_rollcall.so").write_bytes(plugin.read_bytes() + more)
    yield folder
    shutil.rmtree(folder)


def build(prefix, plugin, rollcall, version, protocol):
    """An installation over the one before, as `cmake --install` makes it, of another version: its bytes say so."""
    files = {"lib/rollcall/spank_rollcall.so": plugin, "bin/rollcall": rollcall}
    for name, source in files.items():
        place = prefix / "whole" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_bytes().replace(b"(protocol 1)", b"(protocol %d)" % protocol)
        place.with_suffix(".new").write_bytes(text.replace(b"0.1.0 ", version.encode() + b" "))
        place.with_suffix(".new").chmod(0o755)
        place.with_suffix(".new").rename(place)
    return prefix / "whole" / "lib" / "rollcall" / "spank_rollcall.so"


@pytest.fixture
def site(prefix, rollcall):
    made = Minicluster(prefix / "c", "--nodes=1", "--cpus=4").start()
    (made.folder / "etc" / "plugstack.conf").write_text("# the site's own\n")

    def install(plugin, check=True):
        return made.run(str(rollcall), "install", "--site", f"--slurm-conf={made.folder}/etc/slurm.conf", f"--plugin={plugin}",
                        "--config-owner=any", check=check)

    made.install = lambda plugin: install(plugin).stdout
    made.try_install = lambda plugin: install(plugin, check=False)
    yield made
    made.stop()


def loaded(site):
    return re.search(r"^optional (\S+)", (site.folder / "etc" / "plugstack.conf").read_text(), re.M)[1]


def mapped_by_step(site):
    return site.run("srun", "--ddp=host.loopback=allow,host.template=localhost", "-n1", "sh", "-c",
                    "grep -o '[^ ]*spank_rollcall.so' /proc/$PPID/maps | sort -u").stdout.strip()


def test_an_upgrade_does_not_affect_running_steps_and_is_reversible(site, prefix):
    if pathlib.Path("/etc/rollcall/site.toml").exists():
        pytest.skip("this machine has a profile of its own")
    site.install(prefix / "old" / "spank_rollcall.so")
    old = loaded(site)
    folder = site.new_folder()
    task = TASK.format(folder=folder)
    option = "--ddp=host.loopback=allow,host.template=localhost"
    step = subprocess.Popen([site.program, f"--dir={site.folder}", "run", "srun", option, "-n1", "sh", "-c", task], text=True,
                            env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/tmp")
    script = folder / "script.sh"
    script.write_text(f"#!/bin/sh\nsrun {option} -n1 sh -c {shlex.quote(task)}\n")
    job = site.run("sbatch", "--parsable", "--requeue", "-n1", f"--output={folder}/out", str(script)).stdout.strip()
    poll(lambda: len(list(folder.glob("started.*"))) == 2, "both steps")
    said = site.install(prefix / "new" / "spank_rollcall.so")
    new = loaded(site)
    assert new != old and pathlib.Path(old).exists()
    assert f"to go back: rollcall install --site --plugin={old}" in said
    assert mapped_by_step(site) == new
    site.script("restart-node", "jwb0001")  # slurmd ends and starts beside them
    (folder / "end").touch()
    out, err = step.communicate(timeout=60)
    assert (step.returncode, out.strip(), [line for line in err.splitlines() if "error" in line]) == (0, old, [])
    site.wait_for_job(job)
    shown = site.run("scontrol", "show", "job", job).stdout
    assert "JobState=COMPLETED" in shown and "Restarts=0" in shown and "ExitCode=0:0" in shown
    assert (folder / "out").read_text().strip() == old
    site.install(old)
    assert loaded(site) == old and mapped_by_step(site) == old
    assert f"to go back: rollcall install --site --plugin={new}" in site.install(old)


@pytest.mark.parametrize("version, protocol", [("0.2.0", 2), ("0.1.1", 1)])
def test_steps_run_before_during_and_after_an_upgrade_to_another_version(site, prefix, plugin, rollcall, version, protocol):
    if pathlib.Path("/etc/rollcall/site.toml").exists():
        pytest.skip("this machine has a profile of its own")
    site.install(build(prefix, plugin, rollcall, "0.1.0", 1))
    old = loaded(site)
    assert mapped_by_step(site) == old
    given = build(prefix, plugin, rollcall, version, protocol)
    assert mapped_by_step(site) == old, "the old plugin with its own program"
    assert json.loads(site.run(str(rollcall), "install", "--status", "--json").stdout)["problems"] == []
    site.install(given)
    new = loaded(site)
    assert new != old and mapped_by_step(site) == new
    site.install(old)
    assert loaded(site) == old and mapped_by_step(site) == old
    for path, its in ((old, 1), (new, protocol)):
        assert b"rollcall-hook (protocol %d)" % its in (pathlib.Path(path).parent / "bin" / "rollcall").read_bytes()


@pytest.mark.parametrize("own_first", [True, False])
def test_each_slurm_loads_its_own_of_two_plugins(site, plugin, rollcall, own_first):
    """As while a cluster is upgraded to another version of Slurm."""
    other = built("spank_plugin/spank_rollcall.so" if SLURM else "spank_plugin/trixie/spank_rollcall.so")
    lines = [f"optional {path} config_owner=any\n" for path in (plugin, other)]
    (site.folder / "etc" / "plugstack.conf").write_text("".join(lines if own_first else reversed(lines)))
    done = site.run("srun", "--ddp=host.loopback=allow,host.template=localhost", "-n1", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    assert done.stdout == "0 of 1\n" and "Incompatible" in done.stderr, done.stderr
    assert mapped_by_step(site) == str(plugin)
    status = json.loads(site.run(str(rollcall), "install", "--status", "--json").stdout)
    assert status["plugin"] == str(plugin) and status["plugin_version"] == status["slurm_version"] and status["problems"] == []
    doctor = site.run("srun", "--ddp=host.loopback=allow,host.template=localhost", "-n1", str(rollcall), "doctor", "--only=versions", "--json")
    (versions,) = json.loads(doctor.stdout)["findings"]
    assert versions["status"] == "good" and versions["reason"].count(status["plugin_version"]) == 2, "Slurm's and the plugin's"
    assert re.search(r"plugin [\d.]+ \(\w+\) and [\d.]+ \(\w+\)", versions["reason"]), "other nodes may load the other"


def test_a_program_with_another_protocol_is_rejected_by_install(site, prefix, plugin, rollcall):
    given = build(prefix, plugin, rollcall, "0.1.0", 1)
    before = (site.folder / "etc" / "plugstack.conf").read_text()
    program = prefix / "whole" / "bin" / "rollcall"
    program.write_bytes(program.read_bytes().replace(b"(protocol 1)", b"(protocol 2)"))
    done = site.try_install(given)
    assert done.returncode == 76 and f"program: {program}: is of (protocol 2), but the plugin {given} is of (protocol 1)" in done.stderr
    assert (site.folder / "etc" / "plugstack.conf").read_text() == before


def test_reinstalling_the_same_build_changes_nothing(site, prefix):
    site.install(prefix / "old" / "spank_rollcall.so")
    inode = os.stat(loaded(site)).st_ino
    assert "nothing to do" in site.install(prefix / "old" / "spank_rollcall.so")
    assert "nothing to do" in site.install(loaded(site))
    assert os.stat(loaded(site)).st_ino == inode
