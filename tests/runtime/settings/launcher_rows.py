"""The effect of each launcher setting, and that it has no other: the table of test_launcher_settings.py.

What is expected is written out, or computed here from what the documentation of Slurm, Gloo, NCCL, UCX, torchrun, JAX and
the cached programs says; rollcall itself is not queried. Hosts are named by addresses: no name server is used."""
import dataclasses
import fcntl
import math
import os
import re
import socket
import struct

from launcher_runs import BENCH_COLLECTIVES, CLOCK_AHEAD, doctor_of, program_behind_exec, program_of_the_task, trainings_of

JOB, STEP_ID = 4711, 2
GOLDEN_SECTION = (math.sqrt(5) - 1) / 2


def slurm_task(hosts, tasks, rank, node, **more):
    """A task's environment as slurmstepd 22.05 makes it. `tasks`: those of each node, placed by blocks."""
    first = sum(tasks[:node])
    return {"SLURM_JOB_ID": str(JOB), "SLURM_STEP_ID": str(STEP_ID), "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank - first),
            "SLURM_NODEID": str(node), "SLURM_STEP_NUM_TASKS": str(sum(tasks)), "SLURM_STEP_NUM_NODES": str(len(tasks)),
            "SLURM_STEP_NODELIST": ",".join(hosts), "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, tasks)),
            "SLURMD_NODENAME": hosts[node], "SLURM_DISTRIBUTION": "block", **more}


LOOPBACK = ["127.0.0.1", "127.0.0.2"]
ONE_NODE = slurm_task(LOOPBACK[:1], [2], 0, 0)  # the head is reached by lo
ONE_TASK = slurm_task(LOOPBACK[:1], [1], 0, 0)
OTHER_NODE = slurm_task(["192.0.2.7"], [2], 0, 0)  # an address for documentation (RFC 5737): reached by the default route, if any
TWO_NODES = [slurm_task(LOOPBACK, [1, 1], rank, rank) for rank in range(2)]
# Het-job components in reverse order: only rank 0 on the third host, ranks 1 to 3 on the first two. Slurm sorts the list.
HET = {**slurm_task(["127.0.0.1", "127.0.0.2", "127.0.0.3"], [2, 1, 1], 1, 0), "SLURM_NODEID": "1", "SLURM_LOCALID": "0",
       "SLURM_HET_SIZE": "2", "SLURM_JOB_NODELIST_HET_GROUP_0": "127.0.0.3", "SLURM_JOB_NODELIST_HET_GROUP_1": "127.0.0.[1-2]"}
FOUR_GPUS = {"SLURM_STEP_GPUS": "0,1,2,3", "SLURM_GPUS_ON_NODE": "4", "CUDA_VISIBLE_DEVICES": "1"}
# Where real processes listen: ports of this test run alone.
OWN_NODES = [{**task, "SLURM_JOB_ID": str(os.getpid())} for task in TWO_NODES]
EXPLICIT = [{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo",
             "MASTER_PORT": str(10000 + os.getpid() % 10000), "OMP_NUM_THREADS": "1"} for rank in range(2)]


TRAINING = ["--data=fake", "--max-steps=1", "--model=resnet20", "--image-size=32", "--batch-size=4", "--progress=none",
            "--collective-timeout=60",
            "--checkpoint-epochs=0"]


@dataclasses.dataclass(frozen=True)
class Row:
    """`changes`: what is seen otherwise where `setting` has `value`, as name -> (by default, with the value). None: not there;
    a pattern: the whole text fits it; {home}: the user's home folder. Everything else must stay as it is.

    `see`: runs the program and returns what is seen of it as name -> text. `given`: other settings that hold for both.
    `ages`: files of the user, which are so many days old. `only`: all that is compared, where a program does not come to run.
    `instead_of`: a value to compare with where the default would take too long."""
    setting: str
    value: str
    changes: dict
    see: object = program_of_the_task
    step: dict = dataclasses.field(default_factory=lambda: ONE_NODE)
    given: dict = dataclasses.field(default_factory=dict)
    ages: dict = dataclasses.field(default_factory=dict)
    only: tuple = ()
    instead_of: str = None

    def __str__(self):
        return f"{self.setting}={self.value}"


