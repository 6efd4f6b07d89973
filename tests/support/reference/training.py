"""The loop: all ranks in one process, one after the other, on torchvision's ResNets with torch's own optimizers."""
import dataclasses
import math
import warnings

import torch

from . import losses, networks, optimizers, order, pictures, random_numbers
from .random_numbers import MODEL, Random

# What a training is where nothing is said: written after docs/reference/settings.md by hand, so that a default that changes is noticed.
DEFAULTS = {
    "data": "", "fake-size": 1000, "image-size": 224, "image-size-schedule": "none", "valid-image-size": 0, "valid-resize": 0,
    "interpolation": "bilinear", "crop-scale-min": 0.08, "crop-scale-max": 1.0,
    "crop-ratio-min": 3 / 4, "crop-ratio-max": 4 / 3, "flip": 0.5, "vertical-flip": 0.0,
    "valid-flip": False, "mean": "0.485,0.456,0.406", "std": "0.229,0.224,0.225", "image-dtype": "auto",
    "last-batch": "drop", "repeated-augmentation": 1,
    "shuffle-window": 0, "sampling": "shuffle", "exif-orientation": False, "auto-augment": "none", "randaugment-ops": 2,
    "randaugment-magnitude": 9, "randaugment-mstd": 0.5, "brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0, "random-erase": 0.0,
    "random-erase-value": "zero", "mixup": 0.0, "cutmix": 0.0, "model": "resnet50", "num-classes": 0, "zero-init-residual": False,
    "resnet-stem": "standard", "blurpool": False, "init": "torchvision", "freeze": "", "stochastic-depth": 0.0, "dropout": 0.0,
    "channels-last": True, "epochs": 120, "max-steps": 0, "global-batch": 0, "batch-size": 64, "grad-accumulation": 1, "seed": 0,
    "optimizer": "adamw", "lr": 3e-4, "lr-scaling": "linear", "lr-factors": "", "lr-schedule": "none", "lr-end-factor": 0.0, "lr-power": 2.0,
    "lr-milestones": "30,60,80", "lr-step-epochs": 30.0, "lr-step-factor": 0.1, "warmup-epochs": 0.0, "warmup-start-factor": 0.0,
    "scale-optim-params": False, "momentum": 0.9, "nesterov": False, "weight-decay": 0.01, "weight-decay-all": False, "adam-beta1": 0.9,
    "adam-beta2": 0.999, "adam-eps": 1e-8, "clip-grad-norm": 0.0, "precision": "fp32", "loss": "cross-entropy", "bce-target-threshold": 0.0,
    "class-weights": "none", "label-smoothing": 0.0, "parallel": "ddp",
    "gradient-compression": "none", "broadcast-buffers": True, "param-dtype": "fp32", "reduce-dtype": "fp32", "accumulate": "whole",
    "sync-bn": False, "valid-epochs": 10, "log-steps": 10, "lars-trust": 0.001, "rmsprop-alpha": 0.99, "ema": 0.0, "ema-steps": 1,
}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "bfloat16": torch.bfloat16}


def defaults_for(changes):
    """What a training has that does not say otherwise: for SGD the values of arXiv 1706.02677."""
    settings = {**DEFAULTS, **changes}
    if settings["optimizer"] != "sgd":
        return settings
    return {**settings, "lr": 0.1 / 256 * (settings["global-batch"] or settings["batch-size"]), "lr-schedule": "cosine", "weight-decay": 1e-4,
        **changes}


@dataclasses.dataclass
class Run:
    """What a training left: metrics.jsonl's records of steps, epochs and validations, and what the last checkpoint holds."""

    records: list
    initial: dict  # state dict before the first step
    state: dict
    moments: dict  # {parameter: {"exp_avg": ..., ...}}
    average: dict  # state dict of the average of the weights; empty: there is none
    loss_scale: float
    skipped_steps: int


