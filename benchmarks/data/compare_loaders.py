#!/usr/bin/env python3
"""Images/s of rollcall's data loader and of Python's, on the same photos in the same run: rounds interleaved, order rotated.

RandomResizedCrop(224) + flip + normalise into batches of 64. On one CPU: in the caller (0 workers; a peer that always has
a thread keeps it), then with 1 worker; on two CPUs with 2 workers. Install the peers with benchmarks/data/setup-peers.
"""
import dataclasses
import json
import os
import pathlib
import platform
import sys

import contestants as field
import page_cache
import quiet_run
import tables
from contestants import measure

@dataclasses.dataclass(frozen=True)
class Setting:
    workers: int
    cpus: tuple

    def __str__(self):
        return f"{len(self.cpus)} CPU, {self.workers} worker(s)"


def main():
    options = read_options()
    settings = [Setting(workers, tuple(options.cpus[:max(1, workers)])) for workers in options.workers]
    field.photos(options)
    present, absent, versions = prepared(field.all_contestants(options))
    print_machine(options, versions)
    runs = {(s, c.name): [] for s in settings for c in present}
    for number in range(options.runs):
        for setting in settings:
            rotation = number % max(1, len(present))
            for contestant in present[rotation:] + present[:rotation]:
                if contestant.name not in absent:
                    measure_one(contestant, setting, options, runs, absent)
    if options.json:
        print(json.dumps(tables.as_json(runs, absent, versions, options)))
    elif options.memory:
        tables.print_memory(settings, runs)
    else:
        for setting in settings:
            tables.print_rates(setting, runs)
    for name, reason in absent.items():
        say(f"{name}: left out: {reason}")


def read_options():
    p = measure.parser(__doc__, runs=5)
    p.add_argument("--photos", type=pathlib.Path, default=measure.ROOT / "build" / "photos", help="made there unless it exists")
    p.add_argument("--images", type=int, default=2000)
    p.add_argument("--only", nargs="+", metavar="NAME", help="only these contestants")
    p.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], choices=(0, 1, 2))
    p.add_argument("--cpus", type=int, nargs="+", default=sorted(os.sched_getaffinity(0), reverse=True)[:2],
                   help="the first is that of all one-CPU runs")
    p.add_argument("--epochs", type=int, default=3, help="of each run; the first is not counted")
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--image-size", type=int, default=224)
    p.add_argument("--cold", action="store_true", help="read files that are not in the page cache")
    p.add_argument("--memory", action="store_true", help="print peak memory instead of rates")
    p.add_argument("--tries", type=int, default=3, help="of a run during which others used more than --tolerate of a CPU")
    p.add_argument("--tolerate", type=float, default=0.05)
    p.add_argument("--timeout", type=float, default=600, help="seconds, of one run")
    options = p.parse_args()
    options.build, options.photos = options.build.resolve(), options.photos.resolve()
    if max(options.workers) > len(options.cpus):
        p.error(f"{max(options.workers)} workers need as many CPUs; try --cpus or --workers")
    return options


def prepared(contestants):
    """Those that can take part, the others' reasons, and the versions of all."""
    present, absent, versions = [], {}, {}
    for contestant in contestants:
        try:
            versions.update(contestant.prepare())
            present.append(contestant)
        except field.Absent as reason:
            absent[contestant.name] = str(reason)
    return present, absent, versions


def measure_one(contestant, setting, options, runs, absent):
    command = contestant.arguments(setting.workers, options.epochs, options.cold)
    if options.cold:
        page_cache.drop(*contestant.reads)
        cached = page_cache.cached_share(*contestant.reads)
    try:
        run = quiet_run.quietest(command, setting.cpus, 1 if options.memory or options.cold else options.tries,
                                 options.tolerate, timeout=options.timeout, watch_memory=options.memory)
    except quiet_run.Failed as reason:
        absent[contestant.name] = f"{setting}: {reason}"
        return
    if options.cold and contestant.reads:
        run.result["cached_before_epochs"] = [cached]
    runs[setting, contestant.name].append(run)
    cached_text = f"; {max(run.result['cached_before_epochs']):.0%} was cached" if options.cold else ""
    disturbed = "" if run.disturbance() <= options.tolerate else "  DISTURBED"
    say(f"{contestant.name:24} {setting}: {run.result['images_per_second']:7.1f} images/s; others used "
        f"{run.others_here:.0%} here, {run.others_elsewhere:.0%} elsewhere; tries: {run.tries}{cached_text}{disturbed}")


def say(line):
    print(line, file=sys.stderr, flush=True)


def print_machine(options, versions):
    cpu = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                if line.startswith("model name")), platform.machine())
    commit = measure.run(["git", "-C", measure.ROOT, "describe", "--always", "--dirty"]).strip()
    say(f"{cpu}, {os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}")
    say(f"commit {commit}; " + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())))
    say(f"{options.images} photos in {options.photos}, batch {options.batch_size}, {options.image_size} pixels, {options.runs} rounds of "
        f"{options.epochs} epochs{', page cache dropped' if options.cold else ''}; load average {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
