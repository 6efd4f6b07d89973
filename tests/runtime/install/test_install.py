"""`rollcall install`: srun --ddp for one user at a site without rollcall, and for a whole site."""

import json
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess

import pytest

from minicluster import Minicluster, check_world, clean_environment, rollcall_lines

pytestmark = [pytest.mark.slurm, pytest.mark.long]


@pytest.fixture(scope="module")
def plain(short_folder):
    """A cluster without rollcall."""
    made = Minicluster(short_folder / "plain", "--nodes=2").start()
    yield made
    made.stop()


class User:
    """A user with a home of her own on the cluster `cluster`."""

    def __init__(self, cluster, rollcall, plugin, home, prefix=()):
        self.cluster, self.rollcall, self.plugin, self.home, self.prefix = cluster, rollcall, plugin, home, prefix
        self.folder = home / ".config" / "rollcall" / "slurm"
        self.conf = self.folder / "slurm.conf"

    def command(self, *arguments, check=True, env=None):
        return self.run_as_user([str(self.rollcall), *arguments], check, env)

    def install(self, **options):
        return self.command("install", "--user", f"--plugin={self.plugin}", **options)

    def run(self, *command, env=None, check=True):
        """Runs a command with her slurm.conf."""
        return self.run_as_user(["env", f"SLURM_CONF={self.conf}", *command], check, env)

    def run_as_user(self, command, check, env):
        return self.cluster.run(*self.prefix, "env", "-u", "XDG_CONFIG_HOME", f"HOME={self.home}", *command, env=env, check=check)

    def environments(self, *srun_options, env=None, conf=None):
        """As Minicluster.environments(), with her slurm.conf or another one."""
        command, read = self.cluster.recorder()
        result = self.run_as_user(["env", f"SLURM_CONF={conf or self.conf}", "srun", *srun_options, *command], True, env)
        return read(), result.stderr


def home_with_settings(folder):
    """A home with settings for how the nodes of the throwaway cluster reach each other."""
    (folder / ".config" / "rollcall").mkdir(parents=True)
    (folder / ".config" / "rollcall" / "config.toml").write_text(
        '[host]\ntemplate = "localhost"\nloopback = "allow"\n[interface]\ngloo = ["lo"]\nnccl = ["lo"]\n')
    return folder


@pytest.fixture
def user(plain, rollcall, plugin, tmp_path):
    return User(plain, rollcall, plugin, home_with_settings(tmp_path))


@pytest.fixture
def installed(user):
    user.install()
    return user


# ---------------------------------------------------------------- the same environment as with the plugin


def comparable(environment):
    """What does not differ from step to step anyway; the port of this step as PORT."""
    port = environment.get("MASTER_PORT", "none")
    varying = re.compile(r"SLURM_(JOB_ID|JOBID|JOB_SLUID|JOB_START_TIME|JOB_END_TIME|STEP_RESV_PORTS|SRUN_COMM_PORT|"
                         r"STEP_LAUNCHER_PORT|TASK_PID|LAUNCH_NODE_IPADDR|GTIDS)$|ROLLCALL_STEP$|ROLLCALL_SET$|"
                         r"ROLLCALL_SECRET_FD$")  # a descriptor, which a prolog cannot hand on
    return {name: value.replace(port, "PORT") for name, value in environment.items() if not varying.match(name)}


def names_set(environment):
    return [entry.split(":")[0] for entry in environment["ROLLCALL_SET"].split(",")]


ODD_FOLDER = "/tmp/a b 'q' ;`x`"
STEPS = [  # on a node that is named where one will do: both sides of the comparison must lie on the same
    ["--ddp", "-N2", "--ntasks-per-node=2"],
    ["--ddp=threads=3,debug,interface.gloo=none", "-N2"],
    [f"--ddp=cache.shared={ODD_FOLDER}", "-N1", "-wjwb0001"],
    ["--ddp", "-N1", "-n1", "-wjwb0001"],
    ["--ddp", "-N2", "-n3", "--distribution=cyclic"],
    ["--ddp=host.template=localhost,host.loopback=allow", "-N2", "--export=NONE"],
    ["--ddp", "-N2", "--cpus-per-task=2"],
    ["--ddp", "-N2", "--export=ALL,MASTER_PORT=23456,RANK="],
]