@dataclasses.dataclass(frozen=True)
class ProvedElsewhere:
    """A value that shows under a real Slurm only: `test` is FILE::FUNCTION below tests/, which contains `mention` and the value."""
    setting: str
    value: str
    test: str
    mention: str

    def __str__(self):
        return f"{self.setting}={self.value}"


# ---------------------------------------------------------------- what is expected, computed


def port_of_ids(first, last, world=0):
    """MASTER_PORT where Slurm reserved none: steps lie side by side, jobs (and worlds) a golden section of the range apart."""
    size = last - first + 1
    return str(first + (math.floor((JOB + world) * GOLDEN_SECTION % 1 * size) + STEP_ID) % size)


def route_to(address):
    """The interface whose address the kernel takes towards `address`; None without a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return None
        source = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                answer = fcntl.ioctl(probe, 0x8915, request)  # SIOCGIFADDR, netdevice(7)
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(answer[20:24]) == source:
                return name
    return None


def endpoint(host, port):
    return {"MASTER_ADDR": host, "MASTER_PORT": port, "JAX_COORDINATOR_ADDRESS": f"{host}:{port}"}


def pairs(before, after):
    return {name: (before.get(name), after.get(name)) for name in {**before, **after}}


def failure(text, code="69"):
    """A task whose program does not run: the outcome by default, and with the value."""
    return {"exit code": ("0", code), "standard error": ("", re.compile(f"rollcall: {text}\n"))}


OUTCOME = ("exit code", "standard error")
GLOO_AND_TENSORPIPE = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
DEFAULT_PORT = port_of_ids(20000, 29999)

# ---------------------------------------------------------------- ranks and network

RANKS = [
    Row("world", "component", step=HET, given={"host.loopback": "allow"}, changes=pairs(
        {"RANK": "1", "ROLE_RANK": "1", "JAX_PROCESS_ID": "1", "WORLD_SIZE": "4", "ROLE_WORLD_SIZE": "4", "JAX_NUM_PROCESSES": "4",
         "NODE_RANK": "1", "GROUP_RANK": "1", "CROSS_RANK": "1", "GROUP_WORLD_SIZE": "3", "CROSS_SIZE": "3",
         **endpoint("127.0.0.3", DEFAULT_PORT)},
        {"RANK": "0", "ROLE_RANK": "0", "JAX_PROCESS_ID": "0", "WORLD_SIZE": "3", "ROLE_WORLD_SIZE": "3", "JAX_NUM_PROCESSES": "3",
         "NODE_RANK": "0", "GROUP_RANK": "0", "CROSS_RANK": "0", "GROUP_WORLD_SIZE": "2", "CROSS_SIZE": "2",
         **endpoint("127.0.0.1", port_of_ids(20000, 29999, world=1))})),
    Row("world", "component", changes={}),  # a step of one component
]

NETWORK = [
    # "192.0.2" is an address of three parts, inet_aton(3); with the last part added it is another one.
    Row("host.template", "{host}.7", step=slurm_task(["192.0.2"], [2], 0, 0), given={"interface.gloo": "none", "interface.nccl": "none"},
        changes=pairs(endpoint("192.0.2", DEFAULT_PORT), endpoint("192.0.2.7", DEFAULT_PORT))),
    Row("host.template", "127.0.0.9", see=doctor_of([ONE_TASK], "head-name"), changes={
        "head-name": ("good: 127.0.0.1 is 127.0.0.1 everywhere", "good: 127.0.0.9 is 127.0.0.9 everywhere")}),

    Row("host.loopback", "allow", step=TWO_NODES[0], changes={
        **dict.fromkeys((*GLOO_AND_TENSORPIPE, "NCCL_SOCKET_IFNAME"), (None, "lo")), "PET_LOCAL_ADDR": (None, "127.0.0.1")}),
    Row("host.loopback", "allow", step=TWO_NODES[1], only=OUTCOME, changes={
        "exit code": ("69", "0"),
        "standard error": (
            re.compile(r"rollcall: host\.template: 127\.0\.0\.1: resolves to loopback only .*--host-loopback=allow.*\n"), "")}),
    Row("host.loopback", "allow", see=doctor_of(OWN_NODES, "head-name", "--no-bench"), changes={
        "exit code": ("69", "0"), "standard error": (re.compile("rollcall: doctor: head-name: failed; .*\n"), ""),
        "head-name": ("bad: 127.0.0.1 is the loopback address 127.0.0.1 on a node that is not the head",
                      "good: 127.0.0.1 is 127.0.0.1 everywhere")}),

    Row("interface.gloo", "none", changes=dict.fromkeys(GLOO_AND_TENSORPIPE, ("lo", None))),
    Row("interface.gloo", "nosuch0,lo", step=OTHER_NODE, changes={name: (route_to("192.0.2.7"), "lo") for name in GLOO_AND_TENSORPIPE}),
    Row("interface.gloo", "nosuch0,nosuch1", only=OUTCOME,
        changes=failure(r"interface\.gloo: nosuch0,nosuch1: is not an interface that is up on .*")),
    Row("interface.gloo", "nosuch0", see=doctor_of([ONE_TASK], "interface"), changes={
        "exit code": ("0", "69"), "standard error": ("", re.compile("rollcall: doctor: interface: failed; .*\n")),
        "interface": ("good: interface.gloo is lo, interface.nccl is lo",
                      re.compile(r"bad: interface\.gloo: nosuch0 is not an interface .*"))}),

    Row("interface.nccl", "none", changes={"NCCL_SOCKET_IFNAME": ("lo", None)}),
    Row("interface.nccl", "nosuch,l", changes={"NCCL_SOCKET_IFNAME": ("lo", "nosuch,l")}),  # prefixes
    Row("interface.nccl", "^nosuch", changes={"NCCL_SOCKET_IFNAME": ("lo", "^nosuch")}),
    Row("interface.nccl", "=lo", step=OTHER_NODE, changes={"NCCL_SOCKET_IFNAME": (route_to("192.0.2.7"), "=lo")}),
    Row("interface.nccl", "nosuch", only=OUTCOME, changes=failure(r"interface\.nccl: nosuch: is not an interface that is up on .*")),
    Row("interface.nccl", "nosuch", see=doctor_of([ONE_TASK], "interface"), changes={
        "exit code": ("0", "69"), "standard error": ("", re.compile("rollcall: doctor: interface: failed; .*\n")),
        "interface": ("good: interface.gloo is lo, interface.nccl is lo",
                      re.compile(r"bad: interface\.nccl: nosuch is not an interface .*"))}),

    Row("interface.ucx", "mlx5_0:1,mlx5_1:1", changes={"UCX_NET_DEVICES": (None, "mlx5_0:1,mlx5_1:1")}),
    Row("nccl.net", "AWS Libfabric", changes={"NCCL_NET": (None, "AWS Libfabric")}),

    Row("port.range", "12345-12345", changes=pairs(endpoint("127.0.0.1", DEFAULT_PORT), endpoint("127.0.0.1", "12345"))),
    Row("port.range", "10000-10999",
        changes=pairs(endpoint("127.0.0.1", DEFAULT_PORT), endpoint("127.0.0.1", port_of_ids(10000, 10999)))),
    Row("port.range", "12345-12345", step={**ONE_NODE, "SLURM_STEP_RESV_PORTS": "17500-17501"}, changes={}),
]

RENDEZVOUS = [
    Row("rendezvous", "pmix", see=program_behind_exec, only=OUTCOME,
        changes=failure("rendezvous: pmix: no PMIx server started this task .*")),
    ProvedElsewhere("rendezvous", "address", "runtime/launchers/test_mpi.py::test_the_stale_slurm_rank_is_ignored_under_salloc_and_mpirun",
                    "ROLLCALL_RENDEZVOUS"),
    Row("rendezvous", "file", step={}, see=trainings_of(EXPLICIT, ["--dry-run"], ["--dry-run"]),
        given={"rendezvous.folder": "${SCRATCH}"}, changes={"rendezvous": ("address", "file")}),
    Row("rendezvous.folder", "${HOME}/scratch", step={}, see=trainings_of(EXPLICIT, ["--dry-run"], ["--dry-run"]),
        given={"rendezvous": "file"}, changes={
            "rendezvous": (None, "file"), "exit code of rank 0": ("64", "0"), "exit code of rank 1": ("64", "0"),
            "said": (re.compile(r"rollcall: rendezvous\.folder: is not set, .*"), "")}),
    Row("rendezvous.secret", "${SCRATCH}/nowhere", step={}, see=trainings_of(EXPLICIT, ["--dry-run"], ["--dry-run"]), changes={
        "rendezvous": ("address", None), "exit code of rank 0": ("0", "69"), "exit code of rank 1": ("0", "69"),
        "said": ("", re.compile(r"rollcall: rendezvous\.secret: .*/nowhere: does not exist.*"))}),
    Row("rendezvous.timeout", "0.2", instead_of="0.4", see=doctor_of(OWN_NODES[:1], "answer", "--no-bench"), changes={
        "answer": ("bad: 1 of 1 rank did not answer within 0.4 s", "bad: 1 of 1 rank did not answer within 0.2 s")}),
]

DOCTOR = [
    Row("doctor.bandwidth", "10000", see=doctor_of(OWN_NODES, "speed"), given={"host.loopback": "allow"}, changes={
        "exit code": ("0", "69"), "standard error": ("", re.compile("rollcall: doctor: speed: failed; .*\n")),
        "speed": ("good: measured; no expectation: the connections stay on one machine",
                  "bad: measured; at least 1e+04 GB/s is expected: doctor.bandwidth")}),
    Row("doctor.bandwidth", "0.001", see=doctor_of(OWN_NODES, "speed"), given={"host.loopback": "allow"}, changes={
        "speed": ("good: measured; no expectation: the connections stay on one machine",
                  "good: measured; expected at least 0.001 GB/s: doctor.bandwidth")}),
    Row("doctor.latency", "1", see=doctor_of(OWN_NODES, "speed"), given={"host.loopback": "allow"}, changes={
        "exit code": ("0", "69"), "standard error": ("", re.compile("rollcall: doctor: speed: failed; .*\n")),
        "speed": ("good: measured; no expectation: the connections stay on one machine",
                  "bad: measured; at most 1 us per hop is expected: doctor.latency")}),
    # The second node's clock is two seconds ahead.
    Row("doctor.clock", "5", see=doctor_of([OWN_NODES[0], {**OWN_NODES[1], "LD_PRELOAD": str(CLOCK_AHEAD)}],
                                           "clock", "--no-bench"), given={"host.loopback": "allow"}, changes={
        "exit code": ("69", "0"), "standard error": (re.compile("rollcall: doctor: clock: failed; .*\n"), ""),
        "clock": (re.compile(r"bad: (2|1\.99|2\.0\d*) s ahead of rank 0's node"), re.compile(r"good: at most 2e\+03 ms apart"))}),
]

# ---------------------------------------------------------------- the task

TASK = [
    ProvedElsewhere("run.network", "off",
                    "runtime/elastic/test_run_strangers.py::test_run_network_off_refuses_a_rendezvous_and_allows_one_node", "run.network"),
    ProvedElsewhere("kill-on-bad-exit", "off", "spank_plugin/test_first_failure.py::test_kill_on_bad_exit_off_disables_it", "kill-on-bad-exit"),
    ProvedElsewhere("task.timeout", "1", "spank_plugin/test_what_hangs.py::test_a_silent_name_server_ends_the_tasks_at_the_time_limit",
                    "task.timeout"),
    Row("threads", "7", step={**ONE_NODE, "SLURM_CPUS_PER_TASK": "1"}, changes={"OMP_NUM_THREADS": ("1", "7")}),
    Row("threads", "keep", step={**ONE_NODE, "SLURM_CPUS_PER_TASK": "1"}, changes={"OMP_NUM_THREADS": ("1", None)}),
    Row("threads", "auto", instead_of="7", step=ONE_TASK, changes={"OMP_NUM_THREADS": ("7", str(len(os.sched_getaffinity(0))))}),

    Row("gpus.visible", "node", step={**ONE_NODE, **FOUR_GPUS}, changes={
        "CUDA_VISIBLE_DEVICES": ("1", "0,1,2,3"), "JAX_LOCAL_DEVICE_IDS": ("0", None),
        "standard error": (re.compile(r"rollcall: warning: LOCAL_RANK: each of the . tasks of a node sees only "
                                      r"CUDA_VISIBLE_DEVICES=.* try --gpus-visible=node, .*\n"), "")}),
    Row("gpus.visible", "node", step={**ONE_TASK, **FOUR_GPUS}, changes={
        "CUDA_VISIBLE_DEVICES": ("1", "0,1,2,3"), "JAX_LOCAL_DEVICE_IDS": ("0", "0,1,2,3")}),
    Row("gpus.visible", "node", changes={"standard error": ("", re.compile(r"rollcall: warning: gpus\.visible: node: neither .*\n"))}),
    Row("gpus.architectures", "8.0;9.0", changes={"TORCH_CUDA_ARCH_LIST": (None, "8.0;9.0")}),

    Row("venv", "${HOME}/venvs/torch", changes={
        "VIRTUAL_ENV": (None, "{home}/venvs/torch"), "PATH": ("/usr/bin:/bin", "{home}/venvs/torch/bin:/usr/bin:/bin")}),
    Row("venv", "${HOME}/venvs/torch", see=doctor_of([ONE_TASK], "venv"), changes={
        "venv": ("absent: neither setting venv nor VIRTUAL_ENV is set", "good: {home}/venvs/torch runs Python 3.11.2")}),
    Row("venv.root", "${HOME}/venvs", given={"venv": "torch"}, only=(*OUTCOME, "VIRTUAL_ENV", "PATH"), changes={
        "exit code": ("66", "0"), "standard error": (re.compile(r"rollcall: venv: torch: bin/python: No such file .*\n"), ""),
        "VIRTUAL_ENV": (None, "{home}/venvs/torch"), "PATH": (None, "{home}/venvs/torch/bin:/usr/bin:/bin")}),
    Row("venv.root", "${HOME}/elsewhere", given={"venv": "${HOME}/venvs/torch"}, changes={}),  # that is a path, and no name
    Row("venv.root", "${HOME}/venvs", given={"venv": "torch"}, see=doctor_of([ONE_TASK], "venv"), changes={
        "exit code": ("69", "0"), "standard error": (re.compile("rollcall: doctor: venv: failed; .*\n"), ""),
        "venv": (re.compile("bad: torch: bin/python: .*"), "good: {home}/venvs/torch runs Python 3.11.2")}),

    Row("variables", "MPICH_GPU_SUPPORT_ENABLED=0,FLAGS=a=b", changes={
        "MPICH_GPU_SUPPORT_ENABLED": (None, "0"), "FLAGS": (None, "a=b")}),
    Row("variables", "RANK=7", only=OUTCOME,
        changes=failure("variables: RANK=7: is a variable that rollcall or Slurm uses; .*", code="78")),

    Row("debug", "true", changes={
        "TORCH_DISTRIBUTED_DEBUG": (None, "DETAIL"), "TORCH_CPP_LOG_LEVEL": (None, "INFO"), "TORCH_SHOW_CPP_STACKTRACES": (None, "1"),
        "TORCH_LOGS": (None, "+distributed"), "NCCL_DEBUG": (None, "INFO")}),
    Row("debug", "collectives", changes={}),  # no variable: it is for the trainer alone
    # Rank 1 has twice as much to add up: without the comparison it is up to chance how that ends.
    Row("debug", "collectives", step={},
        see=trainings_of(EXPLICIT, *([f"--min-bytes={size}", f"--max-bytes={size}", "--backend=gloo"] for size in (1024, 2048)),
                         trainer=BENCH_COLLECTIVES),
        given={"rendezvous": "file", "rendezvous.folder": "${SCRATCH}"}, changes={
            "exit code of rank 0": (re.compile("(?!76).+"), re.compile("69|76")), "exit code of rank 1": (re.compile("(?!76).+"), "76"),
            "said": (re.compile("(?s)(?!.* where rank 0 calls ).*"), re.compile(
                r"(?s).*rollcall: collective: \d+: rank 1 calls all-reduce of .* where rank 0 calls all-reduce of .*"))}),
]

# ---------------------------------------------------------------- caches

# setting -> (variables that name the folder, the folder, its policy by default): pytorch.org, huggingface.co, XDG's base
# directories, pip, triton-lang.org, CUDA's programming guide, MIOpen and JAX name the variables.
CACHES = {
    "cache.torch": (["TORCH_HOME"], "torch", "shared"),
    "cache.huggingface": (["HF_HOME"], "huggingface", "shared"),
    "cache.xdg": (["XDG_CACHE_HOME"], "xdg", "shared"),
    "cache.pip": (["PIP_CACHE_DIR"], "pip", "shared"),
    "cache.triton": (["TRITON_CACHE_DIR"], "triton", "local"),
    "cache.inductor": (["TORCHINDUCTOR_CACHE_DIR"], "inductor", "local"),
    "cache.extensions": (["TORCH_EXTENSIONS_DIR"], "torch_extensions", "local"),
    "cache.cuda": (["CUDA_CACHE_PATH"], "cuda", "local"),
    "cache.miopen": (["MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR"], "miopen", "local"),
    "cache.jax": (["JAX_COMPILATION_CACHE_DIR"], "jax", "off"),
}
FOLDERS = {"shared": "{home}/scratch/shared", "local": "{home}/scratch/local", "job": f"{{home}}/scratch/local/job-{JOB}"}
BOTH = {"cache.shared": "${SCRATCH}/shared", "cache.local": "${SCRATCH}/local"}


def cache_seen(setting, policy):
    """The variables of a cache and the folders created for it, without those that other caches need anyway."""
    if policy == "off":
        return {}
    variables, folder, _ = CACHES[setting]
    path = f"{FOLDERS[policy]}/{folder}"
    return {**dict.fromkeys(variables, path), f"{path}/": "755", **({f"{FOLDERS['job']}/": "755"} if policy == "job" else {})}


def caches_below(policy):
    """All that comes with cache.shared or cache.local by default."""
    seen = {f"{FOLDERS[policy]}/": "755"}
    for setting, (_, _, own) in CACHES.items():
        seen |= cache_seen(setting, own) if own == policy else {}
    return pairs({}, seen)


CACHE = [
    Row("cache.shared", "${SCRATCH}/shared", changes=caches_below("shared")),
    Row("cache.local", "${SCRATCH}/local", changes=caches_below("local")),
    *(Row(setting, policy, given=BOTH, changes=pairs(cache_seen(setting, own), cache_seen(setting, policy)))
      for setting, (_, _, own) in CACHES.items() for policy in ("shared", "local", "job", "off") if policy != own),
    # Without a folder to be below a policy means nothing.
    *(Row(setting, "off" if own != "off" else "local", changes={}) for setting, (_, _, own) in CACHES.items()),
]

# ---------------------------------------------------------------- scratch


def purge(file, purge_days, when):
    return (f"scratch.purge-days: {purge_days}: {{home}}/{file} {when}: "
            f"this site deletes files that were neither changed nor read for {purge_days} days")


def purge_line(*fields):
    return f"rollcall: warning: {purge(*fields)}\n"


OLD = {"scratch/old": 5.5, "elsewhere/older": 8.5}
SCRATCH = [
    Row("scratch.folder", "${HOME}/elsewhere", ages=OLD, given={"scratch.purge-days": "10"}, changes={"standard error": (
        purge_line("scratch/old", 10, "is deleted in 4 days"), purge_line("elsewhere/older", 10, "is deleted in 1 day"))}),
    Row("scratch.folder", "${HOME}/elsewhere", ages=OLD, see=doctor_of([ONE_TASK], "scratch"), changes={"scratch": (
        re.compile(r"(good|notice): {home}/scratch .*"), re.compile(r"(good|notice): {home}/elsewhere .*"))}),
    Row("scratch.purge-days", "10", ages=OLD, changes={"standard error": ("", purge_line("scratch/old", 10, "is deleted in 4 days"))}),
    Row("scratch.purge-days", "5", ages=OLD, changes={"standard error": ("", purge_line("scratch/old", 5, "may be deleted at any time"))}),
    Row("scratch.purge-days", "365", ages=OLD, changes={}),
    Row("scratch.warn-days", "4", ages=OLD, given={"scratch.purge-days": "10"}, changes={"standard error": (
        purge_line("scratch/old", 10, "is deleted in 4 days"), "")}),
    Row("scratch.warn-days", "25", ages=OLD, given={"scratch.purge-days": "30"}, changes={"standard error": (
        "", purge_line("scratch/old", 30, "is deleted in 24 days"))}),
]

ROWS = [*RANKS, *NETWORK, *RENDEZVOUS, *DOCTOR, *TASK, *CACHE, *SCRATCH]

# ---------------------------------------------------------------- values that are refused

NO_TEXT = ["a\x01b"]  # all that a text may not hold is a control character
NO_LIST = ["a,,b"]
NO_PATH = ["~/folder", "${NOWHERE}/folder", "$HOME/folder"]
NO_POLICY = ["global"]

REFUSED = {
    "world": ["jobs"],
    "host.template": NO_TEXT,
    "host.loopback": ["true"],
    "interface.gloo": NO_LIST,
    "interface.nccl": NO_LIST,
    "interface.ucx": NO_LIST,
    "nccl.net": NO_TEXT,
    "port.range": ["0-100", "20000-65536", "20001-20000", "20000"],
    "rendezvous": ["tcp"],
    "rendezvous.folder": NO_PATH,
    "rendezvous.secret": NO_PATH,
    "rendezvous.timeout": ["0.09", "86401", "1m"],
    "doctor.bandwidth": ["0.0009", "10001", "fast"],
    "doctor.latency": ["0.9", "1000000001", "low"],
    "run.network": ["maybe"],
    "doctor.clock": ["0.00009", "86401", "auto"],
    "kill-on-bad-exit": ["maybe"],
    "task.timeout": ["0.09", "3601", "1m"],
    "threads": ["0", "65537", "2.5", "all"],
    "gpus.visible": ["all"],
    "gpus.architectures": NO_TEXT,
    "venv": NO_PATH,
    "venv.root": NO_PATH,
    "variables": NO_LIST,
    "debug": ["maybe"],
    "cache.shared": NO_PATH,
    "cache.local": NO_PATH,
    **dict.fromkeys(CACHES, NO_POLICY),
    "scratch.folder": NO_PATH,
    "scratch.purge-days": ["-1", "36501", "2.5"],
    "scratch.warn-days": ["-1", "36501", "soon"],
}
