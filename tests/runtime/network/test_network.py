"""A network like that of real sites, in namespaces: host names lead to a closed Ethernet, names with suffix i to InfiniBand."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import sys

import pytest

from minicluster import SOURCE, Netcluster, poll

pytestmark = [pytest.mark.slurm, pytest.mark.long]

PROGRAM = [sys.executable, str(pathlib.Path(__file__).with_name("all_reduce.py"))]
# Time limits of the programs' rendezvous in seconds: SHORT where it must fail, LONG where it must succeed on a slow machine.
SHORT, LONG = "3", "120"


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@contextlib.contextmanager
def hosts_file(network, change):
    """All hosts' /etc/hosts with change(lines) in place of its lines."""
    file = pathlib.Path(f"{network.folder}.net") / "hosts"
    text = file.read_text()
    try:
        file.write_text("\n".join(change(text.splitlines())) + "\n")
        yield
    finally:
        file.write_text(text)


def with_recipe_variables(address, *program):
    """A program with the variables that twenty lines of bash in a batch script would set."""
    script = f'export MASTER_ADDR={address} MASTER_PORT=29400 RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS; exec "$@"'
    return ["bash", "-c", script, "recipe", *program]


def rollcall_lines(text):
    return [line for line in text.splitlines() if "rollcall: " in line]


def srun_on_nodes(network, *command, srun=(), env=None, nodes=2):
    return network.run("srun", f"-N{nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=1", *srun, *command, env=env,
                       check=False, timeout=180)


def sums(result):
    return sorted(line for line in result.stdout.splitlines() if "sums up" in line)


# ---------------------------------------------------------------- the network itself


def connects(network, node, name):
    """Whether `node` reaches the controller's port of another node's slurmd under `name`."""
    port = network.run("scontrol", "show", "node", "jwb0001").stdout.split("Port=")[1].split()[0]
    probe = f"exec 3<>/dev/tcp/{name}/{port}"
    return network.script("on", node, "timeout", "2", "bash", "-c", probe, check=False).returncode == 0


def test_nodes_reach_each_other_only_by_the_name_with_i(network):
    assert connects(network, "jwb0002", "jwb0001i")
    assert not connects(network, "jwb0002", "jwb0001")
    assert connects(network, "login", "jwb0001i")


def test_each_node_has_its_own_host_name(network):
    result = network.run("srun", "-N4", "hostname")
    assert sorted(result.stdout.split()) == ["jwb0001", "jwb0002", "jwb0003", "jwb0004"]


