"""`rollcall run` on three hosts whose network loses packets or is partitioned: never two worlds that train at once, never a hang."""
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from common_fixtures import built
from minicluster import poll

pytestmark = [pytest.mark.slurm, pytest.mark.long]

PATIENCE = 240  # for what takes some ten seconds on a machine that does nothing else

# Adds up until the file `go` is there, and notes each sum: when, in which generation, of how many ranks.
PROGRAM = """
    import datetime, os, sys, time
    import torch, torch.distributed as dist
    folder, host = sys.argv[1], os.uname().nodename
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    with open(f"{folder}/{host}.log", "a", buffering=1) as log:
        while True:
            begun = time.time()
            value = torch.tensor([1, int(os.path.exists(f"{folder}/go"))])
            dist.all_reduce(value)
            log.write(f"{begun} {time.time()} {os.environ['ROLLCALL_GENERATION']} {value[0].item()}\\n")
            if value[1].item() > 0:
                break
            time.sleep(0.02)
"""


class Hosts:
    """A run of one agent on each of three hosts, jwb0001 with the rendezvous."""

    def __init__(self, network, folder, *options, program=None, conf=""):
        self.network, self.folder = network, folder
        folder.mkdir(exist_ok=True)
        script = folder / "train.py"
        script.write_text(textwrap.dedent(PROGRAM))
        self.options = ["--rdzv-backend=c10d", "--rdzv-endpoint=10.78.0.1:29400", "--rdzv-id=test",
                        f"--rdzv-conf=join_timeout=200,last_call_timeout=200{conf}", "--nproc-per-node=1", *options]
        self.program = program or [str(script), str(folder)]
        self.agents = {}

    def start(self, number):
        outputs = [open(self.folder / f"{number}.{name}", "a") for name in ("out", "err")]
        environment = {**os.environ, "PYTHON_EXEC": sys.executable, "GLOO_SOCKET_IFNAME": "ib0", "OMP_NUM_THREADS": "1"}
        self.agents[number] = subprocess.Popen(
            [self.network.program, f"--dir={self.network.folder}", "on", f"jwb000{number}", built("runtime/rollcall"), "run",
             *self.options, f"--local-addr=10.78.0.{number}", *self.program], env=environment, stdout=outputs[0], stderr=outputs[1])
        for output in outputs:
            output.close()

    def start_all(self):
        for number in (1, 2, 3):
            self.start(number)
        self.wait_for_sums(3)

    def text(self):
        return "".join(path.read_text() for path in sorted(self.folder.glob("[0-9].*")))

    def sums(self):
        """(begun, ended, generation, ranks) of all hosts, as they ended."""
        lines = [line.split() for path in self.folder.glob("jwb*.log") for line in path.read_text().splitlines()]
        return sorted(((float(of[0]), float(of[1]), int(of[2]), int(of[3])) for of in lines if len(of) == 4), key=lambda of: of[1])

    def wait_for_sums(self, ranks, after=0.0):
        """Until some host has added up among so many after that time, twice."""
        end = time.monotonic() + PATIENCE
        while len([of for of in self.sums() if of[0] > after and of[3] == ranks]) < 2:
            assert time.monotonic() < end, self.text()
            time.sleep(0.02)

    def code(self, number):
        return self.agents[number].wait(timeout=PATIENCE)

    def finish(self):
        (self.folder / "go").write_text("")

    def check_one_world_at_a_time(self):
        """A sum takes part in one world: whatever was added up in a later generation began after the last sum of an earlier one had."""
        sums = self.sums()
        for begun, _, generation, _ in sums:
            assert all(ended > begun for _, ended, of, _ in sums if of > generation), (generation, begun)

    def close(self):
        for agent in self.agents.values():
            if agent.poll() is None:
                agent.send_signal(signal.SIGKILL)
                agent.wait()


@pytest.fixture
def hosts(network, tmp_path):
    pytest.importorskip("torch")
    made = []

    def make(*options, **more):
        made.append(Hosts(network, tmp_path / str(len(made)), *options, **more))
        return made[-1]

    yield make
    for run in made:
        run.close()


def on(network, number, *command):
    network.script("on", f"jwb000{number}", *command)


class Cut:
    """Drops all packets between two hosts without an error to either."""

    def __init__(self, network, *pairs):
        self.network, self.pairs = network, [*pairs, *(pair[::-1] for pair in pairs)]

    def __enter__(self):
        for number, other in self.pairs:
            nobody = ("lladdr", "02:00:00:00:00:fe", "dev", "ib0", "nud", "permanent")
            on(self.network, number, "ip", "neigh", "replace", f"10.78.0.{other}", *nobody)

    def __exit__(self, *_):
        for number, other in self.pairs:
            on(self.network, number, "ip", "neigh", "del", f"10.78.0.{other}", "dev", "ib0")


