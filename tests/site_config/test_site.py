"""A site's profile in real steps: found relative to the plugin's folder, with its locks, caches and purge age."""

import os
import pathlib
import shutil
import stat
import time

import pytest

from minicluster import Minicluster

pytestmark = pytest.mark.slurm
PROFILE = """
[site]
name = "here"
cluster = "minicluster"
systemname = "elsewhere-too"
locked = ["port.range", "cache.local"]
[host]
template = "localhost"
loopback = "allow"
[interface]
gloo = ["lo"]
nccl = ["lo"]
[cache]
shared = "${{SCRATCH}}/.cache"
local = "{open}/rollcall"
pip = "off"
inductor = "job"
[scratch]
purge-days = 90
"""
OPEN = "open"  # a world-writable folder, like /tmp


@pytest.fixture(scope="module")
def prefix(short_folder, plugin, rollcall):
    """An installation: PREFIX/bin, PREFIX/lib, PREFIX/share, with one profile."""
    folder = short_folder / "site"
    profiles = folder / "share" / "rollcall" / "site_config"
    for path in (folder / "bin", folder / "lib", profiles):
        path.mkdir(parents=True)
    shutil.copy(plugin, folder / "lib")
    shutil.copy(rollcall, folder / "bin")
    (folder / OPEN).mkdir()
    (folder / OPEN).chmod(0o1777)
    (profiles / "here.toml").write_text(PROFILE.format(open=folder / OPEN))
    return folder


@pytest.fixture(scope="module")
def site_cluster(prefix):
    """A cluster whose plugstack.conf names no profile."""
    if pathlib.Path("/etc/rollcall/site.toml").exists():
        pytest.skip("this machine has a site of its own")
    made = Minicluster(prefix / "c", "--nodes=2", f"--plugin={prefix / 'lib' / 'spank_rollcall.so'}").start()
    plugstack = made.folder / "etc" / "plugstack.conf"
    plugstack.write_text(plugstack.read_text().partition("config=")[0].rstrip() + " config_owner=any\n")
    yield made
    made.stop()


