"""Short trainings that go on from each other in a folder. Shared by tests of what a folder means."""
import json

import trainer_ranks

OPTIONS = (*trainer_ranks.SMALL, "--fake-size=103", "--valid-epochs=0", "--checkpoint-epochs=0", "--epochs=9", "--optimizer=sgd",
           "--lr-schedule=none",
           "--lr=0.002", "--log-steps=1", "--lease-timeout=0")


def options_in(path):
    """The options of the optimizer's first group of parameters in a checkpoint."""
    import h5py
    with h5py.File(path) as file:
        return json.loads(file["optimizer/param_groups"][()])[0]


def refused(folder, *options):
    text = trainer_ranks.run(folder, *OPTIONS, *options, ranks=1, code=76)
    lines = [line for line in text.splitlines() if line.startswith("rollcall: ")]
    assert len(lines) == 1, text
    return lines[0]


def make_pictures(folder, count=60):
    import numpy
    from PIL import Image
    random = numpy.random.default_rng(5)
    for number in range(count):
        path = folder / f"class {number % 3}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (40, 40, 3), dtype=numpy.uint8)).save(path)
