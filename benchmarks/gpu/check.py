"""scripts/gpu-check run: what is looked at, in which order."""
import sys

import start
import throughput
import trainings
from machine import Machine
from report import FAILED, Budget, Failure, Report


def run(options):
    try:
        machine = Machine(options.bundle, options.python)
    except Failure as error:
        print(f"rollcall: gpu-check: {error}", file=sys.stderr)
        return 69
    report = Report(Budget(60 * options.minutes), machine.why_no_gpu(), options.json)
    report.facts = machine.facts()
    for name, fact in report.facts.items():
        print(f"{name}: {fact}")
    if report.no_gpu and not report.facts["gpu"].startswith("not told"):
        report.line("the GPU that nvidia-smi shows", FAILED, report.no_gpu)
    if options.only != "throughput":
        trainings.check(machine, report)
    if options.only != "checks":
        start.measure(machine, report)
        throughput.measure(machine, report)
    print(report.table())
    report.write()
    return report.exit_code()
