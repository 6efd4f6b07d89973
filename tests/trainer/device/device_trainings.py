"""Trainings on the stand-in device (tests/support/stand_in_device.h), for the tests of it."""
import trainer_ranks
from trainer_ranks import SMALL

STAND_IN = "--device=stand_in"
# With the type of images that CPUs have by default, so that bits can be compared.
DATA = ("--data=fake", "--fake-size=100", *SMALL, "--image-size=16", "--train-num-workers=2", "--lr=0.01", "--epochs=2",
        "--valid-epochs=1", "--log-steps=1", "--checkpoint-epochs=1", "--keep-last=9", "--image-dtype=float32")
RANDOM = ("--mixup=0.2", "--cutmix=1", "--label-smoothing=0.1", "--stochastic-depth=0.3", "--dropout=0.2",
          "--lr-schedule=cosine", "--warmup-epochs=0.5", "--clip-grad-norm=5")
GRAPH = "--cuda-graph=on"
EAGER_STEPS = 11
KERNELS = {"STAND_IN_KERNELS": "1", "ROLLCALL_OWN_KERNELS": "on"}
LAST = "step-*.h5"


def last(folder):
    return sorted(folder.glob(LAST))[-1]


def refused(folder, *options, code, ranks=1, env=None):
    """The error, told once for all ranks, before any work."""
    text = trainer_ranks.run(folder, *DATA, *options, ranks=ranks, code=code, env=env)
    errors = [line for line in text.splitlines() if line.startswith("rollcall: --")]
    assert len(errors) == 1, text
    assert not list(folder.glob(LAST))
    return errors[0]


def counts(report):
    """What each process that ended by itself counted, by name (STAND_IN_WAITS)."""
    return [{name: int(number) for name, number in (word.split("=") for word in line.split()[5:])}
            for line in report.read_text().splitlines()]
