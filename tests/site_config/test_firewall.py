"""site_config/rollcall-firewall.nft, loaded into a network namespace: which connections it lets through."""
import os
import pathlib
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))

# Two hosts: the node, and one that is a compute node by only one of its addresses. Prints which source reaches which port.
SCRIPT = r"""
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
unshare --net sleep infinity &
other=$!
trap 'kill $other' EXIT
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link add node type veth peer name other netns $other
ip addr add 10.77.0.1/8 dev node
ip link set node up
on_other() { nsenter --target $other --net -- "$@"; }
on_other ip link set lo up
on_other ip link set other up
on_other ip addr add 10.77.0.2/8 dev other
on_other ip addr add 10.99.0.2/8 dev other
nft -f "$0"
nft -f "$0"  # once more, as after an edit
ask() { python3 -c '
import socket, sys
source, target, port = sys.argv[1:]
try:
    socket.create_connection((target, int(port)), timeout=30, source_address=(source, 0))
    print(source, port, "open")
except ConnectionRefusedError:
    print(source, port, "closed")
' "$@"; }
export -f ask
exec {ready}< <(exec python3 -c '
import select, socket, sys
listeners = [socket.create_server(("", port)) for port in (22, 20000, 40000)]
print("ready", flush=True)
select.select([], [], [])')
server=$!
trap 'kill $other $server' EXIT
read -r _ <&$ready
for port in 22 20000 40000; do
  ask 10.77.0.1 10.77.0.1 $port
  for source in 10.77.0.2 10.99.0.2; do on_other bash -c 'ask "$@"' - $source 10.77.0.1 $port; done
done
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nft", path="/usr/sbin:/usr/bin"), reason="needs root and nft")
def test_only_compute_nodes_reach_the_ports_of_a_training():
    if subprocess.run(["unshare", "--net", "nft", "list", "tables"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this kernel lets nobody make a network with a firewall here")
    done = subprocess.run(["unshare", "--net", "bash", "-c", SCRIPT, ROOT / "site_config" / "rollcall-firewall.nft"], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "10.77.0.1 22 open", "10.77.0.2 22 open", "10.99.0.2 22 open",
        "10.77.0.1 20000 open", "10.77.0.2 20000 open", "10.99.0.2 20000 closed",
        "10.77.0.1 40000 open", "10.77.0.2 40000 open", "10.99.0.2 40000 closed"]
