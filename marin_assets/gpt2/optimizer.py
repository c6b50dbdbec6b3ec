"""AdamW (Loshchilov & Hutter 2019) over two groups: matrices, which decay, and all else, which does not.

Belongs here: the update and its state. Torch's functional form does the arithmetic: making a `torch.optim.AdamW`
imports the compiler, which costs most of a second at every start.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from marin_assets.gpt2.spread import fill, share

EPSILON = 1e-8
_FUSED_ON = ("cpu", "cuda")


@dataclass
class _Group:
    weight_decay: float
    names: list[str] = field(default_factory=list)
    parameters: list[nn.Parameter] = field(default_factory=list)
    gradient_means: list[Tensor] = field(default_factory=list)
    gradient_squares: list[Tensor] = field(default_factory=list)
    steps: list[Tensor] = field(default_factory=list)

    def add(self, name: str, parameter: nn.Parameter) -> None:
        self.names.append(name)
        self.parameters.append(parameter)
        self.gradient_means.append(torch.zeros_like(parameter))
        self.gradient_squares.append(torch.zeros_like(parameter))
        self.steps.append(torch.zeros((), dtype=torch.float32, device=parameter.device))


class AdamW:
    """Updates the parameters of a model in place.

    Args:
        fused: one kernel for all tensors; None takes it where torch has one for the device.
    """

    def __init__(
        self, model: nn.Module, *, beta1: float, beta2: float, weight_decay: float, fused: bool | None = None
    ) -> None:
        self._beta1 = beta1
        self._beta2 = beta2
        self._groups = (_Group(weight_decay), _Group(0.0))
        for name, parameter in model.named_parameters():
            self._groups[0 if parameter.dim() >= 2 else 1].add(name, parameter)
        device = next(model.parameters()).device
        self._fused = device.type in _FUSED_ON if fused is None else fused

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """One update from the parameters' gradients, which are cleared."""
        for group in self._groups:
            adamw(
                [share(parameter) for parameter in group.parameters],
                [share(parameter.grad) for parameter in group.parameters if parameter.grad is not None],
                [share(mean) for mean in group.gradient_means],
                [share(square) for square in group.gradient_squares],
                [],
                group.steps,
                foreach=False,
                fused=self._fused,
                amsgrad=False,
                beta1=self._beta1,
                beta2=self._beta2,
                lr=learning_rate,
                weight_decay=group.weight_decay,
                eps=EPSILON,
                maximize=False,
                capturable=False,
                differentiable=False,
            )
            for parameter in group.parameters:
                parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """The state by parameter name; the tensors are those in use, not copies."""
        return {
            f"{name}.{kind}": tensor
            for group in self._groups
            for kind, tensors in (
                ("gradient_mean", group.gradient_means),
                ("gradient_square", group.gradient_squares),
                ("step", group.steps),
            )
            for name, tensor in zip(group.names, tensors, strict=True)
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take over a state of the same model.

        Raises:
            KeyError: a tensor is missing.
        """
        for name, tensor in self.state().items():
            fill(tensor, state[name])
