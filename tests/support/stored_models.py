"""A ResNet-18 that a short training has left, for tests of what becomes of its weights, and torchvision's ResNet-18 with the same weights."""
import subprocess

import numpy
import small_trainings
import trainer_ranks

CLASSES = sorted(["ape", "Bear", "cow 1", "cow 10", "cow 2", "d", "eel", "fox"])
TRAINING = ("--model=resnet18", "--image-size=48", "--valid-resize=56", "--batch-size=8", "--epochs=8", "--valid-epochs=1", "--lr=0.02",
            "--optimizer=sgd", "--checkpoint-epochs=0", "--progress=none", "--train-num-workers=1", "--valid-num-workers=1", "--report=off")


def train(folder, tree, *options, ranks=1):
    """The checkpoint of a training on `tree`."""
    trainer_ranks.run(folder, *TRAINING, f"--data={tree}", *options, ranks=ranks)
    return trainer_ranks.checkpoints(folder)[-1]


def export(checkpoint, path):
    subprocess.run([trainer_ranks.BUILD / "trainer" / "rollcall-checkpoint", "export", checkpoint, path], check=True, capture_output=True)
    return path


def make_tree(root):
    return small_trainings.make_tree(root, train=6, valid=11)


def outputs_of_torchvision(weights, paths, size=48, shorter=56):
    """[image][class] outputs of torchvision's model for files that Pillow decodes."""
    import torch
    import torchvision
    from reference import pictures
    from reference.training import DEFAULTS
    state = torch.load(weights, weights_only=True)
    model = torchvision.models.resnet18(num_classes=len(state["fc.bias"])).eval()
    model.load_state_dict(state)
    settings = {**DEFAULTS, "image-size": size, "valid-resize": shorter}
    images = torch.stack([pictures.validation_image(pictures.load(path, settings), settings) for path in paths])
    with torch.no_grad():
        return model(images)


def labelled(folder):
    """[(path, label)] of a class-per-folder tree, in ImageFolder's order of classes."""
    return [(path, label) for label, name in enumerate(CLASSES) for path in sorted((folder / name).rglob("*")) if path.is_file()]


def confusion(predicted, labels):
    pairs, counts = numpy.unique(numpy.stack([labels, predicted], 1), axis=0, return_counts=True)
    return [[*pair, count] for pair, count in zip(pairs.tolist(), counts.tolist())]