@pytest.mark.parametrize("options", STEPS, ids=shlex.join)
def test_user_installation_sets_the_same_variables_as_the_plugin(installed, plain, plugin, options):
    by_prolog, errors = installed.environments(*options)
    plugstack = plain.folder / "etc" / "plugstack.conf"
    try:
        plugstack.write_text(f"optional {plugin} config_owner=any\n")
        by_plugin, plugin_errors = installed.environments(*options, conf=plain.folder / "etc" / "slurm.conf")
    finally:
        plugstack.write_text("")
        shutil.rmtree(ODD_FOLDER, ignore_errors=True)
    assert len(by_prolog) == len(by_plugin) > 0
    of_step = re.compile(r"(?<=rollcall would set )\d+")  # each step has a port of its own
    assert [of_step.sub("PORT", line) for line in rollcall_lines(errors)] == \
        [of_step.sub("PORT", line) for line in rollcall_lines(plugin_errors)]
    for mine, sites in zip(by_prolog, by_plugin):
        assert comparable(mine) == comparable(sites)
        assert names_set(mine) == names_set(sites)


def test_variables_of_the_site_task_prolog_reach_exec_but_not_the_plugin(installed, plain, plugin, rollcall, tmp_path):
    """As docs/administrator/plugin.md says: Slurm runs it between the plugin and all else."""
    conf, plugstack = (plain.folder / "etc" / name for name in ("slurm.conf", "plugstack.conf"))
    prolog = tmp_path / "task_prolog"
    prolog.write_text(f"#!/bin/sh\necho export MASTER_ADDR=127.0.0.9\necho export SCRATCH={tmp_path}\n")
    prolog.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents):  # pytest's own, which nobody else may enter
        if folder.stat().st_mode & stat.S_IXOTH:
            break
        folder.chmod(0o755)
    before = conf.read_text()
    options = ("-N2", "--ddp=cache.shared=${SCRATCH}/caches")
    try:
        conf.write_text(before + f"TaskProlog={prolog}\n")
        plain.run("scontrol", "reconfigure")
        by_prolog, _ = installed.environments(*options)
        record, read = plain.recorder()
        installed.run_as_user(["srun", "-N2", rollcall, "exec", "--cache-shared=${SCRATCH}/caches", "--", *record], True, None)
        by_exec = read()
        plugstack.write_text(f"optional {plugin} config_owner=any\n")
        by_plugin, errors = installed.environments(*options, conf=conf)
    finally:
        plugstack.write_text("")
        conf.write_text(before)
        plain.run("scontrol", "reconfigure")
    for environment in (*by_prolog, *by_exec):
        assert environment["MASTER_ADDR"] == environment["PET_MASTER_ADDR"] == "127.0.0.9"
        assert environment["HF_HOME"].startswith(f"{tmp_path}/caches")
    for environment in by_plugin:
        assert environment["MASTER_ADDR"] == "127.0.0.9" != environment["PET_MASTER_ADDR"] and "HF_HOME" not in environment
    assert len(by_prolog) == len(by_exec) == len(by_plugin) == 2 and "SCRATCH" in errors


def test_a_step_has_no_internal_variables_of_the_installation(installed):
    environments, errors = installed.environments("--ddp", "-N2", "--ntasks-per-node=2")
    check_world(environments, 4)
    assert rollcall_lines(errors) == []
    for e in environments:
        assert [name for name in e if "TASK_PROLOG" in name or name.startswith("SLURM_ROLLCALL")] == []


@pytest.mark.parametrize("options", [[], ["--ddp=off"], ["--ddp", "--ddp=off"]], ids=str)
def test_without_ddp_no_variable_and_no_task_prolog_is_set(installed, options):
    environments, errors = installed.environments(*options, "-N2")
    assert len(environments) == 2 and rollcall_lines(errors) == []
    for e in environments:
        assert [name for name in e if name == "RANK" or "ROLLCALL" in name or "TASK_PROLOG" in name] == []


def test_sbatch_works_when_the_script_exports_slurm_conf(installed, tmp_path):
    record, read = installed.cluster.recorder()
    log = tmp_path / "log"
    script = tmp_path / "script.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH -N2 --ddp=threads=3\nexport SLURM_CONF={installed.conf}\n"
                      f"srun {shlex.join(record)}\nsrun --ddp=off {shlex.join(record)}\n")
    result = installed.run("sbatch", "--wait", f"--output={log}", str(script))
    assert f"export SLURM_CONF={installed.conf}" in result.stderr  # the note
    steps = [[e for e in read() if e["SLURM_STEP_ID"] == step] for step in "01"]
    check_world(steps[0], 2)
    assert {e["OMP_NUM_THREADS"] for e in steps[0]} == {"3"}
    assert ["RANK" in e for e in steps[1]] == [False, False]


def test_salloc_passes_ddp_on_to_srun(installed):
    record, read = installed.cluster.recorder()
    installed.run("salloc", "--ddp", "-N2", "srun", *record)
    check_world(read(), 2)


