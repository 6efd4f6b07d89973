"""LARS and LAMB, written after their papers and equal to timm's Lars and Lamb (test_training_parity.py)."""
import torch


def scaled(change, ratio, weight_norm, change_norm):
    """Layers whose weights or changes are zero keep their change."""
    return change * ratio if weight_norm > 0 and change_norm > 0 else change


class Lars(torch.optim.Optimizer):
    """arXiv 1708.03888: SGD with momentum whose rate is another one for each layer; without weight decay a layer has the common rate."""

    def __init__(self, groups, lr, momentum, trust):
        super().__init__(groups, {"lr": lr, "momentum": momentum, "trust": trust})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                change, decay = weight.grad, group["weight_decay"]
                if decay:
                    norm, of_gradient = weight.norm(), weight.grad.norm()
                    ratio = group["trust"] * norm / (of_gradient + decay * norm)
                    change = scaled(weight.grad + decay * weight, ratio, norm, of_gradient)
                momentum = self.state[weight].setdefault("momentum_buffer", torch.zeros_like(weight))
                momentum.mul_(group["momentum"]).add_(change)
                weight.sub_(group["lr"] * momentum)


class MlperfLars(torch.optim.Optimizer):
    """LARS of MLPerf's ResNet-50: the rate is inside of the momentum. `corrected`: as NVIDIA's submissions compute it with MXNet, where the
    momentum follows the rate; otherwise as MLPerf's reference in TensorFlow."""

    def __init__(self, groups, lr, momentum, trust, corrected):
        super().__init__(groups, {"lr": lr, "momentum": momentum, "trust": trust, "last": None})
        self.corrected = corrected

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            rate, decay, momentum = group["lr"], group["weight_decay"], group["momentum"]
            if self.corrected:
                momentum *= rate / (group["last"] or rate)
            group["last"] = rate
            for weight in group["params"]:
                norm, of_gradient = weight.norm(), weight.grad.norm()
                ratio = group["trust"] * norm / (of_gradient + decay * norm) if decay and norm > 0 and of_gradient > 0 else 1
                velocity = self.state[weight].setdefault("velocity", torch.zeros_like(weight))
                velocity.copy_(momentum * velocity - rate * ratio * (weight.grad + decay * weight))
                weight.add_(velocity)


class Lamb(torch.optim.Optimizer):
    """arXiv 1904.00962, algorithm 2 with the bias corrections of Adam; without weight decay a layer has the common rate."""

    def __init__(self, groups, lr, betas, eps):
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (first, second), decay = group["betas"], group["weight_decay"]
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state.update(step=torch.zeros(()), exp_avg=torch.zeros_like(weight), exp_avg_sq=torch.zeros_like(weight))
                state["step"] += 1
                state["exp_avg"].mul_(first).add_(weight.grad, alpha=1 - first)
                state["exp_avg_sq"].mul_(second).addcmul_(weight.grad, weight.grad, value=1 - second)
                step = state["step"].item()
                change = state["exp_avg"] / (1 - first ** step) / ((state["exp_avg_sq"] / (1 - second ** step)).sqrt() + group["eps"])
                change += decay * weight
                norm, of_change = weight.norm(), change.norm()
                weight.sub_(group["lr"] * (scaled(change, norm / of_change, norm, of_change) if decay else change))
