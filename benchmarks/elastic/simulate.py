#!/usr/bin/env python3
"""What scale.py would measure with more agents, over a network: a model (benchmarks/elastic/simulated_agents.cpp, SimGrid), of which
six numbers are fitted to what scale.py measured here.

    benchmarks/elastic/scale.py --agents=100,1000,3000 --json > measured.json
    $(scripts/setup --print-python) benchmarks/elastic/simulate.py --measured=measured.json [--build=DIR] [--predict=100000]
        [--gbits=25,100] [--heartbeat-seconds=60] [--fit-most=N] [--json] [--node-bytes=8.3 ...]

Whatever simulated_agents knows besides can be given, too: --node-bytes is what a node takes of the list that each agent is told. The
numbers are those with which the squares of log(simulated / measured) add up to the least. Prints them, then measured and simulated seconds,
then the prediction for each link of the coordinator: as fitted, where a byte costs the coordinator's processor what it costs over this
host's loopback, the receiving side of the kernel included; and as if bytes cost only the network.

--heartbeat-seconds is the heartbeat_timeout of the prediction: heartbeats of so many agents take a share of the coordinator's processor.
--fit-most: what was measured with more agents is not fitted to, and shows how well the model foretells it."""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np
from scipy.optimize import least_squares

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = "benchmarks/elastic/simulated_agents"
COSTS = {"connect-us": 60, "join-us": 85, "message-us": 12, "agent-us": 20, "byte-ns": 1, "slowdown": 1}  # where the search begins
FIGURES = ["joined_seconds", "told_seconds", "next_generation_seconds", "coordinator_cpu_seconds"]
SHORTEST_CPU = 0.05  # seconds: Linux tells processor time in hundredths
HEARTBEAT_SECONDS = 20  # of scale.py
STEP = 0.02  # of a cost's logarithm
PRIOR = 0.1  # how much it counts that a cost is far from where the search begins: what the figures do not tell stays there


class Impossible(Exception):
    """The model has no answer; the text says why."""


def simulated(options, agents, *arguments, **parameters):
    """What simulated_agents prints."""
    command = [options.build / PROGRAM, agents, *options.more, *arguments,
               *(f"--{name}={value:.6g}" for name, value in parameters.items())]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Impossible(done.stderr.strip())
    return json.loads(done.stdout)


def compared(measured):
    """(agents, figure) of all that can be compared."""
    return [(agents, name) for agents, figures in measured.items() for name in FIGURES
            if name in figures and figures[name] > (SHORTEST_CPU if name == "coordinator_cpu_seconds" else 0)]


def simulated_here(options, measured, costs):
    """{agents: what scale.py would have measured}"""
    return {agents: simulated(options, agents, **costs, **{"heartbeat-seconds": HEARTBEAT_SECONDS}) for agents in measured}


def fit(options, measured):
    """{cost: value}"""
    pairs = compared(measured)
    start = np.log(list(COSTS.values()))

    def differences(logarithms):
        of = simulated_here(options, measured, dict(zip(COSTS, np.exp(logarithms))))
        errors = [math.log(max(of[agents][name], 1e-6) / measured[agents][name]) for agents, name in pairs]
        return np.array([*errors, *(PRIOR * (logarithms - start))])

    def slopes(logarithms):
        here = differences(logarithms)
        return np.stack([(differences(logarithms + STEP * side) - here) / STEP for side in np.eye(len(start))], axis=1)

    return dict(zip(COSTS, np.exp(least_squares(differences, start, slopes, method="lm").x)))


def predictions(options, costs):
    for gbits in options.gbits:
        network = {"gbits": gbits, "heartbeat-seconds": options.heartbeat_seconds}
        for name, changed in {"as fitted": {}, "bytes cost only the network": {"byte-ns": 0}}.items():
            each = {"agents": options.predict, "gbits": gbits, "costs": name}
            try:
                yield each | simulated(options, options.predict, "--network", **costs | changed | network)
            except Impossible as reason:
                yield each | {"reason": str(reason)}


def show(measured, costs, fitted, predicted):
    print("fitted: " + ", ".join(f"{name} {value:.3g}" for name, value in costs.items()))
    print(f"{'agents':>8} {'figure':28} {'measured':>10} {'simulated':>10}")
    for agents, name in compared(measured):
        print(f"{agents:>8} {name:28} {measured[agents][name]:10.4f} {fitted[agents][name]:10.4f}")
    for each in predicted:
        figures = [f"{name} {each[name]:.4g}" for name in [*FIGURES, "coordinator_queued_mib", "heartbeat_share"] if name in each]
        print(f"{each['agents']} agents, {each['gbits']:g} Gb/s, {each['costs']}:", each.get("reason", ", ".join(figures)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, default=os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build/release"))
    parser.add_argument("--predict", type=int, default=100000)
    parser.add_argument("--gbits", type=lambda text: [float(part) for part in text.split(",")], default=[25.0, 100.0])
    parser.add_argument("--heartbeat-seconds", type=float, default=60)
    parser.add_argument("--fit-most", type=float, default=math.inf)
    parser.add_argument("--json", action="store_true")
    options, options.more = parser.parse_known_args()
    if not (options.build / PROGRAM).exists():
        sys.exit(f"{options.build / PROGRAM} is not built; simulated_agents.cpp says what it needs")
    measured = json.loads(options.measured.read_text())
    try:
        costs = fit(options, {agents: figures for agents, figures in measured.items() if int(agents) <= options.fit_most})
        fitted = simulated_here(options, measured, costs)
    except Impossible as reason:
        sys.exit(str(reason))
    predicted = list(predictions(options, costs))
    if options.json:
        print(json.dumps({"costs": costs, "measured": measured, "simulated": fitted, "predicted": predicted}))
    else:
        show(measured, costs, fitted, predicted)


if __name__ == "__main__":
    main()
