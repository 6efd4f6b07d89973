"""With log=syslog in plugstack.conf, syslog has one line for each step of srun --ddp, and no step is blocked by logging."""

import os
import re
import socket

import pytest

from minicluster import Minicluster, poll
from test_no_drain import check_nodes

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a node a /dev of its own")]

# A /dev with what the host's has that matters to steps, and the log's socket.
OWN_DEV = """set -e
log=$1; shift
new=$(mktemp -d); mount -t tmpfs none $new
for name in null zero full random urandom tty; do touch $new/$name; mount --bind /dev/$name $new/$name; done
mkdir $new/shm; chmod 1777 $new/shm; ln -s /proc/self/fd $new/fd; ln -s "$log" $new/log
mount --move $new /dev; rmdir $new
exec "$@"
"""


class Log:
    """What a system's log listens at."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        path.chmod(0o666)
        self.socket.setblocking(False)

    def lines(self):
        found = []
        while True:
            try:
                found.append(self.socket.recv(65536).decode())
            except BlockingIOError:
                return found


@pytest.fixture(scope="module")
def logging(short_folder, plugin):
    """Two nodes of a site that logs steps; `log` is the first one's."""
    made = Minicluster(short_folder / "l", "--nodes=2", f"--plugin={plugin}").start()
    plugstack = made.folder / "etc" / "plugstack.conf"
    plugstack.write_text(plugstack.read_text().strip() + " log=syslog\n")
    made.log = Log(short_folder / "dev-log")
    own_dev = ["unshare", "--mount", "--propagation=private", "sh", "-c", OWN_DEV, "sh", str(short_folder / "dev-log")]
    for node in ("jwb0001", "jwb0002"):
        Minicluster(made.folder, prefix=own_dev).script("restart-node", node)
    yield made
    made.stop()


# All four tasks end by themselves: none is still starting when Slurm ends the others of the first that fails.
TOGETHER = "trap '' TERM; touch {folder}/$SLURM_PROCID; until [ $(ls {folder} | wc -l) = 4 ]; do sleep 0.01; done; {end}"


@pytest.mark.parametrize("end, code", [("true", 0), ("exit $((3 * (SLURM_PROCID == 1)))", 3), ("kill -9 $$", 137)])
def test_the_log_line_has_user_nodes_and_exit_code(logging, end, code):
    logging.log.lines()
    script = TOGETHER.format(folder=logging.new_folder(), end=end)
    step = logging.run("srun", "--ddp", "-N2", "--ntasks-per-node=2", "sh", "-c", script, check=False)
    assert (step.returncode == 0) == (code == 0), step.stderr
    line, *more = poll(logging.log.lines, "a line")
    assert re.fullmatch(r"<30>\w{3} [ \d]\d \d\d:\d\d:\d\d rollcall\[\d+\]: --ddp: user 0, step \d+\.0, 2 nodes "
                        rf"\(jwb\[0001-0002\]\), ended with {code}", line), line
    check_nodes(logging)
    assert more + logging.log.lines() == []


def test_a_step_without_rendezvous_is_logged_with_its_exit_code(logging):
    logging.log.lines()
    logging.run("srun", "--ddp", "-N2", "true", env={"RANK": "7"}, check=False)
    (line,) = poll(logging.log.lines, "a line")
    assert line.endswith("ended with 76")


def test_steps_without_ddp_are_not_logged(logging):
    logging.log.lines()
    logging.run("srun", "-N2", "true")
    logging.run("srun", "--ddp=off", "-N2", "true")
    logging.batch("#!/bin/bash\n#SBATCH --ddp\ntrue\n")
    logging.run("srun", "--ddp", "-N1", "-wjwb0001", "true")
    assert len(poll(logging.log.lines, "a line")) == 1


def test_a_full_or_missing_log_socket_does_not_block_steps(logging):
    full = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    full.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            full.sendto(b"full", logging.log.socket.getsockname())
    assert logging.run("srun", "--ddp", "-N2", "true").returncode == 0
    assert all(line == "full" for line in logging.log.lines())
    logging.log.socket.close()
    assert logging.run("srun", "--ddp", "-N2", "true").returncode == 0
    check_nodes(logging)
