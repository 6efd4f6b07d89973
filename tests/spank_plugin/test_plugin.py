"""`srun --ddp` on a real Slurm: the environment of every task, and the errors for invalid input."""

import json
import os
import re
import shlex
import shutil
import subprocess

import pytest

from minicluster import SLURM, check_world, rollcall_lines

pytestmark = pytest.mark.slurm
RANK_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK")


# ---------------------------------------------------------------- the site and the task (shapes of steps: test_shapes.py)


def test_interfaces_and_threads_come_from_the_site_and_the_task(cluster):
    environments, _ = cluster.environments("--ddp", "-N2", "--cpus-per-task=2")
    for e in environments:
        assert (e["GLOO_SOCKET_IFNAME"], e["TP_SOCKET_IFNAME"], e["NCCL_SOCKET_IFNAME"]) == ("lo", "lo", "lo")
        assert int(e["OMP_NUM_THREADS"]) >= 1


# ---------------------------------------------------------------- the option


def test_srun_help_describes_the_option(cluster):
    text = cluster.run("srun", "--help").stdout
    assert "--ddp" in text and "MASTER_ADDR" in text and "off" in text


def test_without_ddp_the_environment_is_unchanged(cluster):
    """Byte for byte the environment of a cluster without the plugin, but for what differs from step to step anyway."""
    plugstack = cluster.folder / "etc" / "plugstack.conf"
    line = plugstack.read_text()
    command = ["srun", "-N1", "-n1", "-w", "jwb0001", "/usr/bin/env", "-0"]  # two tasks would write into each other
    with_plugin = cluster.run(*command).stdout
    try:
        plugstack.write_text("")
        without = cluster.run(*command).stdout
    finally:
        plugstack.write_text(line)
    assert comparable(with_plugin) == comparable(without)


def comparable(output):
    varying = re.compile(r"SLURM_(JOB_ID|JOBID|JOB_SLUID|JOB_START_TIME|JOB_END_TIME|STEP_RESV_PORTS|SRUN_COMM_PORT|"
                         r"STEP_LAUNCHER_PORT|TASK_PID|LAUNCH_NODE_IPADDR)=")
    return sorted(entry for entry in output.split("\0") if entry and not varying.match(entry))


def test_a_batch_script_can_request_ddp(cluster):
    record, read = cluster.recorder()
    cluster.batch(f"#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=2 --ddp\nsrun {shlex.join(record)}\n")
    check_world(read(), 4)


def has_rollcall_values(environment):
    return [name for name in environment if name in RANK_NAMES or name.startswith(("MASTER_", "ROLLCALL_"))]


def test_the_environment_of_the_batch_script_is_unchanged(cluster):
    record, read = cluster.recorder()
    cluster.batch(f"#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=2 --ddp\n{shlex.join(record)}\n")
    (script,) = read()
    assert has_rollcall_values(script) == []


def test_values_of_an_outer_step_do_not_leak_into_an_inner_one(cluster):
    record, read = cluster.recorder()
    inner = shlex.join(["srun", "--overlap", "--ddp", "-N2", "-n3", *record])
    cluster.run("salloc", "-N2", "--ntasks-per-node=2", "srun", "--ddp=threads=9,debug", "-N1", "-n1", "bash", "-c", inner)
    check_world(read(), 3)
    assert {e["OMP_NUM_THREADS"] for e in read()} != {"9"}
    assert not any("TORCH_DISTRIBUTED_DEBUG" in e for e in read())


@pytest.mark.parametrize("option", [[], ["--ddp=off"]], ids=["no option", "off"])
def test_values_of_an_outer_step_do_not_leak_into_a_plain_inner_one(cluster, option):
    record, read = cluster.recorder()
    inner = shlex.join(["srun", "--overlap", *option, "-N2", "-n2", *record])
    script = f"export OWN=mine MASTER_PORT=12345; test $RANK != 0 || {inner}"
    cluster.run("salloc", "-N2", "srun", "--ddp=variables=ADDED=1,debug,threads=9", "-N2", "-n2", "bash", "-c", script)
    inside = read()
    assert len(inside) == 2
    for e in inside:
        assert e["OWN"] == "mine" and e["MASTER_PORT"] == "12345"  # what the program itself set is the user's
        left = [name for name in has_rollcall_values(e) if name != "MASTER_PORT"]
        assert left == [] and not {"ADDED", "TORCH_DISTRIBUTED_DEBUG", "GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS"} & e.keys()


def requests_for_layouts(cluster):
    found = re.search(r"REQUEST_STEP_LAYOUT\s.*count:(\d+)", cluster.run("sdiag").stdout)
    return int(found[1]) if found else 0