@pytest.fixture
def lossy(network):
    """One of ten packets that arrive at a host is thrown away."""
    if not shutil.which("nft"):
        pytest.skip("nft is not installed")
    for number in (1, 2, 3):
        on(network, number, "nft", "add table inet lossy; add chain inet lossy input { type filter hook input priority 0; }; "
           "add rule inet lossy input iifname ib0 numgen random mod 10 0 counter drop")
    yield lambda: sum(int(line.split("packets ")[1].split()[0]) for number in (1, 2, 3)
                      for line in network.script("on", f"jwb000{number}", "nft", "list", "ruleset").stdout.splitlines() if "packets" in line)
    for number in (1, 2, 3):
        on(network, number, "nft", "delete table inet lossy")


def test_the_run_finishes_with_ten_percent_packet_loss(hosts, lossy):
    run = hosts("--nnodes=2:3", "--max-restarts=20", conf=",heartbeat_timeout=10")  # also beside a load
    run.start_all()
    poll(lambda: len(run.sums()) >= 60, "sixty sums", PATIENCE)
    run.finish()
    codes = [run.code(number) for number in (1, 2, 3)]
    assert codes[0] == 0 and set(codes) <= {0, 69}, run.text()
    assert lossy() > 20
    run.check_one_world_at_a_time()


def test_the_run_continues_when_the_coordinators_host_is_cut_off(hosts, network):
    run = hosts("--nnodes=1:3", "--max-restarts=20")
    run.start_all()
    with Cut(network, (1, 2), (1, 3)):
        cut = time.time()
        assert run.code(1) == 69  # alone, though --nnodes would let it go on
        run.wait_for_sums(2, after=cut)
    run.finish()
    assert [run.code(2), run.code(3)] == [0, 0], run.text()
    assert {of[3] for of in run.sums()} == {3, 2}
    run.check_one_world_at_a_time()


def test_a_host_that_loses_only_the_coordinator_ends_and_others_continue(hosts, network):
    run = hosts("--nnodes=1:3", "--max-restarts=20")
    run.start_all()
    with Cut(network, (1, 3)):
        cut = time.time()
        run.wait_for_sums(2, after=cut)
        assert run.code(3) == 69, run.text()
    run.finish()
    assert [run.code(1), run.code(2)] == [0, 0], run.text()
    run.check_one_world_at_a_time()


def test_training_continues_when_a_host_becomes_silent(hosts, network, tmp_path, rollcall_train):
    """As after a power loss: no connection is closed. The host has rank 0, the store and the coordinator."""
    folder = tmp_path / "training"
    folder.mkdir()
    settings = ["--data=fake", "--model=resnet20", "--image-size=32", "--batch-size=4", "--num-classes=10", "--fake-size=200",
                "--train-num-workers=1",
                "--valid-num-workers=1", "--progress=none", "--log-steps=1", "--checkpoint-epochs=0", "--valid-epochs=0", "--rank-seconds=0",
                "--report=off", "--lr=0.001", "--backend=gloo", "--index-dir=none", f"--checkpoint-dir={folder}", f"--run-dir={folder}",
                "--max-steps=100000", "--epochs=100000"]
    run = hosts("--nnodes=1:3", "--max-restarts=20", "--no-python", program=[str(rollcall_train), "--elastic", *settings])

    def records(event):
        lines = (folder / "metrics.jsonl").read_text().splitlines() if (folder / "metrics.jsonl").exists() else []
        return [record for record in map(json.loads, (line for line in lines if line.endswith("}"))) if record["event"] == event]

    for number in (1, 2, 3):
        run.start(number)
    poll(lambda: len(records("step")) >= 5, "five steps", PATIENCE)
    with Cut(network, (1, 2), (1, 3)):
        cut = time.time()
        poll(lambda: records("regrouped"), "the others' next step", PATIENCE)
        [told] = records("regrouped")
        assert told["ranks"] == 2 and told["time"] > cut, told
        assert run.code(1) == 69
    for number in (3, 2):  # of two nodes, the one without the coordinator first
        run.agents[number].send_signal(signal.SIGTERM)
    assert {run.code(number) for number in (2, 3)} <= {0, 69, 75, 143}, run.text()
    steps = [record["step"] for record in records("step")]
    assert len(set(range(1, max(steps) + 1)) - set(steps)) <= 1 and "resumed from" not in run.text()  # rank 0 may not have told of its last


def test_the_run_fails_when_two_hosts_cannot_reach_each_other(hosts, network):
    """No agent detects it: the program's own timeout ends the run."""
    run = hosts("--nnodes=3", "--max-restarts=1")
    run.start_all()
    with Cut(network, (2, 3)):
        codes = [run.code(number) for number in (1, 2, 3)]
    assert 0 not in codes and run.text().count("rollcall: run: rank") >= 1, run.text()
    run.check_one_world_at_a_time()
