"""Which site profile, plugstack.conf and plugin are trusted: files that an attacker can change are refused by name, in every command."""

import os
import pathlib
import shutil
import subprocess

import pytest

from minicluster import SOURCE, Minicluster, clean_environment

pytestmark = [pytest.mark.slurm, pytest.mark.long,
              pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="root plays both users")]

ATTACKER, VICTIM = 4711, 4712
EVIL = """variables = ["LD_PRELOAD=/home/attacker/evil.so"]
[host]
template = "localhost"
loopback = "allow"
"""


def as_user(user):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


@pytest.fixture(scope="module")
def installed(believed_folder, rollcall):
    """rollcall where the plugin looks for it and the victim can start it."""
    (believed_folder / "bin").mkdir()
    return pathlib.Path(shutil.copy(rollcall, believed_folder / "bin"))


@pytest.fixture(scope="module")
def strict(believed_folder, plugin, installed):
    """A cluster without config_owner in plugstack.conf, with the plugin and the profile in folders of root."""
    folder = believed_folder / "c"
    (believed_folder / "lib").mkdir()
    installed = shutil.copy(plugin, believed_folder / "lib")
    made = Minicluster(folder, "--nodes=1", f"--plugin={installed}").start()
    etc = folder / "etc"
    (folder / "etc" / "plugstack.conf").write_text(f"include {etc}/plugstack.d/*.conf\n")
    (etc / "plugstack.d").mkdir()
    (etc / "plugstack.d" / "rollcall.conf").write_text(f"optional {installed} config={etc}/profile/site.toml\n")
    (etc / "profile").mkdir()
    (etc / "profile" / "site.toml").write_text((SOURCE / "site_config" / "minicluster.toml").read_text())
    for path in (folder, etc):
        path.chmod(0o755)  # a throwaway cluster keeps others out
    yield made
    made.stop()


class World:
    """The files of `cluster` that tests change, restored at the end."""

    def __init__(self, cluster):
        self.etc, self.lib = cluster.folder / "etc", cluster.folder.parent / "lib"
        self.profile, self.line = self.etc / "profile" / "site.toml", self.etc / "plugstack.d" / "rollcall.conf"
        self.kept = {path: path.read_bytes() for path in (self.profile, self.line)}

    def restore(self):
        for path in (self.profile, self.line):
            path.unlink(missing_ok=True)
            path.write_bytes(self.kept[path])
        for path in [self.etc, *self.etc.glob("plugstack*"), self.lib, *self.lib.iterdir(), self.profile.parent]:
            os.chown(path, 0, 0)
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture
def world(strict):
    made = World(strict)
    yield made
    made.restore()


def writable_by_all(path):
    def change(world):
        target = path(world)
        target.chmod(target.stat().st_mode | 0o002)
        return target, "others may write to", f"chmod o-w {target}"
    return change


def owned_by_attacker(path):
    def change(world):
        target = path(world)
        os.chown(target, ATTACKER, ATTACKER)
        return target, f"user {ATTACKER} owns", f"chown root {target}"
    return change


def writable_by_group(path):
    def change(world):
        target = path(world)
        os.chown(target, 0, ATTACKER)
        target.chmod(target.stat().st_mode | 0o020)
        return target, "others may write to", f"chmod g-w {target}"
    return change


def behind_a_link(world):
    """The profile lies where an attacker may write, and root's link leads there."""
    elsewhere = world.etc / "profile" / "open"
    elsewhere.mkdir(exist_ok=True)
    elsewhere.chmod(0o1777)
    (elsewhere / "site.toml").write_bytes(world.profile.read_bytes())
    world.profile.unlink()
    world.profile.symlink_to("open/site.toml")
    return elsewhere, "others may write to", f"a folder outside {elsewhere}"


PLACES = {"profile": lambda world: world.profile, "profile's folder": lambda world: world.profile.parent}
OF_SLURM = {"line's file": lambda world: world.line, "line's folder": lambda world: world.line.parent,
            "plugstack": lambda world: world.etc / "plugstack.conf", "plugin's folder": lambda world: world.lib,
            "plugin": lambda world: world.lib / "spank_rollcall.so"}
