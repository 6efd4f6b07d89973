"""The command without `--ddp` uses the same settings as the plugin, and reports what the plugin did and why."""

import json
import subprocess

import pytest

from minicluster import clean_environment

pytestmark = [pytest.mark.slurm, pytest.mark.long]

TWO_NODES = ["--nodelist=jwb[0001-0002]", "-N2", "--ntasks-per-node=2"]


def test_exec_uses_the_profile_that_plugstack_conf_names(cluster, rollcall):
    by_plugin, _ = cluster.environments("--ddp", *TWO_NODES)
    by_command, errors = cluster.environments(*TWO_NODES, str(rollcall), "exec", "--")
    for plugins, commands in zip(by_plugin, by_command, strict=True):
        assert plugins["MASTER_ADDR"] == commands["MASTER_ADDR"] == "localhost"
        assert plugins["GLOO_SOCKET_IFNAME"] == commands["GLOO_SOCKET_IFNAME"]
    assert "rollcall" not in errors


def test_the_doctor_is_good_on_a_working_cluster(cluster, rollcall):
    result = cluster.run("srun", *TWO_NODES, str(rollcall), "doctor", "--no-bench", "--only=environment,head-name,head-port,interface",
                         check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_print_config_outside_a_job_names_the_profile(cluster, rollcall):
    shown = cluster.run(str(rollcall), "--print-config").stdout
    assert f"recognised by config= in plugstack.conf, {cluster.folder}/etc/site.toml" in shown


def test_rollcall_site_config_has_precedence(cluster, rollcall, tmp_path):
    (tmp_path / "mine.toml").write_text('[host]\ntemplate = "localhost"\nloopback = "allow"\n')
    shown = cluster.run(str(rollcall), "--print-config", env={"ROLLCALL_SITE_CONFIG": str(tmp_path / "mine.toml")}).stdout
    assert "recognised by ROLLCALL_SITE_CONFIG" in shown


def test_an_unreadable_plugstack_conf_is_reported(cluster, rollcall):
    plugstack = cluster.folder / "etc" / "plugstack.conf"
    text = plugstack.read_text()
    plugstack.unlink()
    plugstack.mkdir()
    try:
        result = cluster.run(str(rollcall), "--print-config")
    finally:
        plugstack.rmdir()
        plugstack.write_text(text)
    assert f"srun --ddp may take another: {plugstack}: Is a directory" in result.stdout
    assert "site profile: none" in result.stdout


@pytest.fixture
def locked(cluster):
    """The profile that plugstack.conf names locks a setting, which it sets itself."""
    profile = cluster.folder / "etc" / "site.toml"
    text = profile.read_text()
    profile.write_text('threads = "2"\n\n' + text.replace("[site]", '[site]\nlocked = ["threads"]', 1))
    yield profile
    profile.write_text(text)


@pytest.mark.parametrize("variables, options", [({}, ["--threads=5"]), ({"ROLLCALL_THREADS": "5"}, [])], ids=["option", "variable"])
@pytest.mark.parametrize("command", ["exec", "doctor", "trainer"])
def test_locked_settings_are_refused_without_the_plugin(cluster, rollcall, request, locked, command, variables, options):
    program = {"exec": [rollcall, "exec", *options, "--", "echo", "ran"], "doctor": [rollcall, "doctor", *options]}.get(command)
    program = program or [request.getfixturevalue("rollcall_train"), "--print-config", *options]
    step = cluster.run("srun", *TWO_NODES, *map(str, program), env=variables, check=False)
    assert step.returncode == 64 and "ran" not in step.stdout
    (line,) = [line for line in step.stderr.splitlines() if "rollcall: " in line]
    assert f"is locked by the profile of this site, {locked}" in line


@pytest.mark.parametrize("variables, options", [({"ROLLCALL_RUN_NETWORK": "on"}, []), ({}, ["--run-network"])], ids=["variable", "option"])
def test_a_locked_run_network_off_cannot_be_overridden(rollcall, tmp_path, variables, options):
    """run.network = "off" and locked, in the profile that plugstack.conf names: a file, a variable or an option of the user's is refused."""
    site = tmp_path / "site.toml"
    site.write_text('run.network = "off"\n[site]\nlocked = ["run.network"]\n')
    (tmp_path / "plugstack.conf").write_text(f"optional /nowhere/spank_rollcall.so config={site} config_owner=any\n")
    (tmp_path / "slurm.conf").write_text("ClusterName=x\n")
    environment = clean_environment() | {"SLURM_CONF": str(tmp_path / "slurm.conf"), "XDG_CONFIG_HOME": str(tmp_path)}
    shown = subprocess.run([rollcall, "--print-config", "--json"], env=environment, text=True, capture_output=True, check=True)
    assert json.loads(shown.stdout)["run.network"] == {"value": "false", "origin": str(site), "locked": True}
    refused = subprocess.run([rollcall, *options, "--print-config"], env=environment | variables, text=True, capture_output=True)
    assert refused.returncode == 64 and refused.stdout == ""
    assert f"is locked by the profile of this site, {site}" in refused.stderr
    (tmp_path / "rollcall").mkdir()
    (tmp_path / "rollcall" / "config.toml").write_text('run.network = "on"\n')
    refused = subprocess.run([rollcall, "--print-config"], env=environment, text=True, capture_output=True)
    assert refused.returncode == 78 and f"is locked by the profile of this site, {site}" in refused.stderr


def test_rollcall_site_config_avoids_the_sites_locks_except_in_the_plugin(cluster, rollcall, locked, tmp_path):
    """As the guide says. The plugin, whose line has config=, does not follow the variable."""
    (tmp_path / "mine.toml").write_text('[host]\ntemplate = "localhost"\nloopback = "allow"\n')
    mine = {"ROLLCALL_SITE_CONFIG": str(tmp_path / "mine.toml"), "ROLLCALL_THREADS": "5"}
    used = cluster.run("srun", "-N1", str(rollcall), "exec", "--", "printenv", "OMP_NUM_THREADS", env=mine)
    assert used.stdout == "5\n"
    refused = cluster.run("srun", "--ddp", "-N1", "true", env=mine, check=False)
    assert refused.returncode != 0 and f"is locked by the profile of this site, {locked}" in refused.stderr


@pytest.mark.parametrize("line", ["PlugStackConfig={}", "PlugStackConfig = {}", 'PlugStackConfig="{}"',
                                  "ClusterName=x PlugStackConfig={}", "PlugStackConfig=\\\n  {}"])
def test_locks_apply_for_every_spelling_of_plugstackconfig(rollcall, tmp_path, line):
    (tmp_path / "site.toml").write_text('threads = "2"\n[site]\nlocked = ["threads"]\n')
    (tmp_path / "stack.conf").write_text(f"optional /nowhere/spank_rollcall.so config={tmp_path}/site.toml config_owner=any\n")
    (tmp_path / "slurm.conf").write_text(line.format(tmp_path / "stack.conf") + "\n")
    environment = clean_environment() | {"SLURM_CONF": str(tmp_path / "slurm.conf"), "ROLLCALL_THREADS": "3"}
    result = subprocess.run([rollcall, "--print-config"], env=environment, text=True, capture_output=True)
    assert result.returncode != 0 and "ROLLCALL_THREADS" in result.stderr and f"{tmp_path}/site.toml" in result.stderr


def test_a_relative_plugstackconfig_is_not_used(rollcall, tmp_path):
    (tmp_path / "slurm.conf").write_text("PlugStackConfig=stack.conf\n")
    (tmp_path / "stack.conf").write_text("optional /nowhere/spank_rollcall.so config=/nowhere/site.toml\n")
    result = subprocess.run([rollcall, "--print-config"], env=clean_environment() | {"SLURM_CONF": str(tmp_path / "slurm.conf")},
                            cwd=tmp_path, text=True, capture_output=True)
    assert f"srun --ddp may take another: {tmp_path}/slurm.conf: PlugStackConfig=stack.conf is not an absolute path" in result.stdout


def rows(table):
    return {line.split()[0]: line for line in table.splitlines() if line and not line.startswith(" ")}


def test_env_shows_the_original_reason_of_variables_set_by_ddp(cluster, rollcall):
    alone = rows(cluster.run("srun", *TWO_NODES, str(rollcall), "env").stdout)
    within = rows(cluster.run("srun", "--ddp", *TWO_NODES, str(rollcall), "env").stdout)
    for name in ("MASTER_ADDR", "GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS"):
        assert "already" not in within[name]
        assert alone[name].split(maxsplit=3)[3] == within[name].split(maxsplit=3)[3]
    other = rows(cluster.run("srun", "--ddp=threads=3", *TWO_NODES, str(rollcall), "env").stdout)
    assert "set for this step already, by settings unknown here" in other["OMP_NUM_THREADS"]


def test_env_prints_one_table_or_one_per_rank_with_all_ranks(cluster, rollcall):
    one = cluster.run("srun", *TWO_NODES, str(rollcall), "env").stdout
    assert one.count("VARIABLE") == 1 and "rank 0 of 4" in one and "--all-ranks" in one
    lines = cluster.run("srun", *TWO_NODES, str(rollcall), "env", "--all-ranks").stdout.splitlines()
    tables = {rank: [line for line in lines if line.startswith(f"{rank}: ")] for rank in range(4)}
    assert all(sum(line.split()[1:3] == ["RANK", str(rank)] for line in table) == 1 for rank, table in tables.items())