def test_a_slow_namespace_start_adds_no_interface_to_the_host(network, short_folder, plugin, tmp_path):
    """A process that has not yet entered its namespaces must not be configured as a host."""
    slow = tmp_path / "unshare"
    slow.write_text(f'#!/bin/sh\nsleep 0.5\nexec {shutil.which("unshare")} "$@"\n')
    slow.chmod(0o755)
    before = os.listdir("/sys/class/net")
    other = Netcluster(short_folder / "n-slow", f"--plugin={plugin}")
    other.script(*other.slurm, *other.options, "--nodes=1", "start", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    other.stop()
    assert os.listdir("/sys/class/net") == before


# ---------------------------------------------------------------- programs


def test_a_common_bash_recipe_with_the_plain_name_fails(network, torch):
    result = srun_on_nodes(network, *with_recipe_variables("jwb0001", *PROGRAM, SHORT))
    assert result.returncode != 0 and sums(result) == []


def test_the_right_name_alone_is_not_enough_for_gloo(network, torch):
    """Without GLOO_SOCKET_IFNAME Gloo listens at the address of the host's own name: the closed Ethernet's."""
    result = srun_on_nodes(network, *with_recipe_variables("jwb0001i", *PROGRAM, SHORT))
    assert result.returncode != 0 and sums(result) == []


def test_torch_distributed_works_with_srun_ddp(network, torch):
    result = srun_on_nodes(network, *PROGRAM, LONG, srun=["--ddp"])
    assert sums(result) == ["rank 0 sums up 2", "rank 1 sums up 2"], result.stderr


def test_torch_distributed_works_with_rollcall_exec(network, torch, rollcall):
    site = {"ROLLCALL_SITE_CONFIG": str(network.folder / "etc" / "site.toml")}
    result = srun_on_nodes(network, str(rollcall), "exec", "--", *PROGRAM, LONG, env=site)
    assert sums(result) == ["rank 0 sums up 2", "rank 1 sums up 2"], result.stderr


def test_the_trainer_rendezvous_fails_with_the_plain_name(network, rollcall_train):
    wait = {"ROLLCALL_RENDEZVOUS_TIMEOUT": SHORT, "ROLLCALL_RENDEZVOUS": "address"}
    result = srun_on_nodes(network, *with_recipe_variables("jwb0001", str(rollcall_train), "--dry-run"), env=wait)
    assert result.returncode != 0 and "DONE" not in result.stdout


@pytest.mark.parametrize("mpi", ["none", "pmix"])
def test_the_trainer_rendezvous_works_with_srun_ddp(network, rollcall_train, mpi):
    if mpi not in network.run("srun", "--mpi=list").stdout + network.run("srun", "--mpi=list").stderr:
        pytest.skip(f"this Slurm has no --mpi={mpi}")
    result = srun_on_nodes(network, str(rollcall_train), "--dry-run", srun=["--ddp", f"--mpi={mpi}"], nodes=4)
    assert result.stdout.count("DONE ") == 4, result.stderr


# ---------------------------------------------------------------- what is chosen, and why


def test_every_node_gets_the_name_with_i_and_the_infiniband_interface(network):
    environments, errors = network.environments("--ddp", "-N3", "-w", "jwb000[2-4]")
    assert {e["MASTER_ADDR"] for e in environments} == {"jwb0002i"}
    for name in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        assert [e[name] for e in environments] == ["ib0"] * 3
    assert errors == ""


def test_the_launch_node_is_not_taken_for_the_head_node(network):
    """SLURM_LAUNCH_NODE_IPADDR is where srun runs: here the login host, on which no rank is."""
    environments, _ = network.environments("--ddp", "-N2", "-w", "jwb000[3-4]")
    assert {e["SLURM_LAUNCH_NODE_IPADDR"] for e in environments} == {"10.78.0.250"}
    assert {e["MASTER_ADDR"] for e in environments} == {"jwb0003i"}


@pytest.mark.parametrize("template, address, interface", [("{host}i", "jwb0001i", "ib0"), ("{host}", "jwb0001", "eth0")])
def test_interface_auto_selects_the_interface_that_routes_to_the_head(network, template, address, interface):
    option = f"--ddp=interface.gloo=auto,interface.nccl=auto,host.template={template}"
    environments, _ = network.environments(option, "-N3")
    assert {e["MASTER_ADDR"] for e in environments} == {address}
    assert [(e["GLOO_SOCKET_IFNAME"], e["NCCL_SOCKET_IFNAME"]) for e in environments] == [(interface, interface)] * 3


def test_plain_name_is_used_with_one_warning_when_name_i_does_not_resolve(network):
    with hosts_file(network, lambda lines: [line for line in lines if not line.endswith(" jwb0001i")]):
        environments, errors = network.environments("--ddp", "-N2")
    assert {e["MASTER_ADDR"] for e in environments} == {"jwb0001"}
    (warning,) = rollcall_lines(errors)
    assert "warning: host.template: jwb0001i: does not resolve on jwb0001" in warning and "jwb0001 is used instead" in warning


@pytest.mark.parametrize("useless", [["fe80::1"], ["::1"], ["127.0.1.1"], ["fe80::1", "::1", "169.254.0.1"]], ids=" ".join)
def test_link_local_and_loopback_addresses_are_never_chosen(network, useless):
    def beside(lines):
        return [f"{address} jwb0001i" for address in useless] + lines
    with hosts_file(network, beside):
        environments, _ = network.environments("--ddp", "-N2")
    assert environments[1]["MASTER_ADDR"] == "10.78.0.1"  # a library given the name would try the others first

    def instead(lines):
        return beside([line for line in lines if not line.endswith(" jwb0001i")])
    with hosts_file(network, instead):
        environments, errors = network.environments("--ddp", "-N2")
    assert environments[1]["MASTER_ADDR"] == "jwb0001"


def test_a_head_name_with_ipv4_and_ipv6_is_replaced_by_its_ipv4_address(network):
    """PyTorch's store would try the unreachable IPv6 address first, and wait for minutes."""
    with hosts_file(network, lambda lines: ["fd00::99 jwb0001i", *lines]):
        environments, errors = network.environments("--ddp", "-N2")
    assert {e["MASTER_ADDR"] for e in environments} == {"10.78.0.1"} and rollcall_lines(errors) == []


def test_the_doctor_names_an_address_of_master_addr_that_does_not_answer(network, rollcall):
    """A user's own name whose IPv6 address drops all packets: PyTorch would try it first and wait."""
    lost = "ip -6 addr add fd00::$0/64 dev ib0 && ip -6 neigh add fd00::99 lladdr 02:00:00:00:00:99 dev ib0"
    network.script("on", "jwb0002", "sh", "-c", lost, "2")
    try:
        with hosts_file(network, lambda lines: ["fd00::99 both", "10.78.0.1 both", *lines]):
            ended = network.run("srun", "-N2", "-w", "jwb[0001-0002]", str(rollcall), "doctor", "--json", "--only=head-port", check=False,
                                env={"MASTER_ADDR": "both"})
    finally:
        network.script("on", "jwb0002", "ip", "-6", "addr", "del", "fd00::2/64", "dev", "ib0")
    (reported,) = [finding for finding in json.loads(ended.stdout)["findings"] if finding["check"] == "head-port"]
    assert reported["status"] == "notice" and reported["hosts"] == ["jwb0002"], ended.stderr
    assert re.search(r"both:\d+: fd00::99 does not answer, another of its addresses does", reported["reason"])


@pytest.mark.long
def test_the_doctor_reports_speed_as_absent_when_the_ring_is_broken(network, rollcall):
    ended = network.run("srun", "-N2", str(rollcall), "doctor", "--json", "--only=ring,speed", check=False,
                        env={"ROLLCALL_HOST_TEMPLATE": "{host}", "ROLLCALL_INTERFACE_GLOO": "eth0"}, timeout=120)
    findings = {finding["check"]: finding for finding in json.loads(ended.stdout)["findings"]}
    assert findings["ring"]["status"] == "bad", ended.stdout
    assert findings["speed"]["status"] == "absent"
    assert findings["speed"]["reason"].startswith("not measured: jwb000")


@pytest.mark.parametrize("front", [["--ddp"], ["ROLLCALL", "exec", "--"]], ids=["plugin", "exec"])
def test_nodeaddr_template_uses_the_address_that_slurm_has(network, rollcall, front):
    known = network.run("scontrol", "show", "node", "jwb0001").stdout
    (address,) = re.findall(r"NodeAddr=(\S+)", known)
    ask = [str(rollcall) if word == "ROLLCALL" else word for word in front]
    with hosts_file(network, lambda lines: [line for line in lines if "jwb" not in line]):
        environments, errors = network.environments("-N2", *ask, env={"ROLLCALL_HOST_TEMPLATE": "{nodeaddr}"})
    assert {e["MASTER_ADDR"] for e in environments} == {address} and rollcall_lines(errors) == []


@contextlib.contextmanager
def one_node_without_ib0(network):
    def rename(old, new):
        network.script("on", "jwb0003", "sh", "-c", f"ip link set {old} down; ip link set {old} name {new}; ip link set {new} up")
    rename("ib0", "ib9")
    try:
        yield
    finally:
        rename("ib9", "ib0")


@pytest.mark.parametrize("by_command", [False, True], ids=["plugin", "command"])
def test_a_user_interface_missing_on_one_node_gives_one_warning(network, rollcall, by_command):
    users = dict.fromkeys(("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "ib0")
    users |= {"MASTER_ADDR": "10.78.0.1", "ROLLCALL_SITE_CONFIG": str(network.folder / "etc" / "site.toml")}
    front = [str(rollcall), "exec", "--"] if by_command else ["--ddp"]
    with one_node_without_ib0(network):
        result = network.run("srun", "-N4", "--ntasks-per-node=2", *front, "true", env=users)
    lines = [line for line in rollcall_lines(result.stderr) if "GLOO_SOCKET_IFNAME" in line]
    assert len(lines) == 1 and "GLOO_SOCKET_IFNAME: ib0: is not an interface of jwb0003" in lines[0], result.stderr


def test_a_site_interface_missing_on_one_node_fails_without_drain(network):
    with one_node_without_ib0(network):
        result = network.run("srun", "--ddp", "-N4", "true", check=False)
        states = network.nodes_in_state("drained", "draining", "down")
    assert result.returncode == 69
    (line,) = rollcall_lines(result.stderr)
    assert "interface.gloo: ib0: is not an interface that is up on jwb0003" in line
    assert states == []


# ---------------------------------------------------------------- the script


@pytest.mark.parametrize("closed", ["reject", "open"])
def test_netcluster_supports_reject_and_open_and_stop_ends_all_processes(network, short_folder, closed):
    other = Netcluster(short_folder / f"n-{closed}", "--nodes=2", f"--closed={closed}").start()
    try:
        assert connects(other, "jwb0002", "jwb0001") == (closed == "open")
        assert connects(other, "jwb0002", "jwb0001i")
    finally:
        other.stop()

    def gone():
        lines = map(read, pathlib.Path("/proc").glob("[0-9]*/cmdline"))
        return not any(str(other.folder).encode() in line for line in lines)

    poll(gone, "the end of all processes of the cluster")


def read(file):
    try:
        return file.read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_netcluster_without_root_reports_that_it_needs_root(short_folder):
    somebody = Netcluster(short_folder / "nobody", prefix=["runuser", "-u", "nobody", "--"])
    result = somebody.script("start", check=False)
    if "minicluster" not in result.stderr and not os.access(SOURCE, os.X_OK):
        pytest.skip("nobody cannot read the sources here")
    assert result.returncode == 69 and "only root may create networks" in result.stderr
