"""Random command lines, read by `rollcall run` and by torchrun's own parser and rendezvous: both accept them with the same meaning, or
both refuse them. Intended differences (docs/reference/run.md) are not generated."""
import contextlib
import io
import json
import logging
import os
import random
import socket
import subprocess
import types

import pytest

from agents import DEADLINE, ROLLCALL

torch_run = pytest.importorskip("torch.distributed.run")

from torch.distributed.elastic.multiprocessing import api as multiprocessing_api  # noqa: E402
from torch.distributed.elastic.rendezvous import RendezvousParameters, c10d_rendezvous_backend  # noqa: E402
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler  # noqa: E402

REQUESTS = ROLLCALL.parents[1] / "tests/launch_requests"
pytestmark = [pytest.mark.python, pytest.mark.skipif(not REQUESTS.exists(), reason=f"{REQUESTS} is not built")]

NUMBERS = ["0", "3", "+3", " 3 ", "1_0", "_3", "3_", "1__0", "3.0", "0x3", "", "many"]
VALUES = {
    "nnodes": ["1", "2", "1:3", "2:2", " 2", "1: 3", "+1:1_0", "3:1", "0", "1:2:3", "1:", ":2", "two", "-1"],
    "nproc-per-node": ["1", "4", " 4", "+4", "1_0", "cpu", "gpu", "xpu", "some", "4.0", "1_"],
    "rdzv-backend": ["static", "c10d", "c10d", "c10d", "c10", "C10D"],
    "rdzv-endpoint": ["node01:29400", " node01:29400 ", "node01", "10.0.0.1:1", "[fd00::1]:29400", "[fd00::1]", "::1:29400", "fd00::5:77",
                      "node 01:1", "node01:", "node01:70000", "node01:x", "no/de:1", "a_b-c.d:1", ""],
    "rdzv-id": ["job", "7", "a=b", "-1", "x y"],
    "master-addr": ["node01", "127.0.0.1", "[fd00::1]", "::1", "fd00::5", "no/de"],
    "master-port": ["29501", "+29501", " 29501", "29_501", "x"],
    "local-addr": ["10.0.0.2", "host"],
    "role": ["trainer", "-1", "a b", "- ${rank}: "],
    "start-method": ["spawn", "fork", "forkserver", "thread"],
    "event-log-handler": ["null", "console"],
    "log-dir": ["/tmp/logs", "logs"],
    "redirects": ["0", "1", "2", "3", "4", "0:1", "0:3,1:1", "1:2,", "0:4", "3:", "x", "03", "0:1;1:2", "-1"],
    "tee": ["0", "3", "0:1,2:3", "5", "0,1"],
    "log-line-prefix-template": ["[${rank}]", "- ${rank}: ", "-${rank}", "$$"],
    "local-ranks-filter": ["0", "0,1", " 0 , 1", "1_0", "0,", "a", "+1"],
    "duplicate-stdout-filters": ["apple", "apple,orange", "a,,b", "a,,,b", "a,"],
    "duplicate-stderr-filters": ["apple", ",,", ",a"],
    "max-restarts": NUMBERS + ["-1"],
    "monitor-interval": ["0.1", "1", "1e-1", "x"],
    "shutdown-timeout": NUMBERS,
    "signals-to-handle": ["SIGTERM", "SIGTERM,SIGUSR1", " SIGINT , SIGHUP"],
    "node-rank": ["0", "0", " 0", "+0", "x"],
    "numa-binding": ["sometimes"],
}
SWITCHES = ["standalone", "module", "no-python", "run-path", "virtual-local-rank"]
LETTERS = {"redirects": "r", "tee": "t", "module": "m"}
WITHOUT_VARIABLE = {"numa-binding", "start-method"}  # argparse does not check the choice of a default
INTEGERS = ["5", "+7", " 9 ", "1_0", "", "-1", "5'", "x", "5s"]
CONFIGURATION = {
    "join_timeout": INTEGERS, "last_call_timeout": INTEGERS, "heartbeat_timeout": INTEGERS, "close_timeout": INTEGERS + ["0", "0.5"],
    "keep_alive_interval": INTEGERS + ["0"], "keep_alive_max_attempt": INTEGERS, "read_timeout": INTEGERS + ["0"],
    "cas_backoff_max_seconds": ["0", "0.5", "1e-3", "-1", "nan", "inf", "x", ""],
    "is_host": ["yes", "YES", "y", "t", "true", "True", "1", "no", "N", "f", "false", "0", "on", "2", "maybe", ""],
    "store_type": ["tcp", "TCP", " tcp ", "memory"], "timeout": ["5", "5'", "x", "+5"], "rank": ["0", "1", "x"],
    "join_timeot": ["5"], "'join_timeout": ["5"], "": ["5"], " join_timeout ": ["6"],
}
READ_BY = {
    "c10d": {"join_timeout", "last_call_timeout", "heartbeat_timeout", "close_timeout", "keep_alive_interval", "keep_alive_max_attempt",
             "read_timeout", "cas_backoff_max_seconds", "is_host", "store_type"},
}
READ_BY["static"] = READ_BY["c10d"] | {"timeout"}


