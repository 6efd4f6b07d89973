#!/usr/bin/env python3
"""Breaks the code on purpose, in a copy of the tree, one entry of tests/mutations/*.toml at a time, and expects its test to fail.

First the tests of the unbroken tree must pass. Exits with 1 where a break went unnoticed that no entry argues for, where an
entry means nothing (its code is gone, it does not compile), or where fewer than 95 % of all breaks were noticed."""
import argparse
import collections
import json
import pathlib
import random
import signal
import sys
import time

import entries
import tree_copy

FOLDER = entries.ROOT / "build" / "mutations"
LEAST_SHARE = 0.95
FIRST_RUN_SECONDS = 900
NOTICED, TIMED_OUT, SURVIVED, ARGUED = "noticed", "timed out", "survived", "argued"
UNFIT, DAMAGED, BLIND, ABSENT = "does not compile", "damaged", "fails unbroken", "cannot run here"
MEANING = {
    NOTICED: "the test failed, as it must", TIMED_OUT: "noticed: the test hung and was ended",
    SURVIVED: "nothing noticed it", ARGUED: "nothing noticed it, and the entry says why none can",
    UNFIT: "the broken code is refused by the compiler", DAMAGED: "the entry does not fit the tree",
    BLIND: "its test fails without any break", ABSENT: "its test is skipped on this machine"}