def test_a_made_up_het_size_causes_no_extra_slurmctld_requests(cluster):
    record, read = cluster.recorder()
    before = requests_for_layouts(cluster)
    cluster.run("srun", "--ddp", "-N2", "--ntasks-per-node=2", "--export=ALL,SLURM_HET_SIZE=1024", *record)
    check_world(read(), 4)
    assert requests_for_layouts(cluster) - before <= 4  # one a task at most


NEWER = r'''
#include <slurm/spank.h>
SPANK_PLUGIN(rollcall, 1)
static int take(int value, const char* text, int remote) { return value - value + (text && remote ? 0 : 0); }
int slurm_spank_init(spank_t handle, int count, char** arguments) {
  static struct spank_option option = {"ddp", "x", "x", 2, 0, take};
  return count && arguments ? 0 : spank_option_register(handle, &option);
}
'''


def test_an_older_plugin_on_a_node_ends_a_step_with_unknown_settings(cluster, tmp_path):
    """The stand-in for the newer one takes any setting; the nodes' plugin knows none of that name."""
    if SLURM or shutil.which("gcc") is None:
        pytest.skip("built against this machine's Slurm")
    (tmp_path / "newer.c").write_text(NEWER)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "newer.so", tmp_path / "newer.c"], check=True)
    (tmp_path / "plugstack.conf").write_text(f"required {tmp_path}/newer.so\n")
    slurm = (cluster.folder / "etc" / "slurm.conf").read_text()
    plugstack = f"PlugStackConfig={tmp_path}/plugstack.conf"
    (tmp_path / "slurm.conf").write_text(re.sub(r"PlugStackConfig=.*", plugstack, slurm) if "PlugStackConfig=" in slurm
                                         else f"{slurm}\n{plugstack}\n")
    newer = ["env", f"SLURM_CONF={tmp_path}/slurm.conf", "srun", "-N2", "--ntasks-per-node=2"]
    assert cluster.run(*newer, "--ddp=threads=3", "printenv", "OMP_NUM_THREADS").stdout.split() == ["3"] * 4  # it does reach them
    result = cluster.run(*newer, "--ddp=of.tomorrow=1", "echo", "ran", check=False)
    assert result.returncode == 76 and "ran" not in result.stdout
    lines = sorted(rollcall_lines(result.stderr))
    assert len(lines) == 2  # one of each node
    for line, node in zip(lines, ("jwb0001", "jwb0002"), strict=True):
        assert f"--ddp=of.tomorrow: unknown setting on {node}, whose rollcall is of another version" in line


def test_settings_in_the_option_apply_to_the_step(cluster):
    environments, _ = cluster.environments("--ddp=threads=7,interface.gloo=none,debug", "-N1")
    assert environments[0]["OMP_NUM_THREADS"] == "7"
    assert "GLOO_SOCKET_IFNAME" not in environments[0]
    assert environments[0]["TORCH_DISTRIBUTED_DEBUG"] == "DETAIL"


