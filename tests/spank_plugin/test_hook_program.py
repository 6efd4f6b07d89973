"""The plugin delegates its work to `rollcall spank-hook`. A hook program that is missing, of another version, hangs, crashes or
violates the protocol ends only the step, with an error that names it; slurmstepd and the node are not affected."""

import json
import os
import pathlib
import socket
import stat
import struct
import subprocess

import pytest

from minicluster import poll, rollcall_lines
from test_no_drain import check_nodes

pytestmark = pytest.mark.slurm
# Answers as rollcall does, up to the hook that it is to spoil.
STAND_IN = r"""#!/usr/bin/python3 -S
import os, signal, socket, struct, sys, time
plugin = socket.socket(fileno=3)
def say(kind, payload):
    plugin.sendall(struct.pack("=cI", kind, len(payload)) + payload)
def receive(size):
    data = b""
    while len(data) < size:
        data += plugin.recv(size - len(data)) or sys.exit(0)
    return data
version = sys.argv[2].encode()
open({marks!r} + "/" + str(os.getpid()), "x").close()
while True:
    kind, size = struct.unpack("=cI", receive(5))
    payload = receive(size)
    if kind != b"h":
        continue
    if payload == {hook!r}:
{spoil}
    say(b"V", version)
    say(b"x", b"0")
"""

OTHER_VERSION = "say(b'V', b'9.9.9 (protocol 0)')"
OTHER_PATCH = "say(b'V', b'9.9.9 (protocol 1)')"
FALLS_SILENT = "os._exit(64)"  # as a rollcall that knows no spank-hook
CRASHES = "say(b'V', version); os.kill(os.getpid(), signal.SIGSEGV)"
ENDS = "say(b'V', version); os._exit(0)"
GARBAGE = "plugin.sendall(os.urandom(100000))"
TOO_LONG = "say(b'V', version); plugin.sendall(struct.pack('=cI', b's', 0xffffffff))"
ENDLESS = "say(b'V', version)\n        while True: say(b'n', b'')\n"
TOO_MANY_LINES = "say(b'V', version); [say(b'n', b'more') for _ in range(65)]"
NO_NAME = "say(b'V', version); say(b's', b'=x')"
NO_NUMBER = "say(b'V', version); say(b'x', b'many')"
HANGS = ("signal.signal(signal.SIGTERM, signal.SIG_IGN); say(b'V', version); say(b'p', b'1')\n"
         "        while True: time.sleep(1)\n")

SPOILT = {
    "other_version": (OTHER_VERSION, 76, "is of version 9.9.9 (protocol 0), but the plugin is of"),
    "falls_silent": (FALLS_SILENT, 76, "does not answer like rollcall"),
    "crashes": (CRASHES, 70, "ended early with exit code 139"),
    "ends": (ENDS, 70, "ended early with exit code 0"),
    "garbage": (GARBAGE, 76, "does not answer like rollcall"),
    "too_long": (TOO_LONG, 76, "does not answer like rollcall"),
    "too_many_lines": (TOO_MANY_LINES, 76, "does not answer like rollcall"),
    "no_name": (NO_NAME, 76, "does not answer like rollcall"),
    "no_number": (NO_NUMBER, 76, "does not answer like rollcall"),
    "hangs": (HANGS, 69, "did not answer within 1 s and was killed"),
}


class Program:
    """The hook program that `rollcall=` in plugstack.conf names."""

    def __init__(self, cluster):
        self.folder = cluster.new_folder()
        self.folder.chmod(0o755)
        self.path = self.folder / "rollcall"
        self.marks = self.folder / "marks"
        self.marks.mkdir()
        self.plugstack = cluster.folder / "etc" / "plugstack.conf"

    def set_config_owner(self, word):
        """Sets config_owner= in plugstack.conf, without a profile, which would not be trusted in /tmp."""
        plugin = self.plugstack.read_text().split()[1]
        self.plugstack.write_text(f"required {plugin} rollcall={self.path} {word}\n")

    def write(self, spoil="pass", hook="none"):
        self.path.write_text(STAND_IN.format(marks=str(self.marks), hook=hook.encode(), spoil="        " + spoil))
        self.path.chmod(0o755)

    def started(self):
        return [int(mark.name) for mark in self.marks.iterdir()]


