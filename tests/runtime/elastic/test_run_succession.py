"""`rollcall run` when the agent that holds the rendezvous is lost: the others continue without it, and never as two runs."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import threading

import pytest

from agents import DEADLINE, ROLLCALL, wait_until

pytestmark = [pytest.mark.python, pytest.mark.skipif(not ROLLCALL.exists(), reason=f"{ROLLCALL} is not built")]


def of_rank(run_, told, rank):
    return next(agent for agent in run_.agents if agent.pid == told[rank]["agent"])


# For tests in which no node falls silent: nothing else than a busy machine could use that time up.
PATIENT = "heartbeat_timeout=5"


def three(nodes, *options, conf="heartbeat_timeout=0.5"):
    """A run of three nodes, the first being coordinator: it, the run, and the environments of its workers."""
    run_ = nodes("--nnodes=1:3", f"--rdzv-conf=last_call_timeout=600,{conf}", *options)
    run_.start()
    run_.start()
    run_.start()
    told = run_.generation(1, 3)
    return of_rank(run_, told, 0), run_, told


def status_of(agent):
    runs = json.loads(subprocess.run([ROLLCALL, "run", "--status", "--json"], capture_output=True, text=True, check=True,
                                     timeout=DEADLINE).stdout)
    return next((run for run in runs if run["pid"] == agent.pid), {})


def test_the_others_continue_when_the_coordinators_agent_is_killed(nodes):
    coordinator, run_, first = three(nodes, conf=PATIENT)
    coordinator.kill()
    told = run_.generation(3, 2)
    assert told[0]["MASTER_PORT"] != first[0]["MASTER_PORT"]
    assert coordinator.pid not in {t["agent"] for t in told}
    successor = of_rank(run_, told, 0)
    assert successor.pid == first[1]["agent"], "the next by group rank"
    assert sorted(run_.finish()) == [-9, 0, 0]
    assert "does not respond; this agent replaces it and waits for the other nodes at" in successor.communicate()[1]


def test_the_others_continue_when_the_coordinators_agent_gets_sigterm(nodes):
    coordinator, run_, _ = three(nodes, conf=PATIENT)
    coordinator.send_signal(signal.SIGTERM)
    told = run_.generation(3, 2)
    assert coordinator.pid not in {t["agent"] for t in told}
    assert sorted(run_.finish()) == [0, 0, 128 + signal.SIGTERM]


def test_a_stopped_coordinator_ends_when_it_continues(nodes):
    """As after a partition: two worlds would train if it continued alone."""
    coordinator, run_, first = three(nodes)
    coordinator.send_signal(signal.SIGSTOP)
    run_.generation(3, 2)
    coordinator.send_signal(signal.SIGCONT)
    assert coordinator.wait(timeout=DEADLINE) == 69
    assert "the nodes that do not respond could have continued without this one" in coordinator.communicate()[1]
    assert not list(run_.folder.glob("2.*")) and len(list(run_.folder.glob("3.*.json"))) == 2
    (run_.folder / "go").write_text("")
    assert sorted(agent.wait(timeout=DEADLINE) for agent in run_.agents if agent is not coordinator) == [0, 0]


def test_the_last_of_two_nodes_ends_without_a_majority(nodes):
    """The second loss leaves one of two, which is no majority."""
    coordinator, run_, _ = three(nodes)
    coordinator.kill()
    told = run_.generation(3, 2)
    of_rank(run_, told, 0).kill()
    last = of_rank(run_, told, 1)
    assert last.wait(timeout=DEADLINE) == 69
    assert last.communicate()[1].count("\n") == 1


def test_two_of_three_nodes_lost_at_once_leave_no_majority(nodes):
    coordinator, run_, told = three(nodes)
    other, last = of_rank(run_, told, 1), of_rank(run_, told, 2)
    for agent in (coordinator, other):
        agent.send_signal(signal.SIGSTOP)
    assert last.wait(timeout=DEADLINE) == 69
    assert "1 of 3 nodes reconnected: more than half must" in last.communicate()[1]
    for agent in (coordinator, other):
        agent.send_signal(signal.SIGCONT)  # in time for each other, or not
    (run_.folder / "go").write_text("")
    codes = [agent.wait(timeout=DEADLINE) for agent in (coordinator, other)]
    assert set(codes) <= {0, 69}


def test_the_coordinator_continues_alone_after_all_members_are_killed(nodes):
    """It knows that killed members cannot continue elsewhere; silent ones could."""
    coordinator, run_, told = three(nodes, conf="heartbeat_timeout=20")
    wait_until(lambda: status_of(coordinator)["generation"].get("confirmed"))
    of_rank(run_, told, 1).kill()
    of_rank(run_, told, 2).kill()
    (run_.folder / "go").write_text("")
    assert coordinator.wait(timeout=DEADLINE) == 0


def test_a_waiting_successor_that_gets_sigterm_hands_over(nodes):
    run_ = nodes("--nnodes=1:5", "--rdzv-conf=last_call_timeout=600,heartbeat_timeout=1")
    for _ in range(5):
        run_.start()
    told = run_.generation(1, 5)
    coordinator, successor, absent = (of_rank(run_, told, rank) for rank in (0, 1, 4))
    absent.send_signal(signal.SIGSTOP)
    coordinator.kill()
    wait_until(lambda: status_of(successor).get("coordinator"))
    successor.send_signal(signal.SIGTERM)
    absent.send_signal(signal.SIGCONT)
    wait_until(lambda: any(json.loads(file.read_text())["WORLD_SIZE"] == "3" for file in run_.folder.glob("*.json")))
    assert sorted(run_.finish()) == [-9, 0, 0, 0, 128 + signal.SIGTERM]


def test_a_spare_replaces_a_lost_node_when_the_size_is_fixed(nodes):
    run_ = nodes("--nnodes=3", "--max-restarts=1", "--rdzv-conf=heartbeat_timeout=1")
    for _ in range(3):
        run_.start()
    told = run_.generation(1, 3)
    spare = run_.start()
    coordinator = of_rank(run_, told, 0)
    wait_until(lambda: status_of(coordinator)["spares"])
    spare.send_signal(signal.SIGSTOP)
    coordinator.kill()
    wait_until(lambda: status_of(of_rank(run_, told, 1)).get("coordinator"))
    spare.send_signal(signal.SIGCONT)
    assert spare.pid in {t["agent"] for t in run_.generation(3, 3)}
    assert sorted(run_.finish()) == [-9, 0, 0, 0]


def test_a_spare_replaces_the_coordinators_node(nodes):
    run_ = nodes("--nnodes=1:3", "--rdzv-conf=last_call_timeout=600,heartbeat_timeout=0.5")
    for _ in range(3):
        run_.start()
    told = run_.generation(1, 3)
    spare = run_.start()
    coordinator = of_rank(run_, told, 0)
    wait_until(lambda: status_of(coordinator)["spares"])
    coordinator.kill()
    wait_until(lambda: spare.pid in {json.loads(file.read_text())["agent"] for file in run_.folder.glob("[345].*.json")})
    assert sorted(run_.finish()) == [-9, 0, 0, 0]


def test_a_new_agent_joins_at_the_new_rendezvous_endpoint(nodes):
    coordinator, run_, _ = three(nodes, conf=PATIENT)
    coordinator.kill()
    told = run_.generation(3, 2)
    place = status_of(of_rank(run_, told, 1))["rendezvous"]
    run_.start(f"--rdzv-endpoint={place}")
    run_.generation(4, 3)
    assert sorted(run_.finish()) == [-9, 0, 0, 0]


class Forwarder:
    """Passes connections on to a port of this host until it is cut: both ends see theirs end."""

    def __init__(self, port):
        self.listener, self.port, self.open = socket.create_server(("127.0.0.1", 0)), port, []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.port))
                self.open += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    def carry(self, one, other):
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                other.sendall(piece)

    def cut(self):
        self.listener.close()
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def test_cut_connections_do_not_split_the_run(nodes):
    """No process has ended, though all see their connections end."""
    run_ = nodes("--nnodes=1:3", "--rdzv-conf=last_call_timeout=600,heartbeat_timeout=5")
    coordinator = run_.start()
    wait_until(lambda: status_of(coordinator))
    forwarder = Forwarder(int(run_.options[1].rpartition(":")[2]))
    for _ in range(2):
        run_.start(f"--rdzv-endpoint=127.0.0.1:{forwarder.listener.getsockname()[1]}", "--rdzv-conf=is_host=false,heartbeat_timeout=5")
    run_.generation(1, 3)
    wait_until(lambda: status_of(coordinator)["generation"].get("confirmed"))
    forwarder.cut()
    assert coordinator.wait(timeout=DEADLINE) == 69
    run_.generation(3, 2)
    assert not list(run_.folder.glob("2.*"))
    assert sorted(run_.finish()) == [0, 0, 69]


def test_the_coordinator_continues_alone_after_members_get_sigterm(nodes):
    coordinator, run_, told = three(nodes, conf=PATIENT)
    for rank in (1, 2):
        of_rank(run_, told, rank).send_signal(signal.SIGTERM)
    wait_until(lambda: any(json.loads(file.read_text())["WORLD_SIZE"] == "1" for file in run_.folder.glob("*.0.json")))
    assert sorted(run_.finish()) == [0, 128 + signal.SIGTERM, 128 + signal.SIGTERM]
    assert coordinator.returncode == 0


def test_an_agent_with_another_heartbeat_timeout_is_refused(nodes):
    run_ = nodes("--nnodes=2", "--rdzv-conf=heartbeat_timeout=2")
    first = run_.start()
    wait_until(lambda: status_of(first).get("coordinator"))
    other = run_.start("--rdzv-conf=heartbeat_timeout=1")
    assert other.wait(timeout=DEADLINE) == 76
    assert "this run has --rdzv-conf=heartbeat_timeout=2, not 1" in other.communicate()[1]
    run_.start()
    run_.generation(1, 2)
    (run_.folder / "go").write_text("")


def test_long_messages_are_accepted_during_succession(nodes):
    """As with the names of a hundred nodes."""
    coordinator, run_, _ = three(nodes, f"--role={'r' * 3000}", conf=PATIENT)
    coordinator.kill()
    run_.generation(3, 2)
    assert sorted(run_.finish()) == [-9, 0, 0]


@pytest.mark.parametrize("last", [{"number": 1000, "world": []}, {"number": 2**31}])
def test_a_foreign_connection_at_a_member_does_not_block_succession(nodes, last):
    coordinator, run_, told = three(nodes)
    member = of_rank(run_, told, 1)
    node = ["stranger", "127.0.0.1", 1, "default", 1]
    generation = {"number": 0, "nonce": "", "restarts": 0, "group_rank": 0, "world": [node], "address": "", "port": 0,
                  "run": told[1]["ROLLCALL_RUN"],
                  "coordinator": 0, "unsettled": [], **last}
    text = json.dumps({"report": 0, "generation": 0, "beat": 0, "port": 1, "causes": [],
                       "newcomer": {"run_id": "test", "min_nodes": 1, "max_nodes": 3, "heartbeat_timeout": 500, "node": node,
                                    "last": generation}}).encode()
    with contextlib.ExitStack() as strangers:
        for port in listening_ports(member.pid):
            stranger = strangers.enter_context(socket.create_connection(("127.0.0.1", port)))
            stranger.sendall(len(text).to_bytes(4, "big") + text)
        coordinator.kill()
        wait_until(lambda: list(run_.folder.glob("[3-9].*.json")))
    assert sorted(run_.finish()) == [-9, 0, 0]


def listening_ports(pid):
    """TCP ports at which a process listens."""
    inodes = set()
    for link in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(link.path).removeprefix("socket:[").removesuffix("]"))
    rows = [row.split() for name in ("tcp", "tcp6") for row in open(f"/proc/{pid}/net/{name}").read().splitlines()[1:]]
    ports = [int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes]
    assert ports
    return ports