def configuration(draw, static):
    """With the static backend torchrun reads `timeout` alone; rollcall the others as well, so that no bad ones are drawn for it."""
    keys = draw.choices(list(CONFIGURATION), k=draw.randint(1, 4))
    entries = [f"{key}={draw.choice(CONFIGURATION[key][:4] if static else CONFIGURATION[key])}" for key in keys]
    return draw.choice(["", "", "", " "]) + ",".join(entries) + draw.choice([""] * 12 + [",", " "])


def spelled(draw, name, value):
    if name in LETTERS and draw.random() < 0.5:
        return [f"-{LETTERS[name]}{draw.choice(['', '='])}{value}"] if draw.random() < 0.5 and value else [f"-{LETTERS[name]}", value]
    name = draw.choice([name, name, name.replace("-", "_")])
    if draw.random() < 0.1 and "-" in name:
        name = name[:-1]
    return [f"--{name}={value}"] if draw.random() < 0.6 else [f"--{name}", value]


def command_line(draw):
    arguments, environment = [], {"PYTHON_EXEC": "py"}
    static = draw.random() < 0.4
    names = draw.choices([*VALUES, *SWITCHES], k=draw.randint(0, 4))
    names += [] if static else ["rdzv-backend"]
    for name in names + (["rdzv-conf"] if draw.random() < 0.4 else []):
        if name in SWITCHES:
            arguments += [f"-{LETTERS[name]}" if name in LETTERS and draw.random() < 0.5 else f"--{name}"]
            continue
        value = (configuration(draw, static) if name == "rdzv-conf" else
                 "c10d" if name == "rdzv-backend" and not static else draw.choice(VALUES[name]))
        if draw.random() < 0.15 and value and name not in WITHOUT_VARIABLE:
            environment["PET_" + name.replace("-", "_").upper()] = value
        else:
            arguments += spelled(draw, name, value)
    if draw.random() < 0.1:
        environment["PET_" + draw.choice(SWITCHES).replace("-", "_").upper()] = draw.choice(["0", "1", "2", " 1", "yes"])
    arguments += draw.choice([[], [], ["--"], ["--"], ["-x"], ["--unknown=1"], ["-"], ["-1"]]) if draw.random() < 0.3 else []
    rest = ["a", "--", "--depth=12", "-m", "--nnodes=9", "", "-1", "--", "x y"]
    arguments += ["work", *draw.choices(rest, k=draw.randint(0, 4))] if draw.random() < 0.97 else []
    return arguments, environment


class Store:
    """Replaces c10d's store, which would connect."""

    def __init__(self, host, port, is_master, multi_tenant, timeout):
        self.place = [host, port]

    def compare_set(self, key, expected, desired):
        return desired.encode()


def torchrun_result(arguments, environment, patched):
    """What torchrun would launch; None where it refuses."""
    os.environ.update(environment)
    launched = []
    patched.setattr(torch_run, "elastic_launch", lambda config, entrypoint: lambda *rest: launched.append((config, entrypoint, rest)))
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            parsed = torch_run.parse_args(arguments)
            torch_run.run(parsed)
            [(config, entrypoint, rest)] = launched
            handler = get_rendezvous_handler(RendezvousParameters(
                backend=config.rdzv_backend, endpoint=config.rdzv_endpoint, run_id=config.run_id, min_nodes=config.min_nodes,
                max_nodes=config.max_nodes, local_addr=config.local_addr, **config.rdzv_configs))
    except (Exception, SystemExit):  # noqa: BLE001: torchrun ends with a traceback of any kind
        return None
    given = torch_run._parse_rendezvous_config(parsed.rdzv_conf)
    return types.SimpleNamespace(config=config, entrypoint=entrypoint, rest=list(rest), handler=handler, given=given)


def numbers(choice):
    return [int(choice.get(rank, 0)) if isinstance(choice, dict) else int(choice) for rank in range(10)]


