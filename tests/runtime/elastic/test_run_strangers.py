"""`rollcall run` against outsiders: other users of the host, silent connections, and a site that forbids networked runs."""
import contextlib
import os
import resource
import shutil
import socket
import struct
import subprocess
import threading

import pytest

from agents import DEADLINE, free_port, run, start, wait_for_words, wait_until
from sealed import OPENING, secret_file

pytestmark = pytest.mark.python
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")  # which every user may execute


def run_as_another_user(program, *arguments):
    return subprocess.run([PYTHON, "-c", program, *map(str, arguments)], user=65534, group=65534, extra_groups=[], text=True,
                          capture_output=True, timeout=DEADLINE, cwd="/", env={"PATH": os.environ["PATH"]})


# The attack by which a user of the same host became rank 1 of another user's run: the id from a first refusal, then a Join
# with it. Prints all answers.
ATTACK = """
import json, os, socket, struct, sys
port = int(sys.argv[1])
def told(said):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(said)
        heard = b""
        while piece := peer.recv(4096):
            heard += piece
        return heard
def join(name):
    text = json.dumps({"report": 0, "generation": 0, "beat": 0, "port": 4711, "causes": [], "newcomer": {
        "run_id": name, "min_nodes": 1, "max_nodes": 2, "node": ["here", "127.0.0.1", 1, "default", 0], "heartbeat_timeout": 2000}})
    return struct.pack(">I", len(text)) + text.encode()
for name in ("guess", "private-7f3a"):
    print(told(join(name)))                                              # in clear
    print(told(b"rollcall sealed1" + os.urandom(32) + join(name))[48:])  # behind an opening
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_user_receives_nothing_and_cannot_join(nodes):
    victim = nodes("--nnodes=1:2", "--rdzv-id=private-7f3a", "--rdzv-conf=last_call_timeout=0.05")
    agent = victim.start()
    victim.generation(1, 1)
    attack = run_as_another_user(ATTACK, victim.options[1].rpartition(":")[2])
    assert attack.returncode == 0, attack.stderr
    assert attack.stdout.splitlines() == ["b''"] * 4
    assert victim.finish() == [0]
    said = agent.communicate()[1]
    assert "rejected an agent at 127.0.0.1, which does not know this run's secret" in said and "generation 2" not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_secret_file_of_another_user_is_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("f" * 64)
    secret.chmod(0o600)
    os.chown(secret, 65534, 65534)
    line = ["--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--no-python", "true"]
    done = run(f"--rdzv-conf=secret={secret}", *line)
    assert done.returncode == 69 and f"{secret}: belongs to user 65534, not to you" in done.stderr
    os.chown(secret, 0, 0)
    secret.chmod(0o644)
    done = run(f"--rdzv-conf=secret={secret}", *line)
    assert done.returncode == 69 and str(secret) in done.stderr


def test_agents_with_different_homes_need_an_explicit_secret(nodes, tmp_path):
    run_ = nodes("--nnodes=2")
    first = start(*run_.options, run_.work, env={"XDG_STATE_HOME": str(tmp_path / "one")})
    wait_for_words(first, "waiting for 2 nodes")
    other = run(*run_.options, run_.work, env={"XDG_STATE_HOME": str(tmp_path / "two")})
    assert other.returncode == 69
    assert "does not know this run's secret" in other.stderr and "--rdzv-conf=secret=FILE" in other.stderr
    assert "--rdzv-conf=secret=FILE" in wait_for_words(first, "does not know this run's secret")
    first.terminate()
    first.communicate()
    secret = secret_file(tmp_path)
    for home in ("one", "two"):
        run_.agents.append(start(*run_.options, f"--rdzv-conf=secret={secret}", run_.work, env={"XDG_STATE_HOME": str(tmp_path / home)}))
    run_.generation(1, 2)
    assert run_.finish() == [0, 0]


PRINT_SECRET = """
import os, sys
names = [name for name in os.environ if "SECRET" in name]
assert names == ["ROLLCALL_SECRET_FD"], names
sys.stdout.write("secret " + os.pread(int(os.environ["ROLLCALL_SECRET_FD"]), 4096, 0).decode().split()[1] + "\\n")
"""


def test_all_workers_of_a_run_share_one_secret(tmp_path):
    """On all nodes and in all generations, whatever secret the step gave to the agent."""
    program = tmp_path / "work.py"
    program.write_text(PRINT_SECRET)
    descriptor = os.memfd_create("step", os.MFD_ALLOW_SEALING)
    os.write(descriptor, b"7.0 " + b"a" * 64)
    os.set_inheritable(descriptor, True)
    step = {"ROLLCALL_SECRET_FD": str(descriptor), "SLURM_ROLLCALL_STEP_SECRET": "b" * 64}
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_text("c" * 64)

    def secrets():
        line = ["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", f"--rdzv-conf=secret={file}",
                "--nproc-per-node=2", program]
        agents = [start(*line, env=step, pass_fds=[descriptor]) for _ in range(2)]
        said = [agent.communicate(timeout=DEADLINE) for agent in agents]
        assert [agent.returncode for agent in agents] == [0, 0], said
        return [line.split()[1] for out, _ in said for line in out.splitlines()]
    first, second = secrets(), secrets()
    assert len(first) == len(second) == 4 and len({*first}) == len({*second}) == 1
    assert len({*first, *second, "a" * 64}) == 3 and all(len(secret) == 64 for secret in first)
    alone = run("--standalone", program, env=step, pass_fds=[descriptor])
    assert alone.returncode == 0, alone.stderr


def test_an_agent_joins_despite_a_thousand_foreign_connections(nodes):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    run_ = nodes("--nnodes=1:2", "--rdzv-conf=last_call_timeout=0.05")
    agent = run_.start()
    run_.generation(1, 1)
    port = int(run_.options[1].rpartition(":")[2])
    says = (b"", OPENING, OPENING + os.urandom(32), OPENING + os.urandom(32) + struct.pack(">I", 8000), os.urandom(64))
    with contextlib.ExitStack() as open_ones:
        for number in range(1000):
            stranger = open_ones.enter_context(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE))
            with contextlib.suppress(ConnectionError):
                stranger.sendall(says[number % len(says)])
        run_.start()
        run_.generation(2, 2)
        descriptors = len(os.listdir(f"/proc/{agent.pid}/fd"))
        assert descriptors < 400, "the silent are bounded"
        wait_until(lambda: len(os.listdir(f"/proc/{agent.pid}/fd")) < 40)  # and gone after a few seconds
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert run_.finish() == [0, 0]


def test_run_network_off_refuses_a_rendezvous_and_allows_one_node(tmp_path):
    profile = tmp_path / "site.toml"
    profile.write_text('run.network = "off"\n[site]\nlocked = ["run.network"]\n')
    env = {"ROLLCALL_SITE_CONFIG": str(profile)}
    for options in (["--nnodes=2"], ["--nnodes=1"]):
        done = run(*options, "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--no-python", "true", env=env)
        assert done.returncode == 64
        assert done.stderr == f"rollcall: run.network: off: the agents of rollcall run may not use a network here ({profile}), so " \
                              "that a run has one node; try --standalone\n"
    assert run("--standalone", "--no-python", "true", env=env).returncode == 0
    assert run("--nproc-per-node=2", "--no-python", "true", env=env).returncode == 0
    user = run("--standalone", "--no-python", "true", env={**env, "ROLLCALL_RUN_NETWORK": "on"})
    assert user.returncode == 64 and str(profile) in user.stderr


def test_status_is_not_blocked_by_a_socket_that_answers_endlessly(nodes):
    run_ = nodes()
    agent = run_.start()
    run_.generation(1, 1)
    with socket.socket(socket.AF_UNIX) as endless:
        endless.bind(f"\0rollcall-run/{os.getuid()}/1-endless")
        endless.listen()

        def answer():
            with contextlib.suppress(OSError):
                asking = endless.accept()[0]
                while True:
                    asking.sendall(b" " * 100)
        threading.Thread(target=answer, daemon=True).start()
        assert f'"pid":{agent.pid}' in run("--status", "--json").stdout
    assert run_.finish() == [0]


def status_sockets(pid):
    return [line.split()[-1] for line in open("/proc/net/unix") if f"@rollcall-run/{os.getuid()}/{pid}-" in line]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_the_status_socket_answers_only_its_user_and_survives_requests(nodes):
    run_ = nodes()
    agent = run_.start()
    run_.generation(1, 1)
    name = status_sockets(agent.pid)[0]
    asked = run_as_another_user("""
import socket, sys
for turn in range(200):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(60)
        one.connect(chr(0) + sys.argv[1])
        print(one.recv(1), end="")
""", name[1:])
    assert asked.returncode == 0 and set(asked.stdout.replace("b''", "")) == set(), asked
    assert run("--status", "--json").stdout.count(f'"pid":{agent.pid}') == 1
    assert run_.finish() == [0]