@pytest.fixture
def program(cluster):
    plugstack = cluster.folder / "etc" / "plugstack.conf"
    line = plugstack.read_text()
    made = Program(cluster)
    plugstack.write_text(line.strip().replace("optional", "required") + f" rollcall={made.path}\n")
    yield made
    plugstack.write_text(line)


def check_gone(program):
    assert program.started()
    poll(lambda: not any(pathlib.Path("/proc", str(pid)).exists() for pid in program.started()), "no program is left")


@pytest.mark.parametrize("hook, spoil", [("task", spoil) for spoil in SPOILT] + [("option", "crashes"), ("option", "hangs")])
def test_a_failing_hook_program_ends_the_step_with_its_error(cluster, program, hook, spoil):
    text, code, words = SPOILT[spoil]
    program.write(text, hook)
    step = cluster.run("srun", "--ddp", "-N2", "--ntasks-per-node=2", "echo", "ran", check=False)
    assert step.returncode == code and "ran" not in step.stdout, step.stderr
    lines = rollcall_lines(step.stderr)
    assert lines and all(f"rollcall: --ddp: {program.path}: " in line and words in line for line in lines), step.stderr
    assert len(lines) <= (2 if hook == "task" else 1)
    check_gone(program)
    assert cluster.run("srun", "-N4", "true").returncode == 0
    check_nodes(cluster)


def test_a_hook_program_of_another_version_with_the_same_protocol_works(cluster, program):
    """As on the nodes while they are upgraded."""
    program.write(OTHER_PATCH, "task")
    assert cluster.run("srun", "--ddp", "-N2", "echo", "ran").stdout == "ran\nran\n"


def test_output_of_the_hook_program_does_not_fill_the_slurmd_log(cluster, program):
    """It runs as the user, who may have another program speak in its place."""
    logs = list((cluster.folder / "log").glob("slurmd.*"))
    before = sum(path.stat().st_size for path in logs)
    program.write("say(b'V', version); [say(b'e', b'many words ' * 100000) for _ in range(3)]", "task")
    step = cluster.run("srun", "--ddp", "-N1", "true", check=False)
    assert step.returncode == 76 and "many words" in step.stderr, step.stderr[-1000:]
    assert len(step.stderr) < 200_000 and logs and sum(path.stat().st_size for path in logs) - before < 200_000
    check_gone(program)


@pytest.mark.long
def test_a_hook_program_with_endless_output_is_ended(cluster, program):
    program.write(ENDLESS, "task")
    step = cluster.run("srun", "--ddp", "-N2", "echo", "ran", check=False)
    assert step.returncode == 76 and "ran" not in step.stdout
    check_gone(program)
    check_nodes(cluster)


def test_the_hook_program_leaves_no_child_process_to_the_task(cluster, program):
    program.write()
    # Whether this very process, which the plugin ran in, has a child.
    count = "import os; print(len(open(f'/proc/self/task/{os.getpid()}/children').read().split()))"
    assert cluster.run("srun", "--ddp", "-N2", "/usr/bin/python3", "-S", "-c", count).stdout == "0\n0\n"
    check_gone(program)


# ---------------------------------------------------------------- which one is run


def missing(program):
    program.path.unlink()
    return 127, "is not a program"


def a_folder(program):
    program.path.unlink()
    program.path.mkdir()
    return 127, "is not a program"


def not_executable(program):
    program.path.chmod(0o644)
    return 126, "cannot be executed: Permission denied"


def no_program(program):
    program.path.write_text("none\n")
    return 126, "cannot be executed: Exec format error"


def others_may_write(program):
    program.path.chmod(0o757)
    return 78, "others may write to {}/rollcall; try asking your administrator for chmod o-w"


def others_may_write_to_its_folder(program):
    program.folder.chmod(0o777)
    return 78, "others may write to {}; try asking your administrator for chmod o-w"