EVERYWHERE = [pytest.param(how(path), id=f"{how.__name__} {name}")
              for name, path in PLACES.items() for how in (writable_by_all, owned_by_attacker, writable_by_group)]
EVERYWHERE += [pytest.param(behind_a_link, id="behind a link")]
OF_SLURM_OPEN = [pytest.param(writable_by_all(path), id=f"open {name}") for name, path in OF_SLURM.items()]


def refused(result, found):
    target, reason, cure = found
    output = result.stderr + result.stdout  # a prolog that cannot reach the task's standard error has Slurm print it
    (line,) = [line for line in output.splitlines() if "rollcall: " in line]
    assert f"{reason} {target}, so others could run code as any user; try {cure}" in line
    assert "ran" not in result.stdout


@pytest.mark.parametrize("change", [*EVERYWHERE, *OF_SLURM_OPEN])
def test_a_step_with_an_untrusted_file_fails_before_its_program(strict, world, change):
    world.profile.write_text(EVIL)
    found = change(world)
    step = strict.run("srun", "--ddp", "-N1", "sh", "-c", "echo ran", check=False)
    assert step.returncode == 78
    refused(step, found)
    assert strict.nodes_in_state("drained", "draining", "down") == []


def test_files_that_only_root_can_change_are_trusted(strict, world, rollcall):
    shown = strict.run("srun", "--ddp", "-N1", "printenv", "MASTER_ADDR").stdout
    assert shown == "localhost\n"
    for command in ([rollcall, "env"], [rollcall, "exec", "--", "true"], [rollcall, "--print-config"]):
        strict.run("srun", "-N1", *map(str, command))


def test_config_owner_allows_other_owners(strict, world):
    os.chown(world.profile, ATTACKER, -1)
    for words, code in ((f"config_owner={ATTACKER}", 0), ("config_owner=any", 0), (f"config_owner={VICTIM}", 78), ("config_owner=all", 78)):
        world.line.write_bytes(world.kept[world.line].replace(b"\n", f" {words}\n".encode()))
        step = strict.run("srun", "--ddp", "-N1", "echo", "ran", check=False)
        assert step.returncode == code, (words, step.stderr)
    assert "plugstack.conf: config_owner: all: is neither any nor a user ID; try leaving it out" in step.stderr
    world.line.write_bytes(world.kept[world.line].replace(b"\n", f" config_owner={ATTACKER}\n".encode()))
    world.profile.chmod(0o666)
    assert strict.run("srun", "--ddp", "-N1", "true", check=False).returncode == 78


COMMANDS = {
    "exec": ["exec", "--", "echo", "ran"], "env": ["env"], "doctor": ["doctor"],
    "print-config": ["--print-config"], "run": ["run", "--no-python", "echo", "ran"],
}


def as_task(rollcall, world, command, tmp_path):
    """The command as the victim calls it in a task of a step of one."""
    task = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
            "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "127.0.0.1",
            "SLURM_STEP_TASKS_PER_NODE": "1", "SLURMD_NODENAME": "127.0.0.1", "SLURM_ROLLCALL_DDP": ""}
    environment = clean_environment() | task | {"SLURM_CONF": str(world.etc / "slurm.conf"), "HOME": str(tmp_path)}
    program = [str(rollcall), *COMMANDS[command]] if command in COMMANDS else command.split()
    user = [] if "rollcall-train" in command else as_user(VICTIM)  # whom root's folder of LibTorch may be closed to
    return subprocess.run([*user, "sh", "-c", '"$@"; exit $?', "sh", *program], env=environment, text=True,
                          capture_output=True, timeout=60, cwd="/")


@pytest.mark.parametrize("command", [*COMMANDS, "task prolog", "trainer"])
@pytest.mark.parametrize("change", [EVERYWHERE[0], EVERYWHERE[-1], *OF_SLURM_OPEN])
def test_every_command_refuses_an_untrusted_file(strict, world, installed, request, tmp_path, command, change):
    if command == "task prolog":
        prolog = installed.parent / "rollcall-task-prolog"
        prolog.unlink(missing_ok=True)
        prolog.symlink_to(installed)
        command = str(prolog)
    elif command == "trainer":
        command = f"{request.getfixturevalue('rollcall_train')} --print-config"
    world.profile.write_text(EVIL)
    found = change(world)
    result = as_task(installed, world, command, tmp_path)
    assert result.returncode == 78, result.stderr
    refused(result, found)
    assert "evil" not in result.stdout


