#!/usr/bin/env python3
"""Writes the metrics.jsonl of a training that never was, as long and of as many ranks as wanted, for measuring what reads it.

  benchmarks/report/make_run.py --steps=10000000 --ranks=4096 /tmp/run
  /usr/bin/time -v build/release/trainer/rollcall-report /tmp/run

The same options give the same bytes. A tenth of the steps is lost to a restart in the middle; one rank is a straggler in the last third.
"""
import argparse
import json
import math
import pathlib
import random


def begin(options, step, time, restart):
    """The record of a start."""
    nodes = max(1, options.ranks // 4)
    settings = {"model": {"value": "resnet50", "origin": "default"}, "lr": {"value": str(options.lr), "origin": "--lr"},
                "batch-size": {"value": "64", "origin": "default"}}
    environment = [{"name": "MASTER_ADDR", "value": "node0000i", "action": "set", "origin": "setting host.template",
                    "reason": "rank 0 is on node0000, rule {host}i"}]
    return {"event": "begin", "schema": 1, "step": step, "rollcall": "0.1.0", "libtorch": "2.15.0", "job": "4711",
            "restart_count": restart, "run": "", "job_ends": None, "ranks": options.ranks, "nodes": nodes,
            "hosts": [f"node{i:04}" for i in range(nodes)],
            "ranks_of_hosts": [options.ranks // nodes] * nodes, "cpus_of_rank": 8, "backend": "gloo", "rendezvous": "pmix node0000i:20000",
            "model": "resnet50", "data": "/scratch/imagenet",
            "checkpoint_folder": "/scratch/run", "resolved_checkpoint_folder": "/scratch/run",
            "classes": 1000, "training_images": 1281167, "validation_images": 50000,
            "images_of_step": 64 * options.ranks, "steps_of_epoch": options.steps // 90 + 1, "epochs": 90, "max_steps": options.steps,
            "settings": settings, "environment": environment, "energy_of": "node", "time": time}


def ranks_record(options, step, time, rng):
    """What each rank's steps took; the last rank but one is slow towards the end."""
    slow = options.ranks - 2 if step > options.steps * 2 / 3 else -1
    forward = [0.05 * (1 + 0.03 * rng.random()) * (1.6 if rank == slow else 1) for rank in range(options.ranks)]

    def numbers(values):
        return [float(f"{value:.4g}") for value in values]
    return {"event": "ranks", "step": step, "data_seconds": numbers(0.002 * rng.random() for _ in forward),
            "forward_seconds": numbers(forward), "backward_seconds": numbers(0.1 + 0.01 * rng.random() for _ in forward),
            "wait_seconds": numbers(max(forward) - value for value in forward),
            "peak_memory_mib": numbers(3000 + 100 * rng.random() for _ in forward),
            "cpu_seconds": numbers(1 + 0.05 * rng.random() for _ in forward),
            "loader_utilisation": numbers(0.4 + 0.1 * rng.random() for _ in forward),
            "energy_joules": [float(f"{9000 + 500 * rng.random():.4g}") if rank % 4 == 0 else None for rank in range(options.ranks)],
            "time": time}


def records(options):
    """All records, in their order."""
    rng = random.Random(options.seed)
    time, step, restarted = 1.8e9, 0, False
    yield begin(options, 0, time, 0)
    time += 30
    while step < options.steps:
        step += options.log_steps
        seconds = options.log_steps * (0.2 + 0.02 * rng.random())
        time += seconds
        progress = step / options.steps
        loss = 6.9 * math.exp(-4 * progress) + 0.8 + 0.3 * rng.random()
        top1 = 0.76 * (1 - math.exp(-5 * progress))
        yield {"event": "step", "step": step, "epoch": int(90 * progress), "loss": loss, "top1": top1, "top5": min(1.0, top1 * 1.2),
               "samples": 64 * options.ranks * options.log_steps,
               "learning_rate": options.lr * (1 + math.cos(math.pi * progress)) / 2,
               "images_per_second": 64 * options.ranks * options.log_steps / seconds, "data_wait_seconds": 0.01 * seconds,
               "data_wait_fraction": 0.01, "loader_utilisation_of_rank_0": 0.6, "steps": options.log_steps, "seconds": seconds,
               "forward_seconds": 0.3 * seconds, "backward_seconds": 0.5 * seconds, "wait_seconds": 0.05 * seconds,
               "optimizer_seconds": 0.1 * seconds, "time": round(time, 3)}
        if options.ranks_every and step % (options.ranks_every * options.log_steps) == 0:
            yield ranks_record(options, step, round(time, 3), rng)
        if options.saves and step % max(options.steps // options.saves, options.log_steps) == 0:
            yield {"event": "checkpoint", "step": step, "written": True, "tries": 1, "stall_seconds": 0.01, "durable_seconds": 2 + rng.random(),
                   "time": round(time, 3)}
            time += 20
            yield {"event": "validation", "epoch": int(90 * progress), "step": step, "loss": loss + 0.2, "top1": top1 * 0.98,
                   "top5": min(1.0, top1 * 1.18), "samples": 50000, "seconds": 20.0, "time": round(time, 3)}
        if not restarted and step >= options.steps * 6 // 10:
            restarted, step, time = True, options.steps // 2, time + 300
            yield begin(options, step, round(time, 3), 1)
            yield {"event": "resume", "global_step": step, "time": round(time, 3)}
            time += 30
    yield {"event": "end", "ending": "finished", "step": step, "data_wait_fraction": 0.01, "peak_memory_bytes_of_rank_0": 3 << 30,
           "cpu_seconds_of_rank_0": 7 * time % 1e6, "time": round(time, 3)}


def main():
    """Writes DIR/metrics.jsonl."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--log-steps", type=int, default=1, help="steps of a record")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--ranks-every", type=int, default=100, help="records of steps to one of all ranks; 0: none")
    parser.add_argument("--saves", type=int, default=90, help="checkpoints and validations")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with open(options.folder / "metrics.jsonl", "w", encoding="utf-8", buffering=1 << 20) as file:
        for record in records(options):
            file.write(json.dumps(record, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
