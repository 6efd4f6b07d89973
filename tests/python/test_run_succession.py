"""`rollcall run` when the agent that holds the rendezvous is lost: the others go on without it, and never twice."""
import json
import signal
import subprocess
import time

import pytest

from agents import DEADLINE, ROLLCALL

pytestmark = pytest.mark.skipif(not ROLLCALL.exists(), reason=f"{ROLLCALL} is not built")


def of_rank(run_, told, rank):
    return next(agent for agent in run_.agents if agent.pid == told[rank]["agent"])


def three(nodes, *options, conf="heartbeat_timeout=0.5"):
    """A run of three nodes, its first the coordinator: it, the run and what its workers were told."""
    run_ = nodes("--nnodes=1:3", f"--rdzv-conf=last_call_timeout=600,{conf}", *options)
    run_.start()
    run_.start()
    run_.start()
    told = run_.generation(1, 3)
    return of_rank(run_, told, 0), run_, told


def status_of(agent):
    runs = json.loads(subprocess.run([ROLLCALL, "run", "--status", "--json"], capture_output=True, text=True, check=True,
                                     timeout=DEADLINE).stdout)
    return next(run for run in runs if run["pid"] == agent.pid)


def wait_until(holds):
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_others_go_on_when_the_coordinators_agent_is_killed(nodes):
    coordinator, run_, first = three(nodes)
    coordinator.kill()
    told = run_.generation(3, 2)
    assert told[0]["MASTER_PORT"] != first[0]["MASTER_PORT"]
    assert coordinator.pid not in {t["agent"] for t in told}
    successor = of_rank(run_, told, 0)
    assert successor.pid == first[1]["agent"], "the next by group rank"
    assert sorted(run_.finish()) == [-9, 0, 0]
    assert "which held the rendezvous, was lost: the others meet at" in successor.communicate()[1]


def test_the_others_go_on_when_the_coordinators_agent_is_told_to_end(nodes):
    coordinator, run_, _ = three(nodes)
    coordinator.send_signal(signal.SIGTERM)
    told = run_.generation(3, 2)
    assert coordinator.pid not in {t["agent"] for t in told}
    assert sorted(run_.finish()) == [0, 0, 128 + signal.SIGTERM]


def test_a_coordinator_that_was_stopped_and_goes_on_is_none_any_longer(nodes):
    """As after a partition: two would train, if it went on with itself."""
    coordinator, run_, first = three(nodes)
    coordinator.send_signal(signal.SIGSTOP)
    run_.generation(3, 2)
    coordinator.send_signal(signal.SIGCONT)
    assert coordinator.wait(timeout=DEADLINE) == 69
    assert "as many nodes are silent as could have gone on without this one" in coordinator.communicate()[1]
    assert not list(run_.folder.glob("2.*")) and len(list(run_.folder.glob("3.*.json"))) == 2
    (run_.folder / "go").write_text("")
    assert sorted(agent.wait(timeout=DEADLINE) for agent in run_.agents if agent is not coordinator) == [0, 0]


def test_one_after_the_other_to_the_last(nodes):
    """The second loss leaves one of two, which is no majority."""
    coordinator, run_, _ = three(nodes)
    coordinator.kill()
    told = run_.generation(3, 2)
    of_rank(run_, told, 0).kill()
    last = of_rank(run_, told, 1)
    assert last.wait(timeout=DEADLINE) == 69
    assert last.communicate()[1].count("\n") == 1


def test_two_lost_at_once_leave_no_majority_of_three(nodes):
    coordinator, run_, told = three(nodes)
    other, last = of_rank(run_, told, 1), of_rank(run_, told, 2)
    for agent in (coordinator, other):
        agent.send_signal(signal.SIGSTOP)
    assert last.wait(timeout=DEADLINE) == 69
    assert "1 of 3 nodes came together again: more than half must" in last.communicate()[1]
    for agent in (coordinator, other):
        agent.send_signal(signal.SIGCONT)  # in time for each other, or not
    (run_.folder / "go").write_text("")
    codes = [agent.wait(timeout=DEADLINE) for agent in (coordinator, other)]
    assert set(codes) <= {0, 69}


def test_killed_members_leave_the_coordinator_alone_to_go_on(nodes):
    """It knows of killed ones that they go on with nobody; of silent ones it would not."""
    coordinator, run_, told = three(nodes, conf="heartbeat_timeout=20")
    wait_until(lambda: status_of(coordinator)["generation"].get("confirmed"))
    of_rank(run_, told, 1).kill()
    of_rank(run_, told, 2).kill()
    (run_.folder / "go").write_text("")
    assert coordinator.wait(timeout=DEADLINE) == 0


def test_a_spare_steps_in_for_the_coordinator(nodes):
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


def test_a_newcomer_finds_the_run_at_its_new_place(nodes):
    coordinator, run_, _ = three(nodes)
    coordinator.kill()
    told = run_.generation(3, 2)
    place = status_of(of_rank(run_, told, 1))["rendezvous"]
    run_.start(f"--rdzv-endpoint={place}")
    run_.generation(4, 3)
    assert sorted(run_.finish()) == [-9, 0, 0, 0]
