"""site_config/rollcall-epilog.sh: it removes the job's own caches, and a user cannot make it remove anything else as root."""

import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile

import pytest

from minicluster import SOURCE, Minicluster, poll

SCRIPT = SOURCE / "site_config" / "rollcall-epilog.sh"
VICTIM, ATTACKER = 65534, 65533
USER = pwd.getpwuid(VICTIM).pw_name

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(os.geteuid() != 0, reason="only root can be Slurm's Epilog for other users")]


@pytest.fixture
def node():
    """A sticky world-writable folder like /tmp."""
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp") as folder:
        os.chmod(folder, 0o1777)
        yield pathlib.Path(folder)


def epilog_for(folder, profile, commands=None):
    """The script with another profile; the folder `commands` precedes those of the system in PATH."""
    text = SCRIPT.read_text().replace("profile=/etc/rollcall/site.toml", f"profile={profile}")
    if commands:
        text = text.replace("PATH=/usr", f"PATH={commands}:/usr")
    script = folder / "epilog.sh"
    script.write_text(text)
    script.chmod(0o755)
    return script


def site_profile(node, local="rollcall-${USER}"):
    profile = node / "site.toml"
    profile.write_text('[host]\ntemplate = "localhost"\nloopback = "allow"\n\n'
                       f'[cache]\n# local = "/none"\nlocal = "{node}/{local}"  # of each node\ntriton = "job"\n')
    return profile


def made(folder, owner=VICTIM):
    folder.mkdir(parents=True)
    (folder / "file").touch()
    for path in (folder / "file", folder):
        os.chown(path, owner, owner)
    return folder