def test_a_profile_chosen_by_the_user_is_not_checked(strict, world, installed, tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('threads = "3"\n')
    world.profile.chmod(0o666)
    environment = clean_environment() | {"SLURM_CONF": str(world.etc / "slurm.conf"), "ROLLCALL_SITE_CONFIG": str(mine)}
    shown = subprocess.run([installed, "--print-config"], env=environment, text=True, capture_output=True, check=True)
    assert f"recognised by ROLLCALL_SITE_CONFIG, {mine}" in shown.stdout


def test_a_user_installation_is_not_checked(strict, world, installed, plugin, tmp_path):
    """Its plugstack.conf may lie in a project's folder; it has no profile."""
    folder = tmp_path / ".config" / "rollcall" / "slurm"
    (world.etc / "plugstack.conf").chmod(0o644)
    site = tmp_path / "slurm.conf"
    site.write_text("ClusterName=x\n")

    def rollcall(slurm_conf, *arguments):
        return strict.run("env", "--unset=XDG_CONFIG_HOME", f"HOME={tmp_path}", f"SLURM_CONF={slurm_conf}", installed, *arguments).stdout

    rollcall(site, "install", "--user", f"--plugin={plugin}", f"--slurm-conf={site}")
    for path in (folder, folder / "plugstack.conf"):
        path.chmod(0o777)
    assert "site profile: none" in rollcall(folder / "slurm.conf", "--print-config")


@pytest.mark.parametrize("own", ["4712", "0"])
def test_in_a_user_namespace_files_of_root_are_trusted_unless_writable(world, installed, own):
    """As in a container that a user starts: root's files are shown as those of 65534. In some the user is called root there."""
    environment = clean_environment() | {"SLURM_CONF": str(world.etc / "slurm.conf"), "HOME": "/nowhere", "XDG_CONFIG_HOME": "/nowhere"}
    inside = [*as_user(VICTIM), "unshare", "--user", f"--map-user={own}", f"--map-group={own}"]
    owner = subprocess.run([*inside, "stat", "-c", "%u", str(world.profile)], text=True, capture_output=True)
    if owner.returncode != 0:
        pytest.skip(owner.stderr)
    assert owner.stdout == "65534\n"
    shown = subprocess.run([*inside, str(installed), "--print-config"], env=environment, text=True, capture_output=True)
    assert f"recognised by config= in plugstack.conf, {world.profile}" in shown.stdout, shown.stderr
    world.profile.chmod(0o666)
    open_one = subprocess.run([*inside, str(installed), "--print-config"], env=environment, text=True, capture_output=True)
    assert open_one.returncode == 78 and f"others may write to {world.profile}" in open_one.stderr


@pytest.mark.parametrize("mode, code", [("0644", 0), ("0666", 78)])
def test_the_profile_in_etc_is_checked_as_well(installed, mode, code):
    """In a mount namespace of its own, whose /etc holds nothing else."""
    inside = f"""mount -t tmpfs -o mode=0755 tmpfs /etc && mkdir -m 755 /etc/rollcall && printf 'threads = "3"\\n' > /etc/rollcall/site.toml &&
    chmod {mode} /etc/rollcall/site.toml && exec "$@" """
    environment = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": "/nowhere"}
    shown = subprocess.run(["unshare", "--mount", "--propagation=private", "sh", "-c", inside, "sh", *as_user(VICTIM), installed,
                            "--print-config"], env=environment, text=True, capture_output=True)
    assert shown.returncode == code, shown.stderr
    if code:
        assert "rollcall: /etc/rollcall/site.toml: others may write to /etc/rollcall/site.toml, so " \
               "others could run code as any user" in shown.stderr
    else:
        assert "recognised by its place, /etc/rollcall/site.toml" in shown.stdout