def expected(theirs):
    """The same in the format of launch_requests. None: rollcall chooses the value."""
    config, handler = theirs.config, theirs.handler
    logs = config.logs_specs
    keys = set(theirs.given)
    alone = config.rdzv_endpoint == "localhost:0"
    static = config.rdzv_backend == "static"
    timeout = None if static else handler._settings.timeout
    place = [handler.master_addr, handler.master_port] if static else handler._store.place
    milliseconds = lambda duration: int(duration.total_seconds() * 1000)  # noqa: E731
    return {
        "nodes": [config.min_nodes, 1 if alone else config.max_nodes],
        "workers": config.nproc_per_node,
        "endpoint": None if alone else place,
        "run_id": None if alone else config.run_id,
        "node_rank": 0 if static else None,
        "host": None if static or "is_host" not in keys else config.rdzv_configs["is_host"].lower() in ("1", "true", "t", "yes", "y"),
        "local_address": config.local_addr or "",
        "join_timeout": milliseconds(timeout.join) if timeout else milliseconds(handler.timeout) if "timeout" in keys else None,
        "last_call_timeout": milliseconds(timeout.last_call) if timeout else None,
        "heartbeat_timeout": milliseconds(timeout.heartbeat) if timeout and "heartbeat_timeout" in keys else None,
        "warned": sorted(keys - READ_BY[config.rdzv_backend]),
        "role": config.role,
        "max_restarts": config.max_restarts,
        "shutdown_timeout": 30 if config.shutdown_timeout is None else config.shutdown_timeout,
        "program": theirs.rest if callable(theirs.entrypoint) else [theirs.entrypoint, *theirs.rest],
        "log_dir": logs._root_log_dir or "",
        "redirects": numbers(logs._redirects),
        "tee": numbers(logs._tee),
        "line_prefix": config.log_line_prefix_template or "[${role_name}${local_rank}]:",
        "shown": sorted(logs._local_ranks_filter or []),
        "filters": [config.duplicate_stdout_filters, config.duplicate_stderr_filters],
        "signals": [getattr(multiprocessing_api.signal, name.strip()) for name in config.signals_to_handle.split(",")],
        "virtual_local_rank": config.virtual_local_rank,
    }


def comparable(ours, theirs):
    """`ours`, limited to what `theirs` specifies."""
    own = {**ours, "warned": sorted(ours["warned"])}
    if callable(theirs.entrypoint):
        own["program"] = ours["program"][-len(theirs.rest):]
    return own


def refused_by_rollcall_only(arguments, environment, ours):
    """Command lines that torchrun accepts and then hangs or fails with."""
    standalone = any(word.replace("_", "-").startswith("--standalon") for word in arguments) or "PET_STANDALONE" in environment
    return standalone and "contradicts --standalone" in ours


@pytest.fixture
def torchrun_without_effects(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("PET_", "TORCHELASTIC_", "TORCH_ELASTIC_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(c10d_rendezvous_backend, "TCPStore", Store)
    monkeypatch.setattr(c10d_rendezvous_backend, "_matches_machine_hostname", lambda host: False)
    monkeypatch.setattr(torch_run.torch.multiprocessing, "_set_thread_name", lambda name: None)
    monkeypatch.setattr(multiprocessing_api.DefaultLogsSpecs, "__init__", multiprocessing_api.LogsSpecs.__init__)
    monkeypatch.setattr(torch_run.torch._utils, "cpu_count", lambda: 1)
    monkeypatch.setattr(socket, "getfqdn", lambda: "here")
    logging.disable(logging.CRITICAL)
    before = dict(os.environ)
    yield monkeypatch
    logging.disable(logging.NOTSET)
    os.environ.clear()
    os.environ.update(before)


def test_random_command_lines_are_parsed_like_torchrun(torchrun_without_effects):
    draw = random.Random(20260101)
    drawn = [command_line(draw) for _ in range(3000)]
    asked = "".join(json.dumps({"arguments": arguments, "environment": environment}) + "\n" for arguments, environment in drawn)
    done = subprocess.run([REQUESTS], input=asked, capture_output=True, text=True, timeout=DEADLINE, check=True)
    before = dict(os.environ)
    taken = 0
    for (arguments, environment), ours in zip(drawn, map(json.loads, done.stdout.splitlines()), strict=True):
        theirs = torchrun_result(arguments, environment, torchrun_without_effects)
        os.environ.clear()
        os.environ.update(before)
        case = f"{environment} {arguments}: {ours}"
        refused = ours.get("refused")
        if refused and theirs and refused_by_rollcall_only(arguments, environment, refused):
            continue
        assert bool(refused) == (theirs is None), case
        if theirs is None:
            continue
        taken += 1
        wanted = {name: value for name, value in expected(theirs).items() if value is not None}
        own = comparable(ours, theirs)
        if own["alone"] and not own["node_rank"]:
            wanted = {name: value for name, value in wanted.items() if name != "endpoint"}
        assert {name: own[name] for name in wanted} == wanted, case
    assert taken > 1000
