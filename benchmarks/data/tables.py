"""The results of compare_loaders.py as tables and as JSON. `runs`: {(setting, contestant's name): [quiet_run.Run, ...]}."""
import dataclasses
import os
import platform
import statistics

BASELINES = {"dali": "x DALI", "torchvision": "x torchv."}


def images_per_second(run):
    return run.result["images_per_second"]


def images_per_cpu_second(run):
    return run.result["images_per_cpu_second"]


def ratio(runs, setting, name, baseline, rate):
    """The median of the rounds' ratios, or None where one of the two is not there."""
    pairs = [rate(a) / rate(b) for a, b in zip(runs[setting, name], runs.get((setting, baseline), []))]
    return statistics.median(pairs) if pairs else None


def measured(runs, setting):
    return {name: mine for (of, name), mine in runs.items() if of == setting and mine}


def print_rates(setting, runs):
    ratios = "".join(f" {title:>9}" for title in BASELINES.values())
    print(f"\n{setting}")
    print(f"  {'':24} {'images/s: median (min - max)':>28}{ratios}  | {'per CPU s':>9}{ratios}  | others' CPU use")
    for name, mine in measured(runs, setting).items():
        rates = [images_per_second(run) for run in mine]
        spread = f"{statistics.median(rates):.1f} ({min(rates):.1f} - {max(rates):.1f})"
        per_cpu = statistics.median(map(images_per_cpu_second, mine))
        others = [run.disturbance() for run in mine]
        print(f"  {name:24} {spread:>28}{ratio_columns(runs, setting, name, images_per_second)}  | {per_cpu:9.1f}"
              f"{ratio_columns(runs, setting, name, images_per_cpu_second)}  | {statistics.median(others):.0%}, at most {max(others):.0%}")


def ratio_columns(runs, setting, name, rate):
    values = [ratio(runs, setting, name, baseline, rate) for baseline in BASELINES]
    return "".join(f" {value:9.2f}" if value else f" {'-':>9}" for value in values)


def print_memory(settings, runs):
    """Peaks of all processes together; what one more worker adds is the difference of two workers and one."""
    together = {}
    for setting in settings:
        print(f"\n{setting}: peak memory, MiB")
        print(f"  {'':24} {'all, shared once':>17} {'caller':>8}  workers' own processes")
        for name, mine in measured(runs, setting).items():
            run = max(mine, key=lambda r: r.peak_together_mb)
            caller, *workers = run.peak_rss_mb or [0]
            together[setting.workers, name] = run.peak_together_mb
            print(f"  {name:24} {run.peak_together_mb:17.0f} {caller:8.0f}  {' '.join(f'{w:.0f}' for w in workers) or '-'}")
    print("\none more worker: MiB")
    for (workers, name), two in together.items():
        if workers == 2 and (1, name) in together:
            print(f"  {name:24} {two - together[1, name]:17.0f}")


def as_json(runs, absent, versions, options):
    results = [one_result(runs, setting, name) for (setting, name), mine in runs.items() if mine]
    return {"benchmark": "data loaders", "unit": "images/s", "images": options.images, "batch_size": options.batch_size,
            "image_size": options.image_size, "cold": options.cold, "machine": platform.machine(), "kernel": platform.release(),
            "cpus": os.cpu_count(), "versions": versions, "left_out": absent, "results": results}


def one_result(runs, setting, name):
    mine = runs[setting, name]
    rates = [images_per_second(run) for run in mine]
    return {"contestant": name, "workers": setting.workers, "cpus": setting.cpus,
            "images_per_second": {"min": min(rates), "median": statistics.median(rates), "max": max(rates)},
            "images_per_cpu_second": statistics.median(map(images_per_cpu_second, mine)),
            **{f"ratio_to_{baseline}": ratio(runs, setting, name, baseline, images_per_second) for baseline in BASELINES},
            "runs": [dataclasses.asdict(run) for run in mine]}
