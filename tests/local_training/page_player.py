"""Step 2 of docs/play.md in plain NumPy: the network, the returns and z, and nothing of pgc."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Episode:
    """What one local episode recorded: one more observation than actions and rewards."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool


@dataclass
class Task:
    """The two halves of a card's recipe: `recipe`, and `play`, which belongs to the world."""

    recipe: dict
    play: dict

    @property
    def continuous(self):
        """Whether actions are numbers in ranges, and not one of a few."""
        return not isinstance(self.play["actions"], int)

    @property
    def outputs(self):
        """The number of outputs of the policy's head."""
        return len(self.play["actions"]) if self.continuous else self.play["actions"]

    def scaled(self, observations):
        """Observations as the box sees them: its middle is 0, its edges are -1 and 1."""
        middle, half = middle_and_half(self.play["bounds"])
        return (observations - middle) / half

    def inputs(self, observations):
        """What the network sees of observations."""
        return self.scaled(observations) if self.recipe["normalize"] else observations


def middle_and_half(ranges):
    """The middles and the half widths of (low, high) pairs."""
    low, high = np.array(ranges, dtype=float).T
    return (high + low) / 2, (high - low) / 2


# The network


def split(task, theta):
    """Theta as (weights, biases) of each layer: the hidden ones, the policy's head, the value's."""
    hidden = list(task.recipe["hidden"])
    before = [len(task.play["bounds"]), *hidden]
    shapes = [*zip(hidden, before, strict=False), (task.outputs, before[-1]), (1, before[-1])]
    layers, at = [], 0
    for rows, columns in shapes:
        weights = theta[at : at + rows * columns].reshape(rows, columns)
        at += rows * columns
        size = rows if task.recipe["biases"] else 0
        layers.append((weights, theta[at : at + size] if size else np.zeros(rows)))
        at += size
    assert at == len(theta)
    return layers


def forward(task, theta, observations):
    """What enters each hidden layer and the heads, the policy's outputs, and the values."""
    *hidden, (policy, policy_bias), (value, value_bias) = split(task, theta)
    seen = [task.inputs(observations)]
    for weights, bias in hidden:
        seen.append(activation(task, seen[-1] @ weights.T + bias))
    return seen, seen[-1] @ policy.T + policy_bias, seen[-1] @ value[0] + value_bias[0]


def activation(task, x):
    """The activation of a hidden layer."""
    return np.tanh(x) if task.recipe.get("activation", "relu") == "tanh" else np.maximum(x, 0)


def slope(task, y):
    """The derivative of the activation where its value is y."""
    tanh = task.recipe.get("activation", "relu") == "tanh"
    return 1 - y**2 if tanh else (y > 0).astype(float)


def backward(task, theta, seen, output_slopes, value_slopes):
    """The gradient at theta of a loss whose slopes at the outputs and values are given."""
    *hidden, (policy, _), (value, _) = split(task, theta)
    slopes = [output_slopes, value_slopes[:, None]]
    entering = [seen[-1], seen[-1]]
    back = output_slopes @ policy + value_slopes[:, None] @ value
    for (weights, _), x, y in reversed(list(zip(hidden, seen, seen[1:], strict=False))):
        back = back * slope(task, y)
        slopes.insert(0, back)
        entering.insert(0, x)
        back = back @ weights
    pieces = []
    for d, x in zip(slopes, entering, strict=True):
        pieces.append((d.T @ x).ravel())
        if task.recipe["biases"]:
            pieces.append(d.sum(axis=0))
    return np.concatenate(pieces)


# Returns and the fit


def shaped_rewards(task, episode):
    """The rewards that the recipe's `reward` makes of those of an episode."""
    kind, rewards = task.recipe["reward"], np.zeros(len(episode.rewards))
    if kind == "step":
        return episode.rewards
    if kind == "end":
        rewards[-1] = 1 if episode.rewards.sum() >= task.play["score_threshold"] else -1
    if kind == "failure":
        rewards[-1] = -1 if episode.terminated else 0
    return rewards


def last_value(task, theta, episode):
    """V_T: what is expected after the last step."""
    recipe = task.recipe
    if recipe["estimator"] == "evolution" or recipe["baseline"] != "critic":
        return 0.0
    if recipe["bootstrap"] == "zero" or (recipe["bootstrap"] == "timeout" and episode.terminated):
        return 0.0
    return forward(task, theta, episode.observations[-1:])[2][0]


