"""What the benchmarks share: where the build is, interleaved repeats, medians and their ratio."""
import argparse
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def parser(description, runs):
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="build folder of rollcall")
    p.add_argument("--runs", type=int, default=runs, help="counted runs of each side, interleaved after one warm-up")
    p.add_argument("--json", action="store_true", help="print one JSON object")
    return p


def python():
    """The interpreter that has torch."""
    return subprocess.run([ROOT / "scripts" / "setup", "--print-python"], check=True, capture_output=True, text=True).stdout.strip()


def interleaved(sides, runs):
    """{name: function -> number} -> {name: [numbers]}: one uncounted round, then A B C A B C ..."""
    for measure in sides.values():
        measure()
    results = {name: [] for name in sides}
    for _ in range(runs):
        for name, measure in sides.items():
            results[name].append(measure())
    return results


def report(title, unit, results, ratio, as_json):
    """ratio: (numerator, denominator): the median of the pairwise ratios is printed."""
    pairs = [a / b for a, b in zip(results[ratio[0]], results[ratio[1]])]
    summary = {name: {"min": min(v), "median": statistics.median(v), "max": max(v)} for name, v in results.items()}
    if as_json:
        print(json.dumps({"benchmark": title, "unit": unit, "results": summary, "ratio": statistics.median(pairs),
                          "ratio_of": ratio, "cpus": os.cpu_count(), "machine": platform.machine()}))
        return
    print(f"{title} ({unit}; min / median / max of {len(pairs)})")
    for name, v in summary.items():
        print(f"  {name:32} {v['min']:9.3f} {v['median']:9.3f} {v['max']:9.3f}")
    print(f"  {ratio[0]} / {ratio[1]}: {statistics.median(pairs):.2f} (pairwise {min(pairs):.2f} to {max(pairs):.2f})")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def output_of_ranks(command, ranks, threads=1, **variables):
    """Runs a command as so many ranks of one host, which find each other as torchrun's do, and returns what they print; one rank gets
    no RANK."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **variables}
    if ranks == 1:
        return run(command, env=environment)
    environment.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks))
    processes = [subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True,
                                  env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(ranks)]
    output = "".join(p.communicate()[0] for p in processes)
    if any(p.returncode != 0 for p in processes):
        sys.exit(f"{' '.join(map(str, command))}: exit codes {[p.returncode for p in processes]}\n{output}")
    return output


def run_ranks(command, ranks, threads=1):
    """output_of_ranks() of a program whose rank 0 prints one JSON object: that object."""
    return json.loads(output_of_ranks(command, ranks, threads))


def run(command, **kwargs):
    """stdout of a command that must succeed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
