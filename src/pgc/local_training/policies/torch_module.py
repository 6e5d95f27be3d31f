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
    """A torch.nn.Module that takes a batch of n observations.

    It returns outputs (n, k), or a tuple of outputs and values (n,).
    """

    module: Any

    @cached_property
    def shapes(self) -> dict[str, Any]:
        """The shapes of the module's parameters, in the order of θ."""
        return {name: p.shape for name, p in self.module.named_parameters()}

    @property
    def start(self) -> np.ndarray:
        """θ_0: the module's current weights, as one vector."""
        flat: np.ndarray = np.concatenate(
            [p.detach().cpu().numpy().ravel() for p in self.module.parameters()]
        ).astype(np.float32)
        return flat


@dataclass(frozen=True, eq=False)
class TorchPolicy:
    """π and V of a module. It is a `HostPolicy`, and cannot play in a compiled program."""

    own: OwnTorch
    shape: tuple[int, ...]
    actions: Actions
    bounds: Bounds | None

    def __post_init__(self) -> None:
        """Raises an error for a module that is no policy for this world."""
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
        """How many numbers an observation has."""
        return int(np.prod(self.shape))

    def init(self, key: jax.Array, how: str = "own") -> jax.Array:
        """Returns θ_0, the module's own initial weights."""
        return jnp.asarray(self.own.start)

    def forward(self, theta: np.ndarray, observations: np.ndarray) -> Passed:
        """Returns outputs and values at observations, one row for each."""
        with self._torch.inference_mode():
            outputs, values = self._call(theta, observations)
        return Passed([observations], outputs.double().numpy(), values.double().numpy())

    def backward(
        self, theta: np.ndarray, passed: Passed, to_outputs: np.ndarray, to_values: np.ndarray
    ) -> np.ndarray:
        """Returns the gradient (d,) of a sum over steps."""
        torch = self._torch
        flat = torch.tensor(theta, dtype=torch.float32, requires_grad=True)
        outputs, values = self._call(flat, passed.inputs[0])
        total = (outputs * torch.as_tensor(to_outputs, dtype=torch.float32)).sum()
        if values.requires_grad:
            total = total + (values * torch.as_tensor(to_values, dtype=torch.float32)).sum()
        gradient: np.ndarray = torch.autograd.grad(total, flat)[0].double().numpy()
        return gradient

    def stack(self, thetas: list[np.ndarray]) -> list[np.ndarray]:
        """Returns several θ in the form that `each` takes."""
        return list(thetas)

    def put(self, stack: list[np.ndarray], row: int, theta: np.ndarray) -> None:
        """Puts another θ into a row."""
        stack[row] = theta

    def keep(self, stack: list[np.ndarray], rows: np.ndarray) -> list[np.ndarray]:
        """Returns the stack with these rows only."""
        return [stack[row] for row in rows]

    def each(self, stack: list[np.ndarray], observations: np.ndarray) -> np.ndarray:
        """Returns the outputs of each θ at its own observation.

        The module is called once for each row, so that a row is the same to the last bit whatever
        the other rows are. (In one batch it would not be: how a matrix product is cut into blocks
        depends on the position of a row.)
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
        """Returns θ as the module's parameters."""
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