def returns(task, theta, episode):
    """R_0 to R_{T-1} of an episode."""
    total, backwards = last_value(task, theta, episode), []
    for reward in shaped_rewards(task, episode)[::-1]:
        total = reward + task.recipe["discount"] * total
        backwards.append(total)
    return np.array(backwards[::-1])


def features(task, episode):
    """The features of each step, a row each."""
    steps = len(episode.rewards)
    if task.recipe["baseline"] != "local":
        return np.ones((steps, 1))
    u = np.arange(steps)[:, None] / task.play["max_steps"]
    x = task.scaled(episode.observations[:-1])
    return np.hstack([np.ones((steps, 1)), u, u**2, x, x**2])


def residuals(task, theta, episodes):
    """R_t - f_t.b of each episode, with b fitted to the steps of all of them."""
    rows = [features(task, episode) for episode in episodes]
    goals = [returns(task, theta, episode) for episode in episodes]
    f, r = np.vstack(rows), np.concatenate(goals)
    square = f.T @ f
    ridge = 0.0
    if task.recipe["baseline"] == "local":
        ridge = max(1e-3 * np.trace(square) / len(square), 1e-12)
    b = np.linalg.solve(square + ridge * np.eye(len(square)), f.T @ r)
    return [goal - row @ b for goal, row in zip(goals, rows, strict=True)]


# z


def tried(task, theta, basis, xi):
    """The policy that plays a local episode of evolution with this xi."""
    return theta + task.recipe["spread"] * (xi if basis is None else basis @ xi)


def evolution(task, theta, xis, episodes):
    """z by evolution."""
    advantages = np.array([left[0] for left in residuals(task, theta, episodes)])
    xi = np.array(xis).T
    k, count = xi.shape
    solved = np.linalg.solve(xi.T @ xi + k * np.eye(count), advantages - advantages.mean())
    return -xi @ solved / task.recipe["spread"]


def standardized(task, theta, episodes):
    """What takes the place of the returns in a policy gradient."""
    recipe = task.recipe
    if recipe["baseline"] != "local" and recipe["standardize"] == "no":
        return [returns(task, theta, episode) for episode in episodes]
    left = residuals(task, theta, episodes)
    if recipe["standardize"] != "scale":
        return left
    scale = max(np.sqrt(np.mean(np.concatenate(left) ** 2)), 1e-6)
    return [r / scale for r in left]


def discrete_slopes(task, logits, actions, advantages):
    """The slopes at the logits of -A.log(pi) - beta.H."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_pi = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    pi = np.exp(log_pi)
    entropy = -(pi * log_pi).sum(axis=1, keepdims=True)
    taken = np.eye(task.outputs)[actions]
    beta = task.recipe["entropy_weight"]
    return -advantages[:, None] * (taken - pi) + beta * pi * (log_pi + entropy)


def continuous_slopes(task, means, actions, advantages):
    """The slopes at the means of -A.log(pi), in halves of the actions' ranges."""
    middle, half = middle_and_half(task.play["actions"])
    away = (actions - middle) / half - means
    return -advantages[:, None] * away / task.recipe["std"] ** 2


def episode_gradient(task, theta, episode, goals):
    """The gradient at theta of the loss of one episode."""
    seen, outputs, values = forward(task, theta, episode.observations[:-1])
    critic = task.recipe["baseline"] == "critic"
    advantages = goals - values if critic else goals
    slopes = continuous_slopes if task.continuous else discrete_slopes
    output_slopes = slopes(task, outputs, episode.actions, advantages)
    weight = task.recipe["value_weight"] if critic else 0.0
    gradient = backward(task, theta, seen, output_slopes, 2 * weight * (values - goals))
    return gradient / len(goals) if task.recipe["reduction"] == "mean" else gradient


def policy_gradient(task, theta, basis, episodes):
    """z by a policy gradient."""
    goals = standardized(task, theta, episodes)
    each = [episode_gradient(task, theta, *pair) for pair in zip(episodes, goals, strict=True)]
    gradient = np.mean(each, axis=0)
    return gradient if basis is None else basis.T @ gradient


def compute_z(task, theta, basis, xis, episodes):
    """z, the numbers that the mechanism randomises."""
    if task.recipe["estimator"] == "evolution":
        return evolution(task, theta, xis, episodes)
    return policy_gradient(task, theta, basis, episodes)
