#!/usr/bin/env python3
"""What strangers at the endpoint of a `rollcall run` cost: memory of the coordinator, and how long an honest agent takes to be in.

    benchmarks/elastic/strangers.py [--connections=5000] [--build=build/release]

Each stranger connects and says nothing, half of an opening, an opening, an opening and garbage, or garbage. Those who are hung up on come
again for as long as it lasts.
"""
import argparse
import contextlib
import os
import pathlib
import resource
import selectors
import socket
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).parents[2]
OPENING = b"rollcall sealed1"


def strangers(port, number, over, counts):
    with contextlib.ExitStack() as open_ones:
        keep_coming(open_ones, port, number, over, counts)


def keep_coming(open_ones, port, number, over, counts):
    says = (b"", OPENING[:8], OPENING + os.urandom(32), OPENING + os.urandom(32) + b"\0\0\x1f\x40" + os.urandom(100), os.urandom(200))
    waiting = open_ones.enter_context(selectors.DefaultSelector())
    open_ones.callback(lambda: [key.fileobj.close() for key in list(waiting.get_map().values())])
    for turn in range(number):
        connect(waiting, port, says[turn % len(says)])
    counts["ready"] = True
    while not over.is_set():
        for key, _ in waiting.select(0.1):
            try:
                left = not key.fileobj.recv(4096)
            except OSError:
                left = True
            if left:
                waiting.unregister(key.fileobj)
                key.fileobj.close()
                counts["again"] += 1
                try:
                    connect(waiting, port, key.data)
                except ConnectionError:  # the run has ended
                    return


def connect(waiting, port, said):
    stranger = socket.create_connection(("127.0.0.1", port))
    stranger.setblocking(False)
    try:
        stranger.send(said)
    except OSError:
        pass
    waiting.register(stranger, selectors.EVENT_READ, said)


def resident(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for number in (0, given.connections):
        took = []
        for _ in range(given.times):
            with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
                free.close()
                line = [given.build / "runtime/rollcall", "run", "--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}",
                        "--no-python", "true"]
                env = {**os.environ, "XDG_STATE_HOME": folder}
                first = subprocess.Popen(line, env=env, stderr=subprocess.PIPE, text=True)
                first.stderr.readline()
                over, counts = threading.Event(), {"again": 0}
                crowd = threading.Thread(target=strangers, args=(port, number, over, counts))
                crowd.start()
                while "ready" not in counts:
                    time.sleep(0.01)
                begin = time.monotonic()
                second = subprocess.Popen(line, env=env, stderr=subprocess.PIPE, text=True)
                while not (line_ := first.stderr.readline()).startswith("rollcall: run: generation") and line_:
                    pass
                took.append(time.monotonic() - begin)
                peak = resident(first.pid) if first.poll() is None else float("nan")
                second.communicate()
                over.set()
                first.communicate()
                crowd.join()
        took.sort()
        print(f"{number} strangers: an honest agent is in after {took[len(took) // 2]:.3f} s (median of {given.times}; {took[-1]:.3f} s "
              f"at most); the coordinator's memory at its peak: {peak:.1f} MiB; strangers came again {counts['again']} times")


if __name__ == "__main__":
    main()
