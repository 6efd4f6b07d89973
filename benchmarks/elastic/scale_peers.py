#!/usr/bin/env python3
"""What scale.py measures of `rollcall run`, of others by which many processes find each other, on this host:

  torchrun   its rendezvous: a process an agent, as torchrun makes it of --nnodes=N-1:N, without workers (torch_peers.py)
  store      a barrier of clients of PyTorch's TCPStore, all in one process: what a rendezvous over a store takes at least
  pmix       PMIx_Fence of processes that `srun --mpi=pmix` starts on a throwaway cluster (pmix_peer.py, pmix_fence.c)

    $(scripts/setup --print-python) benchmarks/elastic/scale_peers.py [--peers=torchrun,store,pmix] [--agents=10,100] [--rounds=3]
        [--limit=120] [--json]

Prints for each number of agents medians of the rounds, in scale.py's words: until all had joined, until all knew of one that was lost,
until all were in the next generation; memory and processor time of the process that holds the store. `barrier_seconds`: of a barrier
alone, once all are connected. What does not happen within --limit seconds is said so (null in JSON), and not tried with more agents, nor
are more than 1,000 where each is a process. For N clients of a store N open files are needed on each side (ulimit -n).

torchrun's agents notice a loss when its last heartbeat is 15 s old, and wait 30 s for more than MIN nodes: both are its defaults. They do
nothing by themselves about a node that is gone; here they are taken to know once their own state of the rendezvous is without it."""
import argparse
import json
import os
import resource
import statistics

MOST_PROCESSES = 1000


def quiet():
    """For this process and its children, before torch is imported."""
    os.environ["RES_OPTIONS"] = "attempts:0"  # c10d looks up the name of each address that it connects to: no name server is measured here
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def median_of(rounds):
    """Of each figure; a round in which it was not reached counts as longer than all others."""
    of = {name: statistics.median([float("inf") if each[name] is None else each[name] for each in rounds]) for name in rounds[0]}
    return {name: None if value == float("inf") else value for name, value in of.items()}


def measure(peer, measure_round, options):
    """{agents: figures}; prints them as they come."""
    result = {}
    for agents in sorted(options.agents):
        if peer != "store" and agents > MOST_PROCESSES:
            break
        rounds = []
        while len(rounds) < options.rounds and all(each["joined_seconds"] is not None for each in rounds):
            rounds.append(measure_round(agents, options.limit))
        all_joined = rounds[-1]["joined_seconds"] is not None
        result[agents] = median_of(rounds) if all_joined else rounds[-1]
        if not options.json:
            figures = [f"{name} {told(value, options.limit)}" for name, value in result[agents].items()]
            print(f"{peer:8} {agents:6d} agents:", ", ".join(figures), flush=True)
        if not all_joined:
            break
    return result


def told(value, limit):
    if value is None:
        return f"not within {limit:g} s"
    return value if isinstance(value, str) else f"{value:.3f}"


def of_torch(peer, options):
    try:
        import torch_peers
    except ImportError as error:
        return {"skipped": f"{error}; try using the Python that scripts/setup --print-python prints"}
    return measure(peer, {"torchrun": torch_peers.torchrun, "store": torch_peers.store}[peer], options)


def of_pmix(peer, options):
    import pmix_peer
    try:
        with pmix_peer.cluster(min(max(options.agents), MOST_PROCESSES)) as run:
            return measure(peer, run, options)
    except pmix_peer.Skipped as reason:
        return {"skipped": str(reason)}


PEERS = {"torchrun": of_torch, "store": of_torch, "pmix": of_pmix}


def command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--agents", default="10,100")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.agents = [int(number) for number in options.agents.split(",")]
    options.peers = options.peers.split(",")
    if unknown := set(options.peers) - set(PEERS):
        parser.error(f"--peers: {', '.join(unknown)}: is none of {', '.join(PEERS)}")
    return options


def main():
    options = command_line()
    quiet()
    result = {}
    for peer in options.peers:
        result[peer] = PEERS[peer](peer, options)
        if not options.json and "skipped" in result[peer]:
            print(f"{peer:8} skipped: {result[peer]['skipped']}", flush=True)
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
