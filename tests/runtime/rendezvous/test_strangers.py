"""Another user who connects to the ports of a step receives nothing, and the step starts undisturbed."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

from common_fixtures import built
from minicluster import clean_environment

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(os.geteuid() != 0 or shutil.which("runuser") is None, reason="only root can be two users")]

PROTOCOL = b"rollcall sealed1"
# Sends to each port, on one connection each: nothing, an HTTP request, messages of older rollcall versions without
# authentication, an opening, an opening followed by random bytes, and an excessive length. Prints the answers.
STRANGER = r"""
import json, os, select, socket, sys
def frame(text):
    return len(text).to_bytes(4, "big") + text
protocol, ports, worlds = b"rollcall sealed1", json.loads(sys.argv[1]), json.loads(sys.argv[2])
said = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\0\x3f\0\0" + b"x" * 10000, protocol + os.urandom(32), protocol + os.urandom(4000),
        protocol + os.urandom(32) + frame(b"1\n2\nx"), frame(b'{"rank":1,"probe":false}') + frame(b'{"rank":1,"host":"forged"}')]
said += [frame(f"rollcall meeting 1\n{world}\n\n1\n2\nx".encode()) for world in worlds]
said += [frame(f'{{"step":"{world}","rank":1,"probe":false}}'.encode()) for world in worlds]
answers = {}
for port in ports:
    for text in said:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(text)
        answers[connection] = b""
print("ready", flush=True)
left = dict(answers)
while left and (ready := select.select(list(left), [], [], 20)[0]):
    for connection in ready:
        try:
            more = connection.recv(65536)
        except ConnectionError:
            more = b""
        answers[connection] += more
        if not more:
            del left[connection]
print(json.dumps([text.decode("latin-1") for text in answers.values()]))
"""


def listening_ports(program, variable):
    """Ports at which processes of this name with `variable` in their environment listen: others may belong to another test."""
    inodes = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == program and variable in (process / "environ").read_bytes().split(b"\0"):
                inodes |= {os.readlink(file)[8:-1] for file in (process / "fd").iterdir() if os.readlink(file).startswith("socket:")}
        except OSError:
            continue
    rows = [line.split() for table in ("/proc/net/tcp", "/proc/net/tcp6") for line in pathlib.Path(table).read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes}


def until(what, process):
    while not (found := what()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return found


@pytest.fixture
def attacked(cluster, tmp_path):
    """Runs `program` as a step of two tasks, the second of which starts after another user has connected to all ports of the first."""

    started = []

    def run(name, program, *options, env):
        go = tmp_path / "go"
        late = f'[ "$SLURM_PROCID" = 0 ] || until [ -e {go} ]; do sleep 0.05; done; exec "$@"'
        command = [str(cluster.program), f"--dir={cluster.folder}", "run", "srun", "-N2", "-n2", *options, "bash", "-c", late, "task",
                   *program]
        step = subprocess.Popen(command, env={**clean_environment(), **env, "XDG_STATE_HOME": str(tmp_path)}, text=True,
                                cwd="/tmp", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(step)
        ports = sorted(until(lambda: listening_ports(name, f"XDG_STATE_HOME={tmp_path}".encode()), step))
        jobs = cluster.run("squeue", "--noheader", "--steps", "--format=%i").stdout.split()
        worlds = [job.replace(".", "-") + "-0" for job in jobs]
        stranger = subprocess.Popen(["runuser", "-u", "nobody", "--", "/usr/bin/python3", "-c", STRANGER, json.dumps(ports), json.dumps(worlds)],
                                    text=True, stdout=subprocess.PIPE)
        assert stranger.stdout.readline() == "ready\n"
        go.touch()
        out, err = step.communicate(timeout=60)
        assert step.returncode == 0, out + err
        answers = json.loads(stranger.stdout.readline())
        stranger.wait()
        assert worlds and len(answers) >= 9 * len(ports)
        for text in answers:
            assert text == "" or (text.encode("latin-1").startswith(PROTOCOL) and len(text) == 48), "more than an opening"
        return out

    yield run
    for step in started:
        step.kill()
        step.communicate()


@pytest.mark.parametrize("rendezvous", ["address", "pmix", "file", "auto"])
def test_another_user_receives_nothing_and_the_ranks_meet(attacked, cluster, tmp_path, rendezvous):
    mpi = "pmix" if rendezvous == "pmix" else "none"
    if mpi not in cluster.run("srun", "--mpi=list").stdout + cluster.run("srun", "--mpi=list").stderr:
        pytest.skip(f"this Slurm has no --mpi={mpi}")
    met = tmp_path / "met"
    met.mkdir()
    attacked("meet_in_step", [str(built("tests/meet_in_step")), str(met)], "--ddp", f"--mpi={mpi}",
             env={"ROLLCALL_RENDEZVOUS": rendezvous, "ROLLCALL_RENDEZVOUS_FOLDER": str(tmp_path)})
    lines = [file.read_text().split() for file in met.glob("*.met")]
    assert sorted(line[:2] for line in lines) == [["0", "2"], ["1", "2"]]
    assert len({tuple(line[2:4]) for line in lines}) == 1, "one world"


def test_another_user_receives_nothing_from_a_program_of_the_trainer(attacked):
    """All that join the ranks of a step as rollcall-train does."""
    bench = built("trainer/rollcall-bench-collectives")
    out = attacked(bench.name[:15], [str(bench), "--backend=gloo", "--max-bytes=1024", "--iterations=1", "--json"], "--ddp",
                   env={"OMP_NUM_THREADS": "1"})
    assert json.loads(out.splitlines()[0])["ranks"] == 2


def test_another_user_cannot_forge_a_doctor_report(attacked, rollcall):
    out = attacked("rollcall", [str(rollcall), "doctor", "--json", "--only=answer"], "--ddp", env={})
    report = json.loads(out[out.index("{"):])
    assert report["verdict"] == "good" and "forged" not in out and not re.search("did not answer", out)


def test_the_doctor_reports_ranks_with_different_secrets(cluster, rollcall, tmp_path):
    """As on nodes that share no HOME, started without srun --ddp."""
    script = f'export XDG_STATE_HOME={tmp_path}/$SLURM_PROCID; exec {rollcall} doctor --json --only=answer --rendezvous-timeout=3'
    result = cluster.run("srun", "-N2", "-n2", "--label", "bash", "-c", script, check=False)
    zero = json.loads("".join(line[3:] for line in result.stdout.splitlines() if line.startswith("0: ")))
    (secret,) = [finding for finding in zero["findings"] if "secret" in finding["reason"]]
    assert secret["status"] == "bad" and "does not know the secret (rendezvous.secret)" in secret["reason"]
    assert "srun --ddp" in secret["action"] and "rendezvous.secret" in secret["action"]
    assert "1: rollcall: doctor: " in result.stderr and "does not know this step's secret (rendezvous.secret)" in result.stderr