def of_another(program):
    os.chown(program.path, 65534, -1)
    return 78, "user 65534 owns {}"


def in_anothers_folder(program):
    os.chown(program.folder, 65534, -1)
    return 78, "user 65534 owns {}"


def a_link_into_anothers_folder(program):
    theirs = program.folder / "theirs"
    theirs.mkdir()
    program.path.rename(theirs / "rollcall")
    os.chown(theirs, 65534, -1)
    program.path.symlink_to(theirs / "rollcall")
    return 78, "user 65534 owns {}"


NOT_RUN = [missing, a_folder, not_executable, no_program, others_may_write, others_may_write_to_its_folder, of_another,
           in_anothers_folder, a_link_into_anothers_folder]


@pytest.mark.parametrize("spoil", NOT_RUN, ids=lambda function: function.__name__)
def test_a_missing_or_untrusted_hook_program_is_not_run(cluster, program, spoil):
    if "another" in spoil.__name__ and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    program.write()
    program.set_config_owner("")
    code, words = spoil(program)
    step = cluster.run("srun", "--ddp", "-N2", "echo", "ran", check=False)
    assert step.returncode == code and "ran" not in step.stdout, step.stderr
    (line,) = rollcall_lines(step.stderr)
    assert words.format(program.folder) in line and str(program.path.parent) in line
    assert cluster.run("srun", "--ddp=off", "-N2", "echo", "ran").stdout == "ran\nran\n"
    assert program.started() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("word, code", [("config_owner=any", 0), ("config_owner=7001", 0), ("config_owner=7002", 78), ("", 78),
                                        ("config_owner=7001x", 78)])
def test_config_owner_sets_the_accepted_owner_of_the_hook_program(cluster, program, word, code):
    program.write()
    program.set_config_owner(word)
    os.chown(program.path, 7001, 7001)
    step = cluster.run("srun", "--ddp", "-N2", "echo", "ran", check=False)
    assert step.returncode == code, step.stderr
    if code:
        (line,) = rollcall_lines(step.stderr)
        assert (f"user 7001 owns {program.path}; try asking your administrator for chown root {program.path} or "
                "config_owner=7001 in plugstack.conf") in line


def of_roots_group(program):
    os.chown(program.path, 7001, 0)
    program.path.chmod(0o775)
    program.set_config_owner("config_owner=7001")
    return 0, ""


KERNELS = [not_executable, no_program]  # of which the kernel tells when it is run


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("spoil", [*(one for one in NOT_RUN if one not in KERNELS), of_roots_group, None],
                         ids=lambda function: getattr(function, "__name__", "none"))
def test_install_status_reports_the_same_problem_as_a_step(cluster, program, rollcall, spoil):
    program.write()
    program.path.write_text(program.path.read_text() + "# rollcall-hook (protocol 1)\n")
    program.set_config_owner("")
    code, words = spoil(program) if spoil else (0, "")
    assert cluster.run("srun", "--ddp", "-N1", "true", check=False).returncode == code
    status = json.loads(cluster.run(str(rollcall), "install", "--status", "--json").stdout)
    told = words.format(program.folder).split(";")[0]
    problems = [line for line in status["problems"] if not line.startswith(f"{program.plugstack}: ")]  # it lies in /tmp
    assert [told in problem for problem in problems] == ([True] if code else []), problems
    assert status["program"] == str(program.path)


def test_doctor_reports_the_same_problem_as_a_step(cluster, program, rollcall):
    program.set_config_owner("config_owner=any")
    doctor = cluster.run("srun", "-N1", str(rollcall), "doctor", "--json", "--only=way", check=False)
    assert f"rollcall: {program.path}: is not a program" in doctor.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may put another file in a file's place on one node")
def test_a_hook_program_missing_on_one_node_is_reported_by_it(cluster, program):
    program.write()
    cluster.restart_node_with("jwb0002", "/dev/null", program.path)
    try:
        step = cluster.run("srun", "--ddp", "-N2", "--ntasks-per-node=2", "echo", "ran", check=False)
        assert step.returncode == 127, step.stderr
        (line,) = rollcall_lines(step.stderr)
        assert f"{program.path}: is not a program" in line
    finally:
        cluster.script("restart-node", "jwb0002")
    check_nodes(cluster)


