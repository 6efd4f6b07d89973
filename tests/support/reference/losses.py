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


def binary_cross_entropy(outputs, target, target_threshold=None):
    """timm/loss/binary_cross_entropy.py, BinaryCrossEntropy.forward() with dense targets; of each image instead of their mean."""
    if target_threshold is not None:
        target = target.gt(target_threshold).to(dtype=target.dtype)
    return torch.nn.functional.binary_cross_entropy_with_logits(outputs, target, reduction="none").mean(1)
