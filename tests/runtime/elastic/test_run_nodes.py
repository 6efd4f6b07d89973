"""`rollcall run` as several agents that meet at one endpoint: they join, leave, are stopped and are killed."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import textwrap
import time
import zlib

import pytest

from agents import DEADLINE, ROLLCALL, WORK, end_all, free_port, living_in_sessions_with, run, start, wait_for_words, wait_until
from sealed import Sealed, secret_file

pytestmark = [pytest.mark.python, pytest.mark.skipif(not ROLLCALL.exists(), reason=f"{ROLLCALL} is not built")]

def test_two_nodes_of_different_size_form_one_world(nodes):
    run_ = nodes("--nnodes=2")
    run_.start("--nproc-per-node=2")
    run_.start("--nproc-per-node=1")
    told = run_.generation(1, 3)
    assert sorted(t["GROUP_RANK"] for t in told) in (["0", "0", "1"], ["0", "1", "1"])
    assert run_.finish() == [0, 0]


def test_a_late_node_joins_in_the_next_generation(nodes):
    run_ = nodes("--nnodes=1:2", "--rdzv-conf=last_call_timeout=0.05")
    run_.start("--nproc-per-node=2")
    first = run_.generation(1, 2)
    run_.start("--nproc-per-node=2")
    second = run_.generation(2, 4)
    assert first[0]["MASTER_PORT"] != second[0]["MASTER_PORT"]
    assert {t["TORCHELASTIC_RESTART_COUNT"] for t in second} == {"0"}
    assert run_.finish() == [0, 0]


def blocked_signals(process):
    lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("SigBlk:")), 16)


def test_sigusr1_does_not_end_an_agent_before_the_rendezvous():
    endpoint = f"127.0.0.1:{free_port()}"
    options = ["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", "--no-python", "/bin/true"]
    guest = start("--rdzv-conf=is_host=false", *options)
    blocked = 1 << (signal.SIGUSR1 - 1)
    wait_until(lambda: blocked_signals(guest) & blocked)
    guest.send_signal(signal.SIGUSR1)
    host = start("--rdzv-conf=is_host=true", *options)
    try:
        assert [agent.communicate(timeout=DEADLINE) and agent.returncode for agent in (guest, host)] == [0, 0]
    finally:
        end_all()


def test_the_others_continue_without_a_killed_node(nodes):
    run_ = nodes("--nnodes=1:3", "--rdzv-conf=last_call_timeout=600")
    run_.start()
    run_.start()
    run_.start()
    told = run_.generation(1, 3)
    victim = next(a for a in run_.agents if a.pid == told[2]["agent"])
    victim.kill()
    told = run_.generation(2, 2)
    assert victim.pid not in {t["agent"] for t in told}
    codes = run_.finish()
    assert sorted(codes) == [-9, 0, 0]


def test_a_stopped_agent_is_fenced_when_it_continues(nodes):
    run_ = nodes("--nnodes=1:2", "--rdzv-conf=last_call_timeout=600,heartbeat_timeout=0.5")
    host = run_.start()
    told = None
    guest = run_.start()
    told = run_.generation(1, 2)
    sleeper = next(a for a in run_.agents if a.pid == told[1]["agent"])
    assert sleeper in (host, guest)
    sleeper.send_signal(signal.SIGSTOP)
    run_.generation(2, 1)
    sleeper.send_signal(signal.SIGCONT)
    assert sleeper.wait(timeout=DEADLINE) == 69
    assert not list(run_.folder.glob("3.*"))
    (run_.folder / "go").write_text("")
    assert next(a for a in run_.agents if a is not sleeper).wait(timeout=DEADLINE) == 0


def wait_for_spare(run_):
    own = [agent.pid for agent in run_.agents]
    wait_until(lambda: any(each["pid"] in own and each.get("spares") for each in json.loads(run("--status", "--json").stdout)))


def test_a_spare_waits_and_replaces_a_lost_node(nodes):
    run_ = nodes("--nnodes=1:2", "--rdzv-conf=last_call_timeout=600")
    run_.start()
    run_.start()
    told = run_.generation(1, 2)
    run_.start()
    wait_for_spare(run_)
    assert not list(run_.folder.glob("2.*")), "a full world is not disturbed"
    next(a for a in run_.agents if a.pid == told[1]["agent"]).kill()
    told = run_.generation(2, 2)
    assert run_.agents[2].pid in {t["agent"] for t in told}
    assert sorted(run_.finish()) == [-9, 0, 0]


def test_an_unused_spare_reports_it_and_exits_with_79(nodes):
    """A second job of two nodes at the endpoint of a first one is its spare."""
    run_ = nodes("--nnodes=1:2", "--rdzv-conf=last_call_timeout=600")
    run_.start()
    run_.start()
    run_.generation(1, 2)
    spare = run_.start()
    wait_for_spare(run_)
    assert run_.finish() == [0, 0, 79]
    waits, ends = spare.stderr.read().splitlines()
    assert run_.options[1].split("=")[1] in waits and "waits as a spare until a node leaves" in waits
    assert "ran no workers; try " in ends


def test_a_second_job_at_the_endpoint_of_a_single_node_run_is_refused(nodes):
    run_ = nodes("--nnodes=1")
    run_.start()
    run_.generation(1, 1)
    second = run(*run_.options, run_.work)
    assert second.returncode == 76
    assert f"the run at this endpoint has a single node, which has already joined: {os.uname().nodename}" in second.stderr
    assert run_.finish() == [0]


def test_a_failure_restarts_all_nodes_and_is_reported_with_its_rank(nodes):
    run_ = nodes("--nnodes=2", "--max-restarts=1")
    run_.start()
    run_.start()
    told = run_.generation(1, 2)
    os.kill(told[1]["pid"], signal.SIGKILL)
    told = run_.generation(2, 2)
    assert {t["TORCHELASTIC_RESTART_COUNT"] for t in told} == {"1"}
    os.kill(told[1]["pid"], signal.SIGKILL)
    ends = [agent.communicate(timeout=DEADLINE) for agent in run_.agents]
    assert [agent.returncode for agent in run_.agents] == [137, 137]
    assert all("rank 1 " in err and "killed by signal 9" in err for _, err in ends)


def test_static_nodes_get_their_node_rank(nodes, tmp_path):
    port = free_port()
    work = tmp_path / "work.py"
    work.write_text(textwrap.dedent(WORK))
    (tmp_path / "go").write_text("")
    common = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={port}", "--nproc-per-node=1"]
    second = start(*common, "--node-rank=1", work)
    first = start(*common, "--node-rank=0", work)
    assert [a.wait(timeout=DEADLINE) for a in (first, second)] == [0, 0]
    assert json.loads((tmp_path / "1.1.json").read_text())["agent"] == second.pid
    for agent in (first, second):
        agent.communicate()


def test_agents_of_another_run_or_node_range_are_refused(nodes):
    run_ = nodes("--nnodes=1:2", "--rdzv-conf=last_call_timeout=0.05")
    run_.start()
    run_.generation(1, 1)
    endpoint = run_.options[1]
    other = run("--rdzv-backend=c10d", endpoint, "--rdzv-id=other", "--nnodes=1:2", "--rdzv-conf=is_host=0", run_.work)
    assert other.returncode == 76 and "the run at this endpoint is test, not other" in other.stderr
    other = run("--rdzv-backend=c10d", endpoint, "--rdzv-id=test", "--nnodes=1:5", "--rdzv-conf=is_host=0", run_.work)
    assert other.returncode == 76 and "--nnodes=1:2, not 1:5" in other.stderr
    assert run_.finish() == [0]


def test_an_unanswered_endpoint_is_one_error_line(tmp_path):
    done = run("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}",
               "--rdzv-conf=join_timeout=0.3,is_host=0", "--nnodes=2", "--no-python", "/bin/true")
    assert done.returncode == 69
    assert len(done.stderr.splitlines()) == 1 and "did not answer" in done.stderr


@pytest.mark.parametrize("logs", [(), ("-r3",), ("-r3", "--log-dir={tmp}/logs")])
def test_a_waiting_agent_reports_its_endpoint_and_leaves_no_files(tmp_path, logs):
    (tmp_path / "logs").mkdir()
    agent = start("--rdzv-backend=c10d", "--rdzv-endpoint=no-such-host.invalid:29400", "--nnodes=2", "--no-python",
                  *(option.format(tmp=tmp_path) for option in logs), "/bin/true", env={"TMPDIR": str(tmp_path)})
    said = wait_for_words(agent, "(--rdzv-conf=join_timeout)\n")
    assert "cannot reach the run at no-such-host.invalid:29400 yet: " in said and "keeps trying for 600 s" in said
    agent.terminate()
    assert "ended by signal 15 (SIGTERM)" in agent.communicate(timeout=DEADLINE)[1] and agent.returncode == 143
    assert [*tmp_path.rglob("*")] == [tmp_path / "logs"]


def test_another_program_at_the_endpoint_is_not_reported_as_an_agent():
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = run("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{other.getsockname()[1]}", "--nnodes=2",
                   "--rdzv-conf=heartbeat_timeout=0.3", "--no-python", "/bin/true")
    assert done.returncode == 69 and "the agent at" not in done.stderr
    assert "sent no message of an agent for 0.3 s: it is another program" in done.stderr
    assert done.stderr.endswith("giving another --rdzv-endpoint\n")


def test_too_few_nodes_end_at_the_join_timeout(tmp_path):
    done = run("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-conf=join_timeout=0.3", "--nnodes=2",
               "--no-python", "/bin/true")
    assert done.returncode == 69 and "only 1 of at least 2 nodes joined within 0.3 s" in done.stderr


def test_no_process_is_left_when_the_coordinators_agent_is_killed(nodes):
    run_ = nodes("--nnodes=1:2", "--rdzv-conf=last_call_timeout=600")
    run_.start()
    run_.start()
    told = run_.generation(1, 2)
    next(a for a in run_.agents if a.pid == told[0]["agent"]).kill()
    codes = sorted(agent.wait(timeout=DEADLINE) for agent in run_.agents)
    assert codes == [-9, 69]
    end = time.monotonic() + DEADLINE
    while living_in_sessions_with(str(run_.work)):  # the kernel kills a killed agent's workers when it gets to it
        assert time.monotonic() < end


class Peer:
    """The peer of an agent; it sends what the test chooses."""

    def __init__(self, connection, secret, server):
        self.connection = connection
        connection.settimeout(DEADLINE)
        self.sealed = Sealed(connection, secret.read_text().strip(), server)

    def say(self, **message):
        self.sealed.say(json.dumps({"beat": 0, "settled": 0, **message}).encode())

    def hear(self):
        """The next message; None where the agent is gone."""
        with contextlib.suppress(ConnectionResetError):
            text = self.sealed.hear()
            return json.loads(text if text[:1] in b"{n" else zlib.decompress(text))  # a world's nodes are told packed
        return None


@pytest.fixture
def coordinator(tmp_path):
    """Starts an agent with the test as its coordinator. Returns the agent, the peer and the node that the agent reported."""
    secret = secret_file(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def begin(**env):
            agent = start("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{listener.getsockname()[1]}",
                          f"--rdzv-conf=is_host=false,join_timeout=60,secret={secret}", f"--log-dir={tmp_path / 'logs'}",
                          tmp_path / "none.py", env=env)
            peer = Peer(listener.accept()[0], secret, server=True)
            return agent, peer, peer.hear()["newcomer"]["node"]
        yield begin
    end_all()


NOTHING = {"number": 0, "nonce": "", "restarts": 0, "group_rank": 0, "world": [], "address": "", "port": 0, "run": "",
           "coordinator": 0, "unsettled": []}
CAUSE = {"kind": 0, "host": "there", "group_rank": 0, "rank": 0, "local_rank": 0, "pid": 1, "exit_code": 3, "signal": 0, "message": "",
         "error_file": "", "age": 0}
BEGIN, END, WORLD = 2, 4, 5


def test_a_coordinator_cannot_make_an_agent_read_a_local_file(coordinator, tmp_path):
    secret, handed = tmp_path / "secret", tmp_path / "handed.json"
    secret.write_text('{"message": "of this user alone"}')
    agent, peer, _ = coordinator(TORCHELASTIC_ERROR_FILE=str(handed))
    peer.say(order=END, generation=NOTHING, reason="", exit_code=3, outcome="", cause={**CAUSE, "error_file": str(secret)})
    assert agent.wait(timeout=DEADLINE) == 3
    assert not handed.exists()


def test_control_characters_of_a_coordinator_are_not_printed(coordinator):
    agent, peer, _ = coordinator()
    peer.say(order=END, generation=NOTHING, reason="", exit_code=3, outcome="red \x1b[31m \x9b31m",
             cause={**CAUSE, "host": "\x1b[2J", "message": "\x1b]0;title\x07", "error_file": "/tmp/\x1b[2J\n"})
    errors = agent.communicate(timeout=DEADLINE)[1]
    assert "red ?[31m ?31m" in errors and "try reading /tmp/?[2J?" in errors
    assert not set(errors.strip("\n")) & {"\x1b", "\x07", "\x9b", "\n"}, errors


@pytest.mark.parametrize("place", [7, 1], ids=["beyond the world", "another node's"])
def test_a_generation_without_this_agent_is_one_error_line(coordinator, place):
    agent, peer, own = coordinator()
    host, address, _, role, port = own
    world = [own, [host, address, 3, role, port]]
    peer.say(order=BEGIN, generation={**NOTHING, "number": 1, "group_rank": place, "world": world, "address": "127.0.0.1", "port": 4711},
             reason="", exit_code=0, outcome="")
    errors = agent.communicate(timeout=DEADLINE)[1]
    assert agent.returncode == 69
    assert "is not a rollcall agent of this version" in errors and errors.count("\n") == 1, errors


def test_a_peer_that_sends_millions_of_frames_does_not_block_the_run(nodes):
    run_ = nodes("--nnodes=2", "--rdzv-conf=heartbeat_timeout=5,join_timeout=60")
    host, port = run_.options[1].rpartition("=")[2].split(":")
    run_.start()
    end = time.monotonic() + DEADLINE
    while True:
        try:
            stranger = socket.create_connection((host, int(port)), timeout=DEADLINE)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
    with stranger, contextlib.suppress(ConnectionError, BrokenPipeError):
        stranger.sendall(bytes(8 << 20))  # two million empty messages
    run_.start()
    run_.generation(1, 2)
    assert run_.finish() == [0, 0]


def test_control_characters_of_a_node_name_are_not_printed(nodes, tmp_path):
    secret = secret_file(tmp_path)
    run_ = nodes("--nnodes=1:2", f"--rdzv-conf=last_call_timeout=0,heartbeat_timeout=60,secret={secret}")
    agent = run_.start()
    run_.generation(1, 1)
    host, port = run_.options[1].rpartition("=")[2].split(":")
    peer = Peer(socket.create_connection((host, int(port))), secret, server=False)
    node = ["\x1b[2J\n\x9bJ", "127.0.0.1", 1, "default", 4712]
    newcomer = {"run_id": "test", "min_nodes": 1, "max_nodes": 2, "heartbeat_timeout": 60000, "node": node}
    peer.say(report=0, generation=0, port=4711, causes=[], newcomer=newcomer)
    while (order := peer.hear())["order"] != WORLD or len(order["generation"]["world"]) < 2:
        pass
    assert order["generation"]["world"][1] == node
    shown = subprocess.run([ROLLCALL, "run", "--status"], capture_output=True, text=True, timeout=DEADLINE).stdout
    assert "?[2J??J" in shown and not set(shown) & {"\x1b", "\x9b"}, shown
    peer.connection.close()
    run_.generation(3, 1)
    (run_.folder / "go").write_text("")
    errors = agent.communicate(timeout=DEADLINE)[1]
    assert "because ?[2J??J joined" in errors and not set(errors) & {"\x1b", "\x9b"}, errors