class Sums:
    def __init__(self):
        self.loss, self.top1, self.top5, self.samples = 0.0, 0, 0, 0

    def add(self, outputs, labels, losses, counted):
        choices = outputs.detach().float().topk(min(5, outputs.shape[1]), 1).indices
        own = labels.gather(1, choices) > 0 if labels.ndim == 2 else choices == labels[:, None]
        hits = own & counted[:, None]
        self.loss += losses.detach().double()[counted].sum().item()
        self.top1 += int(hits[:, 0].sum())
        self.top5 += int(hits.any(1).sum())
        self.samples += int(counted.sum())

    def means(self):
        return {"loss": self.loss / self.samples, "top1": self.top1 / self.samples, "top5": self.top5 / self.samples, "samples": self.samples}


def mean_average_precision(labels, outputs):
    """scikit-learn's, of [image][class]; a class without images counts as 0, with a warning there."""
    from sklearn.metrics import average_precision_score
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return float(average_precision_score(labels.numpy(), outputs.numpy(), average="macro"))


def one_cycle(settings, step, steps_per_epoch, top):
    """Half a cosine up to step `top`, half a cosine down to the last step, as fractions of the largest rate."""
    last = min(settings["epochs"] * steps_per_epoch, settings["max-steps"] or math.inf) - 1
    low, done = (settings["warmup-start-factor"], 1 - step / top) if step < top else (
        settings["lr-end-factor"], min(1.0, (step - top) / max(1, last - top)))
    return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * done))