@pytest.fixture
def scratch(tmp_path):
    """The environment of a user with a SCRATCH of their own and empty caches."""
    return {"SCRATCH": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def local_cache(prefix):
    folder = prefix / OPEN / "rollcall"
    yield folder
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def rollcall_lines(text):
    return [line for line in text.splitlines() if "rollcall: " in line]


def test_the_profile_is_recognised_by_the_clusters_name(site_cluster, scratch, prefix):
    environments, errors = site_cluster.environments("--ddp", "-N2", "--ntasks-per-node=2", env=scratch)
    assert [e["MASTER_ADDR"] for e in environments] == ["localhost"] * 4
    assert {e["GLOO_SOCKET_IFNAME"] for e in environments} == {"lo"}
    assert rollcall_lines(errors) == []  # srun itself may say that it waited
    shown = site_cluster.run("srun", "-N1", str(prefix / "bin" / "rollcall"), "env", env=scratch).stdout
    assert f"site profile: here, recognised by Slurm's cluster name minicluster, {prefix}" in shown


def test_the_profile_is_recognised_by_systemname(site_cluster, scratch, prefix):
    known = {**scratch, "SYSTEMNAME": "elsewhere-too"}
    shown = site_cluster.run("srun", "-N1", str(prefix / "bin" / "rollcall"), "--print-config", env=known).stdout
    assert "recognised by SYSTEMNAME=elsewhere-too" in shown
    assert "(locked)" in shown


@pytest.mark.parametrize("known", [{}, {"SYSTEMNAME": "elsewhere-too"}], ids=["on the nodes", "before the launch"])
@pytest.mark.parametrize("option, variables", [
    ("--ddp=port.range=21000-21010", {}),
    ("--ddp", {"ROLLCALL_PORT_RANGE": "21000-21010"}),
])
def test_a_locked_setting_is_refused_with_the_name_of_the_sites_file(site_cluster, scratch, prefix, known, option, variables):
    env = {**scratch, **known, **variables}
    result = site_cluster.run("srun", option, "-N2", "--ntasks-per-node=2", "echo", "ran", env=env, check=False)
    assert result.returncode != 0 and "ran" not in result.stdout
    (line,) = rollcall_lines(result.stderr)
    assert "is locked by the profile of this site" in line and str(prefix / "share") in line
    assert site_cluster.nodes_in_state("drained", "draining", "down") == []


def test_cache_folders_follow_their_policies(site_cluster, scratch, local_cache):
    (task,), errors = site_cluster.environments("--ddp", "-N1", env=scratch)
    assert rollcall_lines(errors) == []  # srun itself may say that it waited
    assert task["TORCH_HOME"] == f"{scratch['SCRATCH']}/.cache/torch"
    assert task["TRITON_CACHE_DIR"] == f"{local_cache}/triton"
    assert task["TORCHINDUCTOR_CACHE_DIR"] == f"{local_cache}/job-{task['SLURM_JOB_ID']}/inductor"
    assert "PIP_CACHE_DIR" not in task and "JAX_COMPILATION_CACHE_DIR" not in task
    for name in ("TORCH_HOME", "HF_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR"):
        assert os.path.isdir(task[name]), name
    assert stat.S_IMODE(local_cache.stat().st_mode) == 0o700


def test_exec_creates_the_same_caches_as_the_plugin(site_cluster, scratch, prefix, local_cache):
    by_plugin, _ = site_cluster.environments("--ddp", "-N1", env=scratch)
    shutil.rmtree(local_cache)
    by_command, _ = site_cluster.environments("-N1", str(prefix / "bin" / "rollcall"), "exec", "--", env=scratch)
    names = [name for name in by_plugin[0] if name.endswith(("_HOME", "_CACHE_DIR", "_EXTENSIONS_DIR", "_PATH"))]
    names.remove("TORCHINDUCTOR_CACHE_DIR")  # of the job, and these are two
    assert {n: by_plugin[0].get(n) for n in names} == {n: by_command[0].get(n) for n in names}
    assert local_cache.is_dir()


def test_a_cache_folder_behind_a_link_is_not_used(site_cluster, scratch, local_cache, tmp_path):
    (tmp_path / "trap").mkdir()
    local_cache.symlink_to(tmp_path / "trap")
    environments, errors = site_cluster.environments("--ddp", "-N1", "-n2", env=scratch)
    for task in environments:
        assert "TRITON_CACHE_DIR" not in task and "TORCH_HOME" in task
    assert f"TRITON_CACHE_DIR: {local_cache}/triton: {local_cache} is a link; the variable is not set" in errors
    assert len([line for line in rollcall_lines(errors) if "TRITON_CACHE_DIR" in line]) == 1
    assert list((tmp_path / "trap").iterdir()) == []


@pytest.mark.parametrize("by_command", [False, True], ids=["plugin", "command"])
def test_replaceable_cache_folders_give_one_warning(site_cluster, prefix, tmp_path, by_command):
    project = tmp_path / "project"
    project.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to a group of others")
    os.chown(project, -1, 4711)
    project.chmod(0o2770)
    options = [str(prefix / "bin" / "rollcall"), "exec", "--"] if by_command else []
    layout = [*([] if by_command else ["--ddp"]), "-N2", "--ntasks-per-node=2", *options]
    environments, errors = site_cluster.environments(*layout, env={"SCRATCH": str(project)})
    assert all(task["TORCH_HOME"] == f"{project}/.cache/torch" for task in environments)
    (line,) = rollcall_lines(errors)
    assert f"group 4711 could replace {project}/.cache" in line
    project.chmod(0o777)
    environments, errors = site_cluster.environments(*layout, env={"SCRATCH": str(project)})
    assert all("TORCH_HOME" not in task and "TRITON_CACHE_DIR" in task for task in environments)
    assert f"{project} is not sticky (chmod +t {project}); the variable is not set" in errors


def test_caches_are_unset_with_a_warning_without_scratch(site_cluster):
    environments, errors = site_cluster.environments("--ddp", "-N2", env={"SCRATCH": ""})
    assert all("TORCH_HOME" not in task for task in environments)
    (line,) = rollcall_lines(errors)
    assert "cache.shared: ${SCRATCH}/.cache: SCRATCH is not set" in line


@pytest.mark.parametrize("by_command", [False, True], ids=["plugin", "command"])
def test_files_close_to_the_purge_age_give_one_warning(site_cluster, scratch, prefix, tmp_path, by_command):
    old = tmp_path / "data" / "old.h5"
    old.parent.mkdir()
    old.write_text("content")
    then = time.time() - 85.5 * 86400
    os.utime(old, (then, then))
    options = [str(prefix / "bin" / "rollcall"), "exec", "--"] if by_command else []
    layout = ["-N2", "--ntasks-per-node=2"]
    _, errors = site_cluster.environments(*([] if by_command else ["--ddp"]), *layout, *options, env=scratch)
    (line,) = rollcall_lines(errors)
    assert f"scratch.purge-days: 90: {old} is deleted in 4 days" in line
    assert old.stat().st_mtime == pytest.approx(then)
    _, errors = site_cluster.environments("--ddp=scratch.warn-days=3", "-N2", env=scratch)
    assert rollcall_lines(errors) == []  # srun itself may say that it waited