def test_the_hook_program_runs_only_for_steps_with_ddp(cluster, program):
    program.write()
    cluster.run("srun", "-N2", "true")
    cluster.batch("#!/bin/bash\nsrun true\n")
    assert program.started() == []
    cluster.run("srun", "--ddp", "-N2", "true")
    assert len(program.started()) == 3  # srun, and a task on each node


def test_a_ddp_option_of_the_users_program_needs_no_hook_program(cluster, program):
    assert cluster.run("srun", "-N2", "echo", "--ddp").stdout == "--ddp\n--ddp\n"
    assert not program.path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run steps of another user")
def test_the_hook_program_runs_with_the_rights_of_the_user(cluster, program):
    as_nobody = ["runuser", "-u", "nobody", "--"]
    if cluster.run(*as_nobody, "srun", "--chdir=/tmp", "true", check=False).returncode != 0:
        pytest.skip("nobody cannot run steps here")
    program.write()
    program.marks.chmod(0o777)
    cluster.run(*as_nobody, "srun", "--chdir=/tmp", "--ddp", "-N2", "true")
    owners = {mark.stat(follow_symlinks=False).st_uid for mark in program.marks.iterdir()}
    assert owners == {65534} and len(program.started()) == 3
    assert stat.S_IMODE(program.path.stat().st_mode) == 0o755


@pytest.mark.parametrize("hook", ["option", "task"])
def test_the_hook_program_inherits_no_other_descriptors(cluster, program, hook):
    """slurmstepd's files are root's; srun's stand for them here, of which one more is easily opened."""
    program.write("folder = '/proc/self/fd'; there = [n for n in os.listdir(folder) if n not in '012' and os.path.islink(f'{{folder}}/{{n}}')]\n"
                  "        open({!r}, 'w').write('\\n'.join(os.readlink(f'{{folder}}/{{n}}') for n in there))"
                  .format(str(program.folder / "open")), hook)
    cluster.run("bash", "-c", "exec 77< /etc/passwd; srun --ddp -N1 true")
    names = (program.folder / "open").read_text().splitlines()
    others = [name for name in names if not name.startswith(("socket:", "/memfd:rollcall-tasks", "/proc/", str(program.folder)))]
    assert others == [] and sum(name.startswith("socket:") for name in names) == 1, names


def test_the_socket_of_the_hook_program_is_protected_from_other_processes(rollcall):
    version = subprocess.run([rollcall, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    plugin, programs = socket.socketpair()
    command = f"exec 3<&{programs.fileno()}; exec {rollcall} spank-hook '{version} (protocol 1)'"
    user = 65534 if os.geteuid() == 0 else None
    with subprocess.Popen(["bash", "-c", command], user=user, cwd="/", pass_fds=[programs.fileno()]) as program, plugin:
        programs.close()
        plugin.settimeout(30)
        plugin.sendall(struct.pack("=cI", b"h", 4) + b"init")
        assert plugin.recv(1) == b"V"
        assert os.stat(f"/proc/{program.pid}/mem").st_uid == 0  # so the kernel lets only root access its memory
        if os.geteuid() == 0:
            flags = pathlib.Path(f"/proc/{program.pid}/fdinfo/3").read_text().split("flags:")[1].split()[0]
            assert int(flags, 8) & os.O_CLOEXEC
        plugin.shutdown(socket.SHUT_RDWR)
        assert program.wait(30) == 0


@pytest.mark.parametrize("most", [9, 10])
def test_too_few_file_descriptors_are_reported(cluster, most):
    """Slurm 26.05's srun has threads that take some for a moment, so that now and then it fails before it loads the plugin."""
    for _ in range(20):
        step = cluster.run("bash", "-c", f"ulimit -n {most}; exec srun --ddp -N1 true", check=False)
        if "rollcall: " in step.stderr:
            break
    assert step.returncode == 69 and "ulimit -n" in step.stderr, step.stderr