def test_user_variables_and_config_files_are_read(cluster, tmp_path):
    (tmp_path / "rollcall").mkdir()
    (tmp_path / "rollcall" / "config.toml").write_text('threads = "3"\n')
    environments, _ = cluster.environments("--ddp", "-N1", env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert environments[0]["OMP_NUM_THREADS"] == "3"
    environments, _ = cluster.environments("--ddp", "-N1", env={"XDG_CONFIG_HOME": str(tmp_path), "ROLLCALL_THREADS": "4"})
    assert environments[0]["OMP_NUM_THREADS"] == "4"


# ---------------------------------------------------------------- values of the user


def test_a_master_port_set_by_the_user_is_kept(cluster):
    environments, _ = cluster.environments("--ddp", "-N2", env={"MASTER_PORT": "23456"})
    assert {e["MASTER_PORT"] for e in environments} == {"23456"}


def test_user_values_are_kept_and_a_mismatch_is_warned_of_once(cluster):
    user = {"MASTER_ADDR": "elsewhere.example", "OMP_NUM_THREADS": "11"}
    environments, errors = cluster.environments("--ddp", "-N2", "--ntasks-per-node=2", env=user)
    assert len(environments) == 4
    assert {(e["MASTER_ADDR"], e["OMP_NUM_THREADS"]) for e in environments} == {("elsewhere.example", "11")}
    assert len([line for line in rollcall_lines(errors) if "warning: MASTER_ADDR" in line]) == 1


@pytest.mark.parametrize("rank", ["0", "1", "3"])
def test_a_rank_that_contradicts_the_step_ends_it_with_one_line(cluster, rank):
    result = cluster.run("srun", "--ddp", "-N2", "--ntasks-per-node=2", "true", env={"RANK": rank}, check=False)
    assert ": Exited with exit code 76\n" in result.stderr
    assert result.returncode in (76, 143)  # the rank that is right may be ended before its program has
    (line,) = rollcall_lines(result.stderr)
    assert f"rollcall: RANK: {rank}: this task's rank is " in line


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize("program", [["srun"], ["sbatch", "--wrap", "true"], ["salloc"]])
@pytest.mark.parametrize("option, message", [
    ("--ddp=port.rnage=1-2", "--ddp=port.rnage: unknown setting; try port.range"),
    ("--ddp=port.range=x", "port.range: x: is not a range of ports"),
    ("--ddp=debug,,", "has an empty entry"),
    ("--ddp=yes", "--ddp=yes"),
    ("--ddp=gpus.visible=all", "gpus.visible: all: is not one of"),
])
def test_an_invalid_ddp_option_is_rejected_before_anything_starts(cluster, program, option, message):
    name, *rest = program
    result = cluster.run(name, option, "-N2", *rest, *([] if rest else ["true"]), check=False)
    assert result.returncode == 64 and "Invalid --ddp" not in result.stderr
    (line,) = rollcall_lines(result.stderr)
    assert message in line
    assert "allocation" not in result.stderr and result.stdout == ""


@pytest.mark.parametrize("variable, value", [("ROLLCALL_PORT_RNAGE", "1-2"), ("ROLLCALL_THREADS", "many")])
def test_invalid_user_variables_are_rejected_by_srun(cluster, variable, value):
    result = cluster.run("srun", "--ddp", "true", env={variable: value}, check=False)
    assert result.returncode == 64 and "(null)" not in result.stderr
    (line,) = rollcall_lines(result.stderr)
    assert variable in line
    assert cluster.run("srun", "true", env={variable: value}).returncode == 0  # nothing is read without --ddp


@pytest.mark.parametrize("mode", ["optional", "required"])
@pytest.mark.parametrize("option, message, lines", [
    ("--ddp=host.template=nosuch-{host}", "host.template: nosuch-jwb0001: does not resolve", 1),
    ("--ddp=interface.gloo=ib9", "interface.gloo: ib9: is not an interface", 4),  # each node's own
])
def test_a_step_without_possible_rendezvous_ends_at_once(cluster, mode, option, message, lines):
    plugstack = cluster.folder / "etc" / "plugstack.conf"
    line = plugstack.read_text()
    try:
        plugstack.write_text(line.replace("optional", mode))
        result = cluster.run("srun", option, "-N4", "--ntasks-per-node=2", "echo", "ran", check=False)
    finally:
        plugstack.write_text(line)
    assert result.returncode == 69 and "ran" not in result.stdout
    told = rollcall_lines(result.stderr)
    if any("Temporary failure in name resolution" in line for line in told):
        lines = 4  # no answer says nothing of the other nodes' name servers: each tells its own, unless the first has ended the step
    assert 1 <= len(told) <= lines and all(message in line for line in told)  # the first ends the step for the others
    assert cluster.nodes_in_state("drained", "draining", "down") == []


def test_a_damaged_site_profile_is_reported_and_drains_no_node(cluster):
    site = cluster.folder / "etc" / "site.toml"
    text = site.read_text()
    output = ""
    try:
        site.write_text("[host\n")
        result = cluster.run("srun", "--ddp", "-N2", "true", check=False)
        output = cluster.batch("#!/bin/bash\n#SBATCH -N2 --ddp\nsrun true; echo rc=$?\n")
    finally:
        site.write_text(text)
    assert result.returncode != 0
    assert len(rollcall_lines(result.stderr)) == 1 and "site.toml" in result.stderr
    assert "rc=0" not in output and len(rollcall_lines(output)) == 1
    assert cluster.nodes_in_state("drained", "draining", "down") == []


@pytest.mark.parametrize("mode", ["optional", "required"])
def test_a_profile_damaged_only_on_nodes_is_reported_and_drains_none(cluster, tmp_path, mode):
    plugstack, site = cluster.folder / "etc" / "plugstack.conf", cluster.folder / "etc" / "site.toml"
    line, text = plugstack.read_text(), site.read_text()
    (tmp_path / "whole.toml").write_text(text)
    srun = f"mount --bind {tmp_path}/whole.toml {site} && exec srun --ddp -N2 echo ran"  # srun alone sees the whole one
    try:
        plugstack.write_text(line.replace("optional", mode))
        site.write_text("[host\n")
        result = cluster.run("unshare", "--mount", "--propagation=private", "sh", "-c", srun, check=False)
    finally:
        site.write_text(text)
        plugstack.write_text(line)
    if "unshare: " in result.stderr or "mount: " in result.stderr:
        pytest.skip("this machine lets nobody mount")
    assert result.returncode != 0 and "ran" not in result.stdout
    assert rollcall_lines(result.stderr) and all("site.toml" in line for line in rollcall_lines(result.stderr))
    assert cluster.nodes_in_state("drained", "draining", "down") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run steps of another user")
def test_files_are_opened_with_the_rights_of_the_user(cluster):
    site = cluster.folder / "etc" / "site.toml"
    as_nobody = ["runuser", "-u", "nobody", "--", "srun", "--chdir=/tmp", "--ddp", "-N2", "true"]
    if cluster.run(*as_nobody, check=False).returncode != 0:
        pytest.skip("nobody cannot run steps here")
    try:
        site.chmod(0o600)
        result = cluster.run(*as_nobody, check=False)
    finally:
        site.chmod(0o644)
    assert result.returncode != 0
    (line,) = rollcall_lines(result.stderr)
    assert "site.toml" in line and "Permission denied" in line


def test_a_missing_program_is_reported_by_slurm_only(cluster):
    result = cluster.run("srun", "--ddp", "/nowhere/program", check=False)
    assert result.returncode != 0 and rollcall_lines(result.stderr) == []


# ---------------------------------------------------------------- the same without the plugin


COMPARED = (*RANK_NAMES, "MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "OMP_NUM_THREADS")


@pytest.fixture(scope="module")
def site(cluster):
    """The variable by which the command finds the profile that plugstack.conf names for the plugin."""
    return {"ROLLCALL_SITE_CONFIG": str(cluster.folder / "etc" / "site.toml")}


def test_rollcall_env_reports_what_the_plugin_sets(cluster, rollcall, site):
    by_plugin, _ = cluster.environments("--ddp", "-N1")
    result = cluster.run("srun", "-N1", str(rollcall), "env", "--json", env=site)
    reported = {v["name"]: v["value"] for v in json.loads(result.stdout)["variables"] if v["action"] == "set"}
    names = [n for n in COMPARED if n != "MASTER_PORT"]
    assert {n: by_plugin[0].get(n) for n in names} == {n: reported.get(n) for n in names}


def test_exec_inside_a_step_of_the_plugin_changes_nothing(cluster, rollcall, site):
    layout = ["--ddp=threads=3", "-N2"]
    environments, _ = cluster.environments(*layout, str(rollcall), "exec", "--", env=site)
    check_world(environments, 2)
    assert {e["OMP_NUM_THREADS"] for e in environments} == {"3"}


# ---------------------------------------------------------------- the command, which tells as the plugin does


def test_an_error_common_to_all_tasks_is_reported_once(cluster, rollcall):
    step = ["srun", "-N2", "--ntasks-per-node=2", rollcall, "exec", "--host-template=nowhere.invalid", "--host-loopback=refuse"]
    result = cluster.run(*step, "true", check=False)
    assert result.returncode == 69
    (line,) = rollcall_lines(result.stderr)
    assert "host.template" in line


def test_a_program_not_found_by_exec_is_reported_once_per_node(cluster, rollcall):
    result = cluster.run("srun", "-N2", "--ntasks-per-node=3", rollcall, "exec", "--", "/nowhere/program", check=False)
    assert result.returncode == 127
    assert len(rollcall_lines(result.stderr)) == 2, result.stderr


@pytest.mark.long
@pytest.mark.parametrize("options", ["-N4 --ntasks-per-node=2", "-n4 --distribution=arbitrary --nodelist=jwb0003,jwb0001,jwb0002,jwb0004"])
def test_nodeaddr_is_queried_once_per_step(cluster, options):
    cluster.run("sdiag", "--reset")
    environments, errors = cluster.environments("--ddp", *options.split(), env={"ROLLCALL_HOST_TEMPLATE": "{nodeaddr}"})
    asked = re.findall(r"REQUEST_NODE_INFO_SINGLE .*count:(\d+)", cluster.run("sdiag").stdout)
    assert asked == ["1"] and rollcall_lines(errors) == []
    assert len(environments) >= 4 and {e["MASTER_ADDR"] for e in environments} == {"127.0.0.1"}
    assert [name for e in environments for name in e if "HEAD_ADDRESS" in name] == []
