"""Optimizers of docs/training-step.md that torch.optim lacks, written down from their papers."""
import torch


class Lion(torch.optim.Optimizer):
    """Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), algorithm 2."""

    def __init__(self, parameters, lr, betas=(0.9, 0.99), weight_decay=0.0, foreach=False):
        assert not foreach
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            slow, fast = group["betas"][1], group["betas"][0]
            for p in group["params"]:
                if p.grad is None:
                    continue
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                direction = (fast * momentum + (1 - fast) * p.grad).sign()
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * direction)
                momentum.copy_(slow * momentum + (1 - slow) * p.grad)


class Muon(torch.optim.Optimizer):
    """torch.optim.Muon, operation by operation, but that Newton-Schulz is computed in the parameters' own type and not in bf16."""

    def __init__(self, parameters, lr, weight_decay=0.1, momentum=0.95, nesterov=True, steps=5, eps=1e-7, adjust="original"):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "steps": steps,
                                      "eps": eps, "adjust": adjust})

    @staticmethod
    def orthogonal(matrix, steps, eps):
        a, b, c = 3.4445, -4.7750, 2.0315
        x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
        x = x / x.norm().clamp(min=eps)
        for _ in range(steps):
            gram = x @ x.T
            x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        return x.T if matrix.shape[0] > matrix.shape[1] else x

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                direction = self.orthogonal(p.grad.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer, group["steps"], group["eps"])
                rows, columns = p.shape
                factor = max(1, rows / columns) ** 0.5 if group["adjust"] == "original" else 0.2 * max(rows, columns) ** 0.5
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(direction, alpha=-group["lr"] * factor)


class MuonInBf16(torch.optim.Muon):
    """PyTorch's own, by piper's names."""

    def __init__(self, parameters, steps=5, adjust="original", **values):
        super().__init__(parameters, ns_steps=steps, adjust_lr_fn=adjust, **values)


class MuonBesideRest:
    """Muon for matrices of hidden layers, another optimizer for the rest. Which these are is said by name here, not found in a graph."""

    OF_REST = ("wte", "wpe", "embed_tokens", "head", "lm_head")

    def __init__(self, module, rest, muon=Muon, **values):
        named = dict(module.named_parameters())
        matrices = [n for n, p in named.items() if p.ndim == 2 and n.split(".")[-2] not in self.OF_REST]
        (name, numbers), = rest.items()
        self.parts = [muon([named[n] for n in matrices], **values),
                      RULES[name]([p for n, p in named.items() if n not in matrices], foreach=False, **numbers)]

    @property
    def param_groups(self):
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self, set_to_none=True):
        for part in self.parts:
            part.zero_grad(set_to_none=set_to_none)

    def step(self):
        for part in self.parts:
            part.step()


RULES = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD, "lion": Lion}


def rule_of(name, module, values, muon=Muon):
    """The optimizer of that name over all parameters of the module."""
    return MuonBesideRest(module, muon=muon, **values) if name == "muon" else RULES[name](module.parameters(), foreach=False, **values)
