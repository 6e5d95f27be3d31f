"""A PyTorch module as a policy over one flat θ, for worlds that play on the host."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgc.errors import PgcError, in_one_line, require
from pgc.local_training.numpy_network import Passed
from pgc.spaces import Actions, Bounds


@dataclass(frozen=True, eq=False)
class OwnTorch:
    """A torch.nn.Module, called with a batch of observations: outputs (n, k), or (outputs, values
    (n,)).
    """

    module: Any

    @cached_property
    def shapes(self) -> dict[str, Any]:
        """Of its parameters, in the order of θ."""
        return {name: p.shape for name, p in self.module.named_parameters()}

    @property
    def start(self) -> np.ndarray:
        """θ_0: the weights that the module has, as one vector."""
        flat: np.ndarray = np.concatenate(
            [p.detach().cpu().numpy().ravel() for p in self.module.parameters()]
        ).astype(np.float32)
        return flat


@dataclass(frozen=True, eq=False)
class TorchPolicy:
    """π and V of a module. It has the methods of a `HostPolicy`, and no compiled ones."""

    own: OwnTorch
    shape: tuple[int, ...]
    actions: Actions
    bounds: Bounds | None

    def __post_init__(self) -> None:
        """Refuse what is no policy for this world."""
        self._torch.set_num_threads(1)  # many processes play side by side
        self.own.module.eval()  # no dropout: a report must be the same whenever it is made again
        try:
            outputs, _ = self._call(self.own.start, np.zeros((2, int(np.prod(self.shape)))))
        except Exception as error:
            called = f"observations of shape (n, {self.shape})"
            raise PgcError(
                f"the policy cannot be called with {called}: {in_one_line(error)}"
            ) from None
        if tuple(outputs.shape) != (2, self.actions.outputs):
            raise PgcError(
                f"the policy returns outputs of shape {tuple(outputs.shape)}; this world needs (n, "
                f"{self.actions.outputs})"
            )

    @property
    def dim(self) -> int:
        """d, the length of θ."""
        return len(self.own.start)

    @property
    def observation_dim(self) -> int:
        """Numbers in an observation."""
        return int(np.prod(self.shape))

    def init(self, key: jax.Array, how: str = "own") -> jax.Array:
        """θ_0: the module's own."""
        return jnp.asarray(self.own.start)

    def forward(self, theta: np.ndarray, observations: np.ndarray) -> Passed:
        """Outputs and values at observations, a row for each."""
        with self._torch.inference_mode():
            outputs, values = self._call(theta, observations)
        return Passed([observations], outputs.double().numpy(), values.double().numpy())

    def backward(
        self, theta: np.ndarray, passed: Passed, to_outputs: np.ndarray, to_values: np.ndarray
    ) -> np.ndarray:
        """The gradient (d,) of a sum over steps."""
        torch = self._torch
        flat = torch.tensor(theta, dtype=torch.float32, requires_grad=True)
        outputs, values = self._call(flat, passed.inputs[0])
        total = (outputs * torch.as_tensor(to_outputs, dtype=torch.float32)).sum()
        if values.requires_grad:
            total = total + (values * torch.as_tensor(to_values, dtype=torch.float32)).sum()
        gradient: np.ndarray = torch.autograd.grad(total, flat)[0].double().numpy()
        return gradient

    def stack(self, thetas: list[np.ndarray]) -> list[np.ndarray]:
        """Several θ, for `each`."""
        return list(thetas)

    def put(self, stack: list[np.ndarray], row: int, theta: np.ndarray) -> None:
        """Another θ in a row."""
        stack[row] = theta

    def keep(self, stack: list[np.ndarray], rows: np.ndarray) -> list[np.ndarray]:
        """Returns the stack with these rows only."""
        return [stack[row] for row in rows]

    def each(self, stack: list[np.ndarray], observations: np.ndarray) -> np.ndarray:
        """Outputs of each θ at its own observation: a call for each row, so that it does not depend
        on the others, to the bit.

        (In a batch it would: how a matrix product is cut into pieces depends on where a row is.)
        """
        torch = self._torch
        seen = torch.as_tensor(self._seen(observations), dtype=torch.float32).reshape(
            -1, 1, *self.shape
        )
        weights: dict[int, Any] = {}
        made = np.empty((len(stack), self.actions.outputs))
        with torch.inference_mode():
            for row, theta in enumerate(stack):
                if id(theta) not in weights:
                    weights[id(theta)] = self._weights(theta)
                outputs = torch.func.functional_call(
                    self.own.module, weights[id(theta)], (seen[row],)
                )
                made[row] = (outputs[0] if isinstance(outputs, tuple) else outputs).numpy()[0]
        return made

    @property
    def _torch(self) -> Any:
        return require("torch", "torch")

    def _call(self, theta: Any, observations: np.ndarray) -> tuple[Any, Any]:
        torch, weights = self._torch, self._weights(theta)
        seen = torch.as_tensor(self._seen(observations), dtype=torch.float32).reshape(
            -1, *self.shape
        )
        made = torch.func.functional_call(self.own.module, weights, (seen,))
        outputs, values = made if isinstance(made, tuple) else (made, torch.zeros(len(seen)))
        return outputs, values.reshape(len(seen))

    def _weights(self, theta: Any) -> dict[str, Any]:
        """θ as the module's parameters."""
        torch = self._torch
        flat = (
            theta
            if isinstance(theta, torch.Tensor)
            else torch.as_tensor(np.asarray(theta, np.float32))
        )
        at, weights = 0, {}
        for name, shape in self.own.shapes.items():
            weights[name] = flat[at : at + shape.numel()].view(shape)
            at += shape.numel()
        return weights

    def _seen(self, observations: np.ndarray) -> np.ndarray:
        if self.bounds is None:
            return observations
        if not self.bounds:
            return observations / 255
        low, high = np.array(self.bounds, float).T
        scaled: np.ndarray = (observations - (low + high) / 2) * (2 / (high - low))
        return scaled