def run(script, *arguments, job="7", user=USER):
    environment = {"SLURM_JOB_ID": job, "SLURM_JOB_UID": str(VICTIM), "SLURM_JOB_USER": user}
    return subprocess.run([script, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False)


def own_folder(node):
    folder = made(node / f"rollcall-{USER}")
    return folder, made(folder / "job-7" / "triton"), made(folder / "job-8"), made(folder / "triton")


def test_epilog_removes_only_the_folders_of_the_job(node):
    folder, *_ = own_folder(node)
    os.chown(folder / "job-7", VICTIM, VICTIM)
    assert run(epilog_for(node, site_profile(node))).returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == ["file", "job-8", "triton"]


@pytest.mark.parametrize("local", ["rollcall-${USER}/caches", "${USER}", "caches"])
def test_epilog_reads_the_cache_folder_from_the_profile(node, local):
    folder = made(node / local.replace("${USER}", USER))
    made(folder / "job-7")
    run(epilog_for(node, site_profile(node, local)))
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_epilog_ends_although_the_removal_cannot_be_killed(node):
    """Like a call into a hung FUSE file system, for which timeout(1) waits: a stand-in never ends."""
    own_folder(node)
    (node / "bin").mkdir()
    for name, text in (("timeout", f"echo $$ > {node}/pid\nexec /usr/bin/sleep 600"), ("sleep", "exit 0")):
        (node / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (node / "bin" / name).chmod(0o755)
    try:
        assert run(epilog_for(node, site_profile(node), node / "bin")).returncode == 0
    finally:
        poll(lambda: (node / "pid").exists() and (node / "pid").read_text().strip(), "the stand-in runs")
        os.kill(int((node / "pid").read_text()), 9)


def a_link_to_the_results(node):
    (node / f"rollcall-{USER}").symlink_to(made(node / "results"))
    return made(node / "results" / "job-7"), "is a symbolic link"


def a_link_above_it(node):
    site_profile(node, "rollcall-${USER}/caches")
    (node / f"rollcall-{USER}").symlink_to(made(node / "results"))
    made(node / "results" / "caches")
    return made(node / "results" / "caches" / "job-7"), "below one"


def folder_of_another_user(node):
    made(node / f"rollcall-{USER}", ATTACKER)
    return made(node / f"rollcall-{USER}" / "job-7"), "belongs to another user"


def a_job_folder_that_is_a_link(node):
    folder = made(node / f"rollcall-{USER}")
    (folder / "job-7").symlink_to(made(node / "results"))
    return node / "results", ""


def a_link_in_the_job_folder(node):
    folder = made(node / f"rollcall-{USER}")
    (made(folder / "job-7") / "link").symlink_to(made(node / "results"))
    return node / "results", ""


def file_of_root_in_the_job_folder(node):
    folder = made(node / f"rollcall-{USER}")
    made(folder / "job-7")
    return made(folder / "job-7" / "roots", 0), ""


@pytest.mark.parametrize("attack", [a_link_to_the_results, a_link_above_it, folder_of_another_user, a_job_folder_that_is_a_link,
                                    a_link_in_the_job_folder, file_of_root_in_the_job_folder])
def test_epilog_follows_no_links_and_keeps_files_of_others(node, attack):
    site_profile(node)
    kept, expected = attack(node)
    script = epilog_for(node, node / "site.toml")
    done = run(script, "remove")
    assert (kept / "file").exists()
    assert expected in done.stderr
    assert run(script).returncode == 0, "the node would be drained"


@pytest.mark.parametrize("job, user", [("7/../../results", USER), ("", USER), ("7", "../results"), ("7", ".."), ("7", "")])
def test_job_id_and_user_name_cannot_escape_the_cache_folder(node, job, user):
    made(node / "results" / "job-7")
    own_folder(node)
    before = sorted(node.rglob("*"))
    script = epilog_for(node, site_profile(node))
    before.append(script)
    assert run(script, "remove", job=job, user=user).returncode == 0
    assert set(node.rglob("*")) == {*before, node / "site.toml"}


@pytest.mark.parametrize("local", ["${HOME}/rollcall-${USER}", "${USER}-${USER}"])
def test_a_profile_with_an_unsupported_variable_is_reported(node, local):
    assert "must name no variable but" in run(epilog_for(node, site_profile(node, local)), "remove").stderr


def test_the_removing_process_cannot_be_traced_and_has_no_capabilities(node):
    own_folder(node)
    (node / "bin").mkdir()
    rm = node / "bin" / "rm"
    rm.write_text(f"#!{sys.executable}\nprint(open('/proc/self/status').read())\n")
    rm.chmod(0o755)
    status = dict(line.split(":\t", 1) for line in run(epilog_for(node, site_profile(node), node / "bin"), "remove").stdout.splitlines()
                  if ":\t" in line)
    assert status["Uid"].split() == ["0", *[str(VICTIM)] * 3]  # ptrace(2) asks for all of real, effective and saved user
    assert status["Gid"].split()[1:] == ["65534"] * 3 and not status["Groups"].strip()
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}


def test_slurm_runs_the_epilog_after_a_job(node, plugin, rollcall):
    (node / "bin").mkdir()
    shutil.copy(rollcall, node / "bin")
    library = shutil.copy(plugin, node)
    profile = site_profile(node)
    cluster = Minicluster(node / "c", "--nodes=2", f"--plugin={library}", f"--conf=Epilog={epilog_for(node, profile)}").start()
    try:
        shutil.copy(profile, cluster.folder / "etc" / "site.toml")
        show = 'touch "$TRITON_CACHE_DIR/made" "$TORCHINDUCTOR_CACHE_DIR/made" && echo "$SLURM_JOB_ID $TRITON_CACHE_DIR"'
        as_user = ["setpriv", f"--reuid={VICTIM}", f"--regid={VICTIM}", "--clear-groups"]
        if cluster.run(*as_user, "srun", "--version", check=False).returncode != 0:
            pytest.skip("this Slurm is unpacked where other users cannot read it")
        step = cluster.run(*as_user, "srun", "--ddp", "-N2", "sh", "-c", show, env={"HOME": "/", "USER": USER})
        job = step.stdout.split()[0]
        assert set(step.stdout.splitlines()) == {f"{job} {node}/rollcall-{USER}/job-{job}/triton"}
        folder = node / f"rollcall-{USER}"
        poll(lambda: not (folder / f"job-{job}").exists(), "the job's folder is gone")
        assert (folder / "inductor" / "made").exists()
        poll(lambda: cluster.run("sinfo", "-h", "-o", "%t").stdout.split() == ["idle"], "both nodes are idle")
    finally:
        cluster.stop()