def test_an_arbitrary_distribution_finds_rank_0_in_slurms_host_file(installed, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("jwb0002\njwb0001\njwb0002\n")
    environments, _ = installed.environments("--ddp", "-m", "arbitrary", "-n3", env={"SLURM_HOSTFILE": str(hosts)})
    check_world(environments, 3)


def test_an_unknown_node_of_rank_0_ends_the_step(installed):
    result = installed.run("srun", "--ddp", "-m", "arbitrary", "-n3", "-w", "jwb0002,jwb0001,jwb0002", "echo", "ran", check=False)
    assert result.returncode == 69 and "ran" not in result.stdout
    (line,) = rollcall_lines(result.stderr)
    assert "MASTER_ADDR: no environment variable names the node of rank 0" in line


# ---------------------------------------------------------------- the user's own task prolog


@pytest.fixture
def own_prolog(tmp_path):
    path = tmp_path / "prolog"
    path.write_text("#!/bin/sh\necho 'export MASTER_PORT=23456'\necho 'export MINE=a b'\necho 'print hello'\n"
                    'echo "export SEEN=$SLURM_TASK_PROLOG"\n')
    path.chmod(0o755)
    return path


def test_the_users_task_prolog_runs_first_and_its_values_have_precedence(installed, own_prolog):
    environments, _ = installed.environments("--ddp", "-N2", env={"SLURM_TASK_PROLOG": str(own_prolog)})
    for e in environments:
        assert (e["MASTER_PORT"], e["MINE"], e["SEEN"], e["SLURM_TASK_PROLOG"]) == ("23456", "a b", str(own_prolog), str(own_prolog))
        assert e["WORLD_SIZE"] == "2"


def test_srun_task_prolog_option_is_refused_with_the_alternative(installed, own_prolog):
    result = installed.run("srun", "--ddp", f"--task-prolog={own_prolog}", "true", check=False)
    (line,) = rollcall_lines(result.stderr)
    assert result.returncode != 0 and "SLURM_TASK_PROLOG=PROGRAM srun --ddp" in line
    assert installed.run("srun", "--ddp", "--", "echo", "--task-prolog=x").stdout == "--task-prolog=x\n"


def test_a_failing_prolog_of_the_user_ends_the_step(installed, tmp_path):
    path = tmp_path / "prolog"
    path.write_text("#!/bin/sh\nexit 3\n")
    path.chmod(0o755)
    result = installed.run("srun", "--ddp", "echo", "ran", env={"SLURM_TASK_PROLOG": str(path)}, check=False)
    assert result.returncode == 3 and "ran" not in result.stdout


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize("option, message, code", [
    ("--ddp=port.rnage=1-2", "unknown setting; try port.range", 64),
    ("--ddp=host.template=nosuch-{host}", "host.template: nosuch-jwb0001: does not resolve", 69),
    ("--ddp=interface.gloo=ib9", "interface.gloo: ib9: is not an interface", 69),
])
def test_a_wrong_setting_is_printed_to_stderr_and_ends_the_step(installed, option, message, code):
    result = installed.run("srun", option, "-N2", "--ntasks-per-node=2", "echo", "ran", check=False)
    assert result.returncode == code and result.stdout == ""
    lines = rollcall_lines(result.stderr)
    assert 1 <= len(lines) <= 2 and all(message in line for line in lines)  # at most one a node
    assert installed.cluster.nodes_in_state("drained", "draining", "down") == []


# The user's prolog is a child of rollcall's. That of rank 0 delays its rank until all others have exited or
# wait for Slurm's signal (7: poll, x86-64), and endlessly if one has exited: Slurm then ends the step.
SLOWEST_IS_RANK_0 = """#!/usr/bin/env python3
import os, pathlib, sys, time
parents = pathlib.Path(sys.argv[0]).parent / "parents"
if os.environ["SLURM_PROCID"] != "0":
    pathlib.Path(parents, os.environ["SLURM_PROCID"]).write_text(str(os.getppid()))
    sys.exit()
def waits(process):
    try:
        return pathlib.Path("/proc", process, "syscall").read_text().split()[0] == "7"
    except (OSError, IndexError):
        return False
while True:
    processes = [p.read_text() for p in parents.iterdir()]
    if len(processes) == 3 and all(p and waits(p) for p in processes):
        break
    time.sleep(0.01)
"""


def test_an_error_is_printed_although_the_reporting_task_is_slowest(installed, tmp_path):
    """Slurm kills the other tasks when the first one ends: a task that prints nothing must not end first."""
    prolog = tmp_path / "prolog"
    prolog.write_text(SLOWEST_IS_RANK_0)
    prolog.chmod(0o755)
    (tmp_path / "parents").mkdir()
    result = installed.run("srun", "--ddp=host.template=nosuch-{host}", "-N2", "--ntasks-per-node=2", "echo", "ran",
                           env={"SLURM_TASK_PROLOG": str(prolog)}, check=False)
    (line,) = rollcall_lines(result.stderr)
    assert "host.template: nosuch-jwb0001: does not resolve" in line
    assert (result.returncode, result.stdout) == (69, "")


def test_an_abbreviated_option_is_refused_and_not_ignored(installed):
    result = installed.run("srun", "--dd", "true", check=False)
    assert result.returncode != 0


# ---------------------------------------------------------------- files of the user


def tree(folder):
    return {str(p.relative_to(folder)): os.readlink(p) if p.is_symlink() else p.read_text() if p.is_file() else None
            for p in sorted(folder.rglob("*"))}


def test_install_is_idempotent_and_uninstall_removes_everything(user):
    before = tree(user.home)
    user.install()
    after = tree(user.home)
    assert "nothing to do" in user.install().stdout and tree(user.home) == after
    user.command("uninstall", "--user")
    assert tree(user.home) == before
    assert "nothing to do" in user.command("uninstall", "--user").stdout


def test_reinstalling_with_its_own_slurm_conf_keeps_the_sites_include(installed):
    before = tree(installed.home)
    installed.command("install", "--user", f"--plugin={installed.plugin}", env={"SLURM_CONF": str(installed.conf)})
    assert tree(installed.home) == before


def test_dry_run_writes_nothing_and_shows_everything(user):
    before = tree(user.home)
    text = user.command("install", "--user", f"--plugin={user.plugin}", "--dry-run").stdout
    assert tree(user.home) == before
    assert f"include {user.cluster.folder}/etc/slurm.conf" in text and "task_prolog=" in text


@pytest.mark.parametrize("name", ["slurm.conf", "plugstack.conf"])
def test_an_edited_file_is_neither_replaced_nor_removed(installed, name):
    with (installed.folder / name).open("a") as file:
        file.write("# mine\n")
    before = tree(installed.home)
    for command in (["uninstall", "--user"], ["install", "--user", f"--plugin={installed.plugin}"]):
        result = installed.command(*command, check=False)
        assert result.returncode == 73 and name in result.stderr and "was edited" in result.stderr
    assert tree(installed.home) == before


def test_uninstall_keeps_other_files_of_the_user(installed):
    (installed.folder / "notes").write_text("mine")
    result = installed.command("uninstall", "--user")
    assert "notes" in result.stdout
    assert tree(installed.folder) == {"notes": "mine"}


def test_user_install_is_refused_when_the_site_loads_rollcall(user, plain, plugin):
    plugstack = plain.folder / "etc" / "plugstack.conf"
    try:
        plugstack.write_text(f"optional {plugin}\n")
        result = user.install(check=False)
    finally:
        plugstack.write_text("")
    assert result.returncode == 78 and "already loads rollcall for all users" in result.stderr
    assert not user.folder.exists()


def test_user_installation_works_after_the_site_installs_rollcall(installed, plain, plugin):
    plugstack = plain.folder / "etc" / "plugstack.conf"
    try:
        plugstack.write_text(f"optional {plugin} config_owner=any\n")
        environments, _ = installed.environments("--ddp=threads=3", "-N2")
        status = json.loads(installed.command("install", "--status", "--json", env={"SLURM_CONF": str(installed.conf)}).stdout)
    finally:
        plugstack.write_text("")
    check_world(environments, 2)
    assert {e["OMP_NUM_THREADS"] for e in environments} == {"3"}
    assert status["way"] in ("site", "site and user")


def test_status_reports_the_active_installation(user):
    def status(**env):
        return json.loads(user.run(str(user.rollcall), "install", "--status", "--json", env=env).stdout)

    assert json.loads(user.command("install", "--status", "--json").stdout)["way"] == "none"
    user.install()
    outside = json.loads(user.command("install", "--status", "--json").stdout)
    assert outside["way"] == "none" and "export SLURM_CONF=" in outside["problems"][0]
    inside = status()
    assert (inside["way"], inside["plugin"], inside["problems"]) == ("user", str(user.plugin), [])
    assert inside["plugin_version"][:5] == inside["slurm_version"][:5]
    (user.folder / "rollcall-task-prolog").unlink()
    assert "rollcall-task-prolog" in status()["problems"][0]


@pytest.mark.parametrize("option", [["--ddp"], []], ids=["with the option", "without"])
def test_doctor_in_a_step_reports_the_user_installation(installed, option):
    """slurmd gives tasks the site's SLURM_CONF, whatever srun had."""
    step = installed.run("srun", *option, "-N2", str(installed.rollcall), "doctor", "--json", "--only=way")
    findings = json.loads(step.stdout)["findings"]
    assert [f for f in findings if "not active" in f["reason"]] == []
    if option:
        (way,) = findings
        assert way["status"] == "good" and way["reason"].startswith(f"srun has --ddp (user installation, {installed.plugin})")
    else:
        assert f"after export SLURM_CONF={installed.conf}" in findings[1]["reason"]


def test_a_plugin_for_another_slurm_is_refused(user, plugin):
    others = [p for p in (plugin.parent / "spank_rollcall.so", plugin.parent.parent / "spank_rollcall.so",
                          plugin.parent / "trixie" / "spank_rollcall.so") if p.exists() and p != plugin]
    if not others:
        pytest.skip("the plugin is built for one Slurm only")
    result = user.command("install", "--user", f"--plugin={others[0]}", check=False)
    assert result.returncode == 66 and "was built for Slurm" in result.stderr
    result = user.command("install", "--user", "--plugin=/bin/sh", check=False)
    assert result.returncode == 66 and "is not a SPANK plugin" in result.stderr


def test_user_installation_works_for_an_unprivileged_user(plain, rollcall, plugin, short_folder):
    if os.geteuid() != 0 or shutil.which("runuser") is None:
        pytest.skip("the other tests run as an ordinary user already, or there is no runuser")
    as_nobody = ("runuser", "-u", "nobody", "--")
    if plain.run(*as_nobody, "srun", "--chdir=/tmp", "true", check=False).returncode != 0:
        pytest.skip("nobody cannot run steps here")
    if subprocess.run([*as_nobody, "test", "-x", rollcall]).returncode != 0:
        pytest.skip("the build is not readable for nobody")
    home = home_with_settings(short_folder / "nobody")
    for path in (home, *home.rglob("*")):
        shutil.chown(path, "nobody")
    user = User(plain, rollcall, plugin, home, as_nobody)
    user.install()
    record, read = plain.recorder()
    os.chmod(record[-1], 0o777)
    result = user.run("srun", "--chdir=/tmp", "--ddp", "-N2", *record)
    check_world(read(), 2)
    assert rollcall_lines(result.stderr) == []
    user.command("uninstall", "--user")
    assert not user.folder.exists()


# ---------------------------------------------------------------- the site


def site(rollcall, *arguments):
    return subprocess.run([rollcall, *arguments], text=True, capture_output=True,
                          env=clean_environment())


def test_site_installation_works_with_srun(plain, rollcall, plugin, tmp_path):
    installed_plugin = shutil.copy(plugin, tmp_path)
    options = ["--site", f"--slurm-conf={plain.folder}/etc/slurm.conf"]
    plugstack = plain.folder / "etc" / "plugstack.conf"
    if pathlib.Path("/etc/rollcall/site.toml").exists():
        pytest.skip("this machine has a profile of its own")
    try:
        refused = plain.run(str(rollcall), "install", *options, f"--plugin={installed_plugin}", check=False)
        assert refused.returncode == 78 and "others may write to /tmp, so others could run code as any user" in refused.stderr
        result = plain.run(str(rollcall), "install", *options, f"--plugin={installed_plugin}", "--config-owner=any")
        environments, _ = plain.environments("--ddp=host.template=localhost,host.loopback=allow", "-N2")
        check_world(environments, 2)
        assert json.loads(plain.run(str(rollcall), "install", "--status", "--json").stdout)["way"] == "site"
        assert "others than root" in result.stdout or os.geteuid() == 0
        plain.run(str(rollcall), "uninstall", *options)
        assert not plugstack.exists() or plugstack.read_text() == ""
    finally:
        plugstack.write_text("")


@pytest.mark.parametrize("arguments, code, text", [
    (["install"], 64, "needs one of --user and --site"),
    (["install", "--user", "--site"], 64, "needs one of"),
    (["uninstall"], 64, "needs one of"),
    (["install", "--user", "--slurm-conf=/nowhere/slurm.conf"], 66, "/nowhere/slurm.conf"),
    (["install", "--site", "--root=/nowhere"], 66, "slurm.conf"),
])
def test_wrong_arguments_print_one_error_line(rollcall, arguments, code, text):
    result = site(rollcall, *arguments)
    assert result.returncode == code and text in result.stderr and result.stderr.count("\n") == 1