def learning_rate(settings, base, step, steps_per_epoch):
    """Goyal et al.'s linear warm-up, then constant, down to a fraction at the last epoch's end, or drops counted from the beginning."""
    warmup = round(settings["warmup-epochs"] * steps_per_epoch)
    if settings["lr-schedule"] == "one-cycle":
        return base * one_cycle(settings, step, steps_per_epoch, max(0, warmup - 1))
    if step < warmup:
        return base * (settings["warmup-start-factor"] + (1 - settings["warmup-start-factor"]) * (step + 1) / warmup)
    schedule = settings["lr-schedule"]
    if schedule in ("cosine", "linear", "polynomial"):
        total = min(settings["epochs"] * steps_per_epoch, settings["max-steps"] or math.inf)
        left = 1 - min(1.0, (step - warmup) / (total - warmup))
        down = {"cosine": 0.5 * (1 + math.cos(math.pi * (1 - left))), "linear": left, "polynomial": left ** settings["lr-power"]}[schedule]
        return base * (settings["lr-end-factor"] + (1 - settings["lr-end-factor"]) * down)
    if schedule == "step":
        return base * settings["lr-step-factor"] ** (step // max(1, round(settings["lr-step-epochs"] * steps_per_epoch)))
    if schedule == "milestones":
        milestones = [round(float(epoch) * steps_per_epoch) for epoch in str(settings["lr-milestones"]).split(",")]
        return base * settings["lr-step-factor"] ** sum(milestone <= step for milestone in milestones)
    return base


def with_rank_batches(settings, ranks):
    """What --global-batch makes of the settings: the fewest equal micro-batches of at most batch-size images."""
    if not settings["global-batch"]:
        return settings
    share, rest = divmod(settings["global-batch"], ranks)
    assert rest == 0
    accumulation = next(n for n in range(1, share + 1) if share % n == 0 and share // n <= settings["batch-size"])
    return {**settings, "batch-size": share // accumulation, "grad-accumulation": accumulation, "lr-scaling": "none"}


def by_rate_factor(network, factors):
    """{factor of the learning rate: parameters}: "layer3=0.1,layer3.1=0.5", of which the longest beginning of a parameter's name counts."""
    wanted = sorted((entry.split("=") for entry in factors.split(",") if entry), key=lambda entry: -len(entry[0]))
    groups = {}
    for name, parameter in network.named_parameters():
        factor = next((float(factor) for layer, factor in wanted if name == layer or name.startswith(layer + ".")), 1.0)
        groups.setdefault(factor, []).append(parameter)
    return groups


def make_optimizer(settings, network, ranks):
    """(optimizer, its base rate): scaled for the batches of a step; weight decay on biases and norms only where that is asked for."""
    batches, rate = ranks * settings["grad-accumulation"], settings["lr"]
    betas, eps = [settings["adam-beta1"], settings["adam-beta2"]], settings["adam-eps"]
    if settings["scale-optim-params"]:  # arXiv 2205.10287
        rate, betas, eps = rate * math.sqrt(batches), [1 - batches * (1 - beta) for beta in betas], eps / math.sqrt(batches)
    else:
        rate *= {"linear": batches, "sqrt": math.sqrt(batches), "none": 1}[settings["lr-scaling"]]
    groups = []
    for factor, named in by_rate_factor(network, settings["lr-factors"]).items():
        groups += [{"params": [p for p in named if p.ndim > 1], "weight_decay": settings["weight-decay"], "factor": factor},
                   {"params": [p for p in named if p.ndim <= 1], "factor": factor,
                    "weight_decay": settings["weight-decay"] if settings["weight-decay-all"] else 0.0}]
    if settings["optimizer"] == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=settings["momentum"], nesterov=settings["nesterov"]), rate
    if settings["optimizer"] == "rmsprop":
        return torch.optim.RMSprop(groups, lr=rate, alpha=settings["rmsprop-alpha"], eps=eps, momentum=settings["momentum"]), rate
    if settings["optimizer"] == "lars":
        return optimizers.Lars(groups, rate, settings["momentum"], settings["lars-trust"]), rate
    if settings["optimizer"] == "lamb":
        return optimizers.Lamb(groups, rate, tuple(betas), eps), rate
    return torch.optim.AdamW(groups, lr=rate, betas=tuple(betas), eps=eps), rate


class Training:
    def __init__(self, changes, ranks, initial=None, after_step=None):
        unknown = changes.keys() - DEFAULTS.keys()
        assert not unknown, f"the reference does not know {sorted(unknown)}"
        self.settings, self.ranks = with_rank_batches(defaults_for(changes), ranks), ranks
        self.data = pictures.open_data(self.settings)
        torch.manual_seed(self.settings["seed"])
        self.network = networks.make(
            self.settings["model"], init=self.settings["init"], stem=self.settings["resnet-stem"],
            blurpool=self.settings["blurpool"], num_classes=self.settings["num-classes"] or self.data.outputs,
            zero_init_residual=self.settings["zero-init-residual"])
        if initial is not None:
            self.network.load_state_dict(initial)
        for name, parameter in self.network.named_parameters():
            frozen = [prefix for prefix in self.settings["freeze"].split(",") if prefix]
            parameter.requires_grad_(not any(name == prefix or name.startswith(prefix + ".") for prefix in frozen))
        if self.settings["channels-last"]:
            self.network = self.network.to(memory_format=torch.channels_last)
        self.initial = {name: value.clone() for name, value in self.network.state_dict().items()}
        self.after_step = after_step
        self.class_weights = losses.class_weights(self.settings["class-weights"], self.data.train_labels(),
                                                  self.settings["num-classes"] or self.data.outputs)
        self.optimizer, self.base_rate = make_optimizer(self.settings, self.network, ranks)
        self.average = torch.optim.swa_utils.AveragedModel(
            self.network, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(self.settings["ema"]), use_buffers=True)
        self.scaler = torch.amp.GradScaler("cpu", enabled=self.settings["precision"] == "fp16")
        self.steps_per_epoch = order.steps_of_epoch(
            len(self.data.train), self.settings["batch-size"], ranks, self.settings["grad-accumulation"], self.settings["last-batch"] == "pad")
        # Each rank's statistics: they differ where nothing makes them equal, and rank 0's are what is kept.
        self.buffers_of = [{name: value.clone() for name, value in self.network.named_buffers()} for _ in range(ranks)]
        self.records, self.step, self.skipped, self.unrecorded = [], 0, 0, Sums()

    def batch(self, samples, first_position, epoch):
        """Images, labels, partners' labels, own labels' weight, what counts, what is kept."""
        found = [self.data.training(index, epoch + (repetition << 24)) for index, _, repetition in samples]
        images, labels = torch.stack([image for image, _ in found]), torch.tensor([label for _, label in found])
        images, partners, weight = pictures.mixed(self.rounded(images), labels, self.settings, epoch, first_position)
        images = self.rounded(images)
        kept = self.drawn_kept(epoch, first_position, len(samples))
        return images, labels, partners, weight, torch.tensor([counted for _, counted, _ in samples]), kept

    def drawn_kept(self, epoch, first_position, images):
        """What each image of a batch keeps: 32 bits a column, from a stream of its position in the epoch."""
        depth, features = self.settings["stochastic-depth"], self.settings["dropout"]
        blocks = len(networks.blocks_of(self.network)) if depth else 0
        rates = [depth * i / (blocks - 1) for i in range(blocks)] + [features] * (self.network.fc.in_features if features else 0)
        stride = self.ranks if self.settings["repeated-augmentation"] > 1 else 1  # repetitions go to the ranks in turn
        streams = [random_numbers.Random(self.settings["seed"], random_numbers.DROP, epoch, first_position + i * stride) for i in range(images)]
        return torch.tensor([[stream.bits() >= rate * 2**32 for rate in rates] for stream in streams])

    def rounded(self, images):
        """As images of that type have their pixels."""
        if self.settings["image-dtype"] == "uint8":
            mean, deviation = (torch.tensor(values).view(3, 1, 1) for values in pictures.channels(self.settings))
            return ((255 * (images * deviation + mean)).round().clamp(0, 255) / 255 - mean) / deviation
        return images.bfloat16().float() if self.settings["image-dtype"] == "bfloat16" else images

    def outputs(self, images):
        precision = self.settings["precision"]
        if self.settings["channels-last"]:
            images = images.contiguous(memory_format=torch.channels_last)
        if self.settings["param-dtype"] == "bf16":  # convolutions and the last layer; norms stay fp32
            narrow = {n: p.bfloat16() if "bn" not in n and "downsample.1" not in n else p for n, p in self.network.named_parameters()}
            return torch.func.functional_call(self.network, narrow, (images.bfloat16(),)).float()
        with torch.autocast("cpu", TYPES.get(precision), enabled=precision != "fp32", cache_enabled=False):
            return self.network(images).float()

    def losses(self, outputs, labels, partners, weight):
        if self.settings["loss"] == "multi-label":
            targets = weight * labels + (1 - weight) * partners
            return torch.nn.functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none").mean(1)
        if self.settings["loss"] == "bce":
            smoothing, threshold = self.settings["label-smoothing"], self.settings["bce-target-threshold"] or None
            return losses.binary_cross_entropy(outputs, losses.mixup_target(outputs, labels, partners, weight, smoothing), threshold,
                                               self.class_weights)
        if self.class_weights is not None:
            return losses.weighted_cross_entropy(
                outputs, labels, partners, weight, self.class_weights, self.settings["label-smoothing"])
        cross_entropy = lambda targets: torch.nn.functional.cross_entropy(  # noqa: E731
            outputs, targets, reduction="none", label_smoothing=self.settings["label-smoothing"])
        return cross_entropy(labels) * weight + cross_entropy(partners) * (1 - weight)

    @torch.no_grad()
    def use_buffers_of(self, rank):
        for name, value in self.network.named_buffers():
            value.copy_(self.buffers_of[rank][name])

    def keep_buffers_of(self, rank):
        self.buffers_of[rank] = {name: value.clone() for name, value in self.network.named_buffers()}

    def gradients_of_rank(self, rank, batches):
        """This rank's gradients of the mean over the step; what it counted goes to the sums."""
        self.optimizer.zero_grad()
        torch.manual_seed(Random(self.settings["seed"], MODEL, rank, self.step + 1).bits())
        self.use_buffers_of(0 if self.settings["broadcast-buffers"] and self.settings["parallel"] == "ddp" else rank)
        for images, labels, partners, weight, counted, kept in batches:
            rates = {"blocks": self.settings["stochastic-depth"], "features": self.settings["dropout"]}
            all_again = networks.drop(self.network, rates, kept)
            outputs = self.outputs(images)
            all_again()
            of_images = self.losses(outputs, labels, partners, weight)
            self.scaler.scale(of_images.mean() / self.settings["grad-accumulation"]).backward()
            self.sums.add(outputs, labels, of_images, counted)
        self.keep_buffers_of(rank)
        return [p.grad for p in self.network.parameters() if p.requires_grad]

    def joint_gradients(self, batches_of_ranks):
        """With SyncBatchNorm all ranks are one batch."""
        joined = []
        for of_micro in zip(*batches_of_ranks):
            images, labels, partners, weights, counted, kept = zip(*of_micro)
            weight = torch.cat([torch.full((len(own),), one) for own, one in zip(labels, weights)])
            joined.append((torch.cat(images), torch.cat(labels), torch.cat(partners), weight, torch.cat(counted), torch.cat(kept)))
        gradients = self.gradients_of_rank(0, joined)
        self.buffers_of = [self.buffers_of[0]] * self.ranks
        return gradients

    def mean_gradients(self, batches_of_ranks):
        if self.settings["sync-bn"] and self.ranks > 1:
            return self.joint_gradients(batches_of_ranks)
        of_ranks = [[gradient.clone() for gradient in self.gradients_of_rank(rank, batches_of_ranks[rank])] for rank in range(self.ranks)]
        compressed, reduced = (TYPES.get(self.settings[name]) for name in ("gradient-compression", "reduce-dtype"))
        if compressed and self.ranks > 1:  # divided and added up in the narrow type
            return [sum(gradient.to(compressed) / self.ranks for gradient in of_parameter).float() for of_parameter in zip(*of_ranks)]
        if reduced and self.ranks > 1:  # travels in the narrow type, added up in fp32
            return [sum(gradient.to(reduced).float() for gradient in of_parameter) / self.ranks for of_parameter in zip(*of_ranks)]
        return [sum(of_parameter) / self.ranks for of_parameter in zip(*of_ranks)]

    def train_step(self, epoch, samples):
        self.sums = Sums()
        rate = learning_rate(self.settings, self.base_rate, self.step, self.steps_per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        drawn = [[self.batch(of_rank[1], of_rank[0], epoch) for of_rank in micro] for micro in samples]
        gradients = self.mean_gradients([[micro[rank] for micro in drawn] for rank in range(self.ranks)])
        for parameter, gradient in zip([p for p in self.network.parameters() if p.requires_grad], gradients):
            parameter.grad = gradient
        scale = self.scaler.get_scale()
        self.scaler.unscale_(self.optimizer)
        if self.settings["clip-grad-norm"] > 0:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.settings["clip-grad-norm"])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.skipped += self.scaler.is_enabled() and self.scaler.get_scale() < scale
        self.step += 1
        if self.settings["ema"] and self.step % self.settings["ema-steps"] == 0:
            self.use_buffers_of(0)
            self.average.update_parameters(self.network)
            if self.step <= round(self.settings["warmup-epochs"] * self.steps_per_epoch):  # torchvision's references
                self.average.n_averaged.fill_(0)
        return rate

    def state(self):
        """What a checkpoint of this moment holds: all weights, and rank 0's statistics."""
        self.use_buffers_of(0)
        return {name: value.clone() for name, value in self.network.state_dict().items()}

    def moments(self):
        """{parameter: {"exp_avg": ..., ...}} of this moment."""
        names = {parameter: name for name, parameter in self.network.named_parameters()}
        return {names[parameter]: {key: torch.as_tensor(value).clone() for key, value in state.items() if value is not None}
                for parameter, state in self.optimizer.state.items()}

    @torch.no_grad()
    def go_on_from(self, state, moments):
        """Continues from these weights, statistics of rank 0 and moments instead of its own."""
        self.network.load_state_dict(state)
        self.keep_buffers_of(0)
        for name, parameter in self.network.named_parameters():
            for key, value in moments.get(name, {}).items():
                self.optimizer.state[parameter][key].copy_(value)

    def record(self, event, sums, **more):
        self.records.append({"event": event, "step": self.step, **more, **sums.means()})

    def train_epoch(self, epoch):
        settings, of_epoch = self.settings, Sums()
        self.network.train()
        samples = order.epoch_order(len(self.data.train), settings["seed"], epoch, settings["shuffle-window"])
        if settings["sampling"] == "balanced":
            samples = order.balanced_order(self.data.train_labels(), settings["seed"], epoch)
        for step in range(self.steps_per_epoch):
            of_step = order.micro_batches(samples, step, settings["batch-size"], self.ranks, settings["grad-accumulation"],
                                          settings["repeated-augmentation"], settings["sampling"] == "balanced")
            rate = self.train_step(epoch, of_step)
            for sums in (of_epoch, self.unrecorded):
                for name, value in vars(self.sums).items():
                    setattr(sums, name, getattr(sums, name) + value)
            if self.after_step:
                self.after_step(self)
            if self.step % settings["log-steps"] == 0 or step + 1 == self.steps_per_epoch:
                self.record("step", self.unrecorded, epoch=epoch, learning_rate=rate)
                self.unrecorded = Sums()
            if self.step == settings["max-steps"] and step + 1 < self.steps_per_epoch:
                return False
        self.record("epoch", of_epoch, epoch=epoch)
        return True

    def validate(self, epoch):
        self.use_buffers_of(0)
        means = self.validation_of(self.network)
        if self.settings["ema"]:
            means |= {f"ema_{name}": value for name, value in self.validation_of(self.average.module).items() if name != "samples"}
        self.records.append({"event": "validation", "step": self.step, "epoch": epoch, **means})

    @torch.no_grad()
    def validation_of(self, network):
        own, self.network = self.network, network
        self.network.eval()
        settings, sums, size, scored = self.settings, Sums(), self.settings["batch-size"], []
        for first in range(0, len(self.data.valid), size):
            found = [self.data.validation(i) for i in range(first, min(first + size, len(self.data.valid)))]
            labels = torch.tensor([label for _, label in found])
            images = torch.stack([image for image, _ in found])
            images = self.rounded(images)
            outputs = self.outputs(images)
            if settings["valid-flip"]:
                outputs = (outputs + self.outputs(torch.flip(images, dims=[3]))) / 2
            if settings["loss"] == "multi-label":
                of_images = torch.nn.functional.binary_cross_entropy_with_logits(outputs, labels, reduction="none").mean(1)
                scored.append((labels, outputs))
            elif settings["loss"] == "bce":
                of_images = losses.binary_cross_entropy(outputs, torch.nn.functional.one_hot(labels, outputs.shape[1]).float())
            else:
                of_images = torch.nn.functional.cross_entropy(outputs, labels, reduction="none")
            sums.add(outputs, labels, of_images, torch.ones(len(labels), dtype=torch.bool))
        self.network = own
        return sums.means() | ({"mean_average_precision": mean_average_precision(*map(torch.cat, zip(*scored)))} if scored else {})

    def run(self):
        for epoch in range(self.settings["epochs"]):
            finished = epoch + 1 if self.train_epoch(epoch) else epoch
            last, every = self.step == self.settings["max-steps"] or finished == self.settings["epochs"], self.settings["valid-epochs"]
            if every and (last or finished % every == 0):
                self.validate(finished)
            if last:
                break
        scale = self.scaler.get_scale() if self.scaler.is_enabled() else 65536.0
        average = self.average.module.state_dict() if self.settings["ema"] else {}
        return Run(self.records, self.initial, self.state(), self.moments(), average, scale, self.skipped)


def train(changes, ranks=1, initial=None, after_step=None):
    """A whole training with these settings, by rollcall-train's names; one thread, as the tests' ranks have.

    `after_step` is called with the Training after each step."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return Training(changes, ranks, initial, after_step).run()
    finally:
        torch.set_num_threads(threads)
