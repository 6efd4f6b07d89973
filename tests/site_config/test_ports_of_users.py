"""The firewall rules for users who share nodes, as docs/administrator/shared_nodes.md has them: who may connect to whose ports."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[2]))

# The rules are those of the node here; the other one, to which users connect as well, has none.
SCRIPT = r"""
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
unshare --net sleep infinity &
other=$!
trap 'kill $other' EXIT
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link add node type veth peer name other netns $other
ip addr add 10.77.0.1/24 dev node
ip link set node up
nsenter --target $other --net -- sh -c 'ip link set lo up; ip link set other up; ip addr add 10.77.0.2/24 dev other'
nft -f "$0"
serve='import select, socket
listeners = [socket.create_server(("", port)) for port in (22, 20000, 20100, 20200)]
print("ready", flush=True)
select.select([], [], [])'
exec {here}< <(exec python3 -c "$serve"); first=$!
exec {there}< <(exec nsenter --target $other --net -- python3 -c "$serve"); second=$!
trap 'kill $other $first $second' EXIT
read -r _ <&$here; read -r _ <&$there
for user in 0 1001 1002 1003; do
  setpriv --reuid=$user --clear-groups /usr/bin/python3 -S -c '
import os, socket
for host in ("127.0.0.1", "10.77.0.1", "10.77.0.2"):
    served = []
    for port in (22, 20000, 20100, 20200):
        try:
            socket.create_connection((host, port), timeout=30)
            served.append(str(port))
        except ConnectionRefusedError:
            pass
    print(os.getuid(), host, *served)'
done
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nft", path="/usr/sbin:/usr/bin"), reason="needs root and nft")
def test_users_reach_their_own_ports_only_on_any_node(tmp_path):
    if subprocess.run(["unshare", "--net", "nft", "list", "tables"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this kernel lets nobody make a network with a firewall here")
    rules = tmp_path / "rules"
    page = (ROOT / "docs/administrator/shared_nodes.md").read_text()
    rules.write_text(re.search(r"```[a-z]*\n(table inet rollcall_users .*?\n)```", page, re.S)[1])
    done = subprocess.run(["unshare", "--net", "bash", "-c", SCRIPT, rules], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    reached = {0: "22 20000 20100 20200", 1001: "22 20000", 1002: "22 20100", 1003: "22"}
    assert done.stdout.splitlines() == [f"{user} {host} {ports}" for user, ports in reached.items()
                                        for host in ("127.0.0.1", "10.77.0.1", "10.77.0.2")]
