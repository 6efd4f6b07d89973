"""Losses as their published code has them."""
import torch


def one_hot(labels, like, on_value, off_value):
    return torch.full_like(like, off_value).scatter_(1, labels.view(-1, 1), on_value)


def mixup_target(outputs, labels, partners, weight, smoothing):
    """timm/data/mixup.py, mixup_target(), with the partners given: there they are the batch in reverse."""
    off_value = smoothing / outputs.shape[1]
    on_value = 1.0 - smoothing + off_value
    weight = weight.view(-1, 1) if isinstance(weight, torch.Tensor) else weight
    own, other = (one_hot(of, outputs.detach(), on_value, off_value) for of in (labels, partners))
    return own * weight + other * (1.0 - weight)


def binary_cross_entropy(outputs, target, target_threshold=None, weight=None):
    """timm/loss/binary_cross_entropy.py, BinaryCrossEntropy.forward() with dense targets; of each image instead of their mean."""
    if target_threshold is not None:
        target = target.gt(target_threshold).to(dtype=target.dtype)
    return torch.nn.functional.binary_cross_entropy_with_logits(outputs, target, weight, reduction="none").mean(1)


def class_weights(wanted, labels, outputs):
    """scikit-learn's compute_class_weight("balanced"), or those of a file's lines; 1 for outputs without images."""
    if wanted == "none":
        return None
    counts = torch.bincount(torch.tensor(labels), minlength=outputs)
    return torch.where(counts > 0, len(labels) / ((counts > 0).sum() * counts.clamp(min=1)), torch.ones(outputs)).float()


def weighted_cross_entropy(outputs, labels, partners, weight, of_classes, smoothing):
    """torch's cross_entropy with weight=, as mixup's published code calls it: weight * loss(own) + (1 - weight) * loss(partners). Their
    mean is that loss; of each image, since the parts of a sum are wanted."""
    def losses(targets):
        of_images = torch.nn.functional.cross_entropy(outputs, targets, of_classes, reduction="none", label_smoothing=smoothing)
        return of_images * (len(targets) / of_classes[targets].sum())

    mean = weight * torch.nn.functional.cross_entropy(outputs, labels, of_classes, label_smoothing=smoothing) + (
        1 - weight) * torch.nn.functional.cross_entropy(outputs, partners, of_classes, label_smoothing=smoothing)
    found = losses(labels) * weight + losses(partners) * (1 - weight)
    torch.testing.assert_close(found.mean(), mean, rtol=1e-5, atol=0)
    return found