def read_options():
    parser = argparse.ArgumentParser(prog="scripts/test --mutations", description=__doc__.partition("\n")[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="only entries whose name or area fits, as in a shell")
    parser.add_argument("--list", action="store_true", help="print the entries and end")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the outcomes there, after each break")
    parser.add_argument("--continue", dest="goes_on", action="store_true",
                        help="do not try again what --json's file tells of: for a run that was ended, on the same code")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of the entries, drawn at random: an hour's worth, say")
    parser.add_argument("--seed", type=int, default=1, help="which ones --sample draws (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at once (default 2)")
    parser.add_argument("--patience", type=float, default=60, metavar="SECONDS",
                        help="how much longer than ten times its usual time a test may take (default 60)")
    options = parser.parse_args()
    if options.goes_on and not options.json:
        parser.error("--continue needs --json=FILE")
    return options


def say(text):
    print(text, flush=True)


def log(name, text):
    folder = FOLDER / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.log").write_text(text)


def first_runs(copy, mutations):
    """The state of each distinct test without any break: None where it passes, else the outcome of its entries; and its seconds."""
    states = {}
    tests = {mutation.test: mutation for mutation in mutations}
    for number, (test, mutation) in enumerate(tests.items(), 1):
        status, output, seconds = copy.test(mutation, FIRST_RUN_SECONDS)
        passed = tree_copy.tests_passed(mutation, output)
        states[test] = (None if status == 0 and passed else ABSENT if status in (0, 5) else BLIND, seconds)
        if states[test][0]:
            log(f"unbroken-{number}", f"{test}\n{output}")
            say(f"unbroken: {test}: {states[test][0]}, see {FOLDER}/logs/unbroken-{number}.log")
    say(f"unbroken: {len(tests)} tests run, {sum(state is None for state, _ in states.values())} pass")
    return states


def try_one(copy, mutation, unbroken_seconds, options):
    """Applies, builds, tests and reverts one break: its outcome."""
    text = (copy.source / mutation.file).read_text()
    copy.write(mutation, text.replace(mutation.before, mutation.after))
    try:
        status, output = copy.build(mutation.targets, options.jobs)
        if status != 0:
            log(mutation.name, output)
            return UNFIT
        status, output, _ = copy.test(mutation, options.patience + 10 * unbroken_seconds)
    finally:
        copy.write(mutation, text)
    log(mutation.name, output)
    if status == 0:
        return ARGUED if mutation.survives else SURVIVED
    return TIMED_OUT if status is None else NOTICED


def outcome_of(copy, mutation, states, options):
    if entries.fault(mutation, copy.source):
        return DAMAGED
    state, seconds = states[mutation.test]
    return state or try_one(copy, mutation, seconds, options)


def try_all(copy, mutations, states, outcomes, options):
    """Adds to `outcomes` those of `mutations`."""
    begun = time.monotonic()
    for number, mutation in enumerate(mutations, 1):
        before = time.monotonic()
        outcomes[mutation.name] = outcome_of(copy, mutation, states, options)
        if options.json:
            write_json(options.json, outcomes)
        now = time.monotonic()
        left = (now - begun) / number * (len(mutations) - number)
        say(f"[{number}/{len(mutations)}] {outcomes[mutation.name]}: {mutation.area}: {mutation.name}"
            f" ({now - before:.0f} s, {left / 60:.0f} min left)")


def table(mutations, outcomes):
    counts = collections.Counter((mutation.area, outcomes[mutation.name]) for mutation in mutations)
    shown = [outcome for outcome in MEANING if any(outcome == given for _, given in counts)]
    areas = sorted({mutation.area for mutation in mutations})
    lines = [f"{'area':<14}{'breaks':>8}" + "".join(f"{outcome:>18}" for outcome in shown)]
    for area in areas:
        row = [counts[area, outcome] for outcome in shown]
        lines.append(f"{area:<14}{sum(row):>8}" + "".join(f"{count:>18}" for count in row))
    totals = [sum(counts[area, outcome] for area in areas) for outcome in shown]
    lines.append(f"{'all':<14}{sum(totals):>8}" + "".join(f"{count:>18}" for count in totals))
    return lines


def faults(mutations, outcomes, whole):
    """What makes the run fail, one line each."""
    lines = []
    for mutation in mutations:
        outcome = outcomes[mutation.name]
        if outcome in (SURVIVED, UNFIT, DAMAGED, BLIND):
            lines.append(f"{mutation.area}: {mutation.name}: {outcome}: {entries.fault(mutation) or MEANING[outcome]}\n"
                         f"    harm: {mutation.harm}\n    test: {mutation.test}")
        if outcome in (NOTICED, TIMED_OUT) and mutation.survives:
            lines.append(f"{mutation.area}: {mutation.name}: is noticed, though the entry argues that it cannot be")
    tried = [outcomes[mutation.name] for mutation in mutations if outcomes[mutation.name] != ABSENT]
    noticed = sum(outcome in (NOTICED, TIMED_OUT) for outcome in tried)
    if whole and noticed < LEAST_SHARE * len(tried):
        lines.append(f"{noticed} of {len(tried)} breaks were noticed, fewer than {LEAST_SHARE:.0%}")
    return lines


def write_json(path, outcomes):
    """Of all entries that `outcomes` has, whichever this run is to try."""
    rows = [{"area": mutation.area, "name": mutation.name, "outcome": outcomes[mutation.name], "file": mutation.file,
             "test": mutation.test, "survives": mutation.survives} for mutation in entries.load() if mutation.name in outcomes]
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(json.dumps({"mutations": rows}, indent=2) + "\n")
    beside.replace(path)


def outcomes_so_far(options):
    if not options.goes_on or not options.json.exists():
        return {}
    return {row["name"]: row["outcome"] for row in json.loads(options.json.read_text())["mutations"]}


def prepare(copy, mutations, jobs):
    """The copy with everything built; a text where that failed."""
    copy.synchronise()
    for what, (status, output) in (("configure", copy.configure()),
                                   ("build", copy.build(sorted({t for m in mutations for t in m.targets}), jobs))):
        log(what, output)
        if status != 0:
            return f"the unbroken tree: {what} failed, see {FOLDER}/logs/{what}.log"
    return None


def main():
    options = read_options()
    try:
        mutations = entries.chosen(entries.load(), options.patterns)
    except entries.Damaged as error:
        sys.exit(f"mutations: {error}")
    if options.sample is not None and options.sample < len(mutations):
        drawn = random.Random(options.seed).sample(mutations, options.sample)
        mutations = [mutation for mutation in mutations if mutation in drawn]
    if not mutations:
        sys.exit(f"mutations: {' '.join(options.patterns)}: fits no entry; try --list")
    if options.list:
        for mutation in mutations:
            say(f"{mutation.area:<14}{mutation.name:<60}{mutation.test}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was started is ended
    tree_copy.adopt_orphans()
    try:
        copy = tree_copy.TreeCopy(entries.ROOT, FOLDER)
    except BlockingIOError:
        sys.exit(f"mutations: {FOLDER}: another run is using it; try later")
    say(f"{len(mutations)} breaks, in a copy of the tree: {copy.source}")
    if failure := prepare(copy, mutations, options.jobs):
        sys.exit(f"mutations: {failure}")
    outcomes = outcomes_so_far(options)
    left = [mutation for mutation in mutations if mutation.name not in outcomes]
    try_all(copy, left, first_runs(copy, left), outcomes, options)
    wrong = faults(mutations, outcomes, whole=not options.patterns)
    say("\n" + "\n".join([*table(mutations, outcomes), "", *wrong]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
