"""One frozen dataclass holds everything that decides a run: a run is a function of (config, seed).

It round-trips through YAML and the command line; the help text of each flag is the text under its
field. `validation.py` checks it, `problem.py` builds the parts of a run from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Preset = Literal["default", "paper"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Train one policy for a population of private worlds under ε-local differential privacy."""

    preset: Preset = "default"
    """The values that all other flags start from: `default` learns best; `paper` is the paper as
    printed."""

    # Privacy
    mechanism: str = "index"
    """What randomises each gradient on the agent: index, privunit, privunitg, duchi, piecewise,
    prs-sign, prs, laplace, none; MODULE:CLASS of your own; or, NOT ε-LDP and for comparison with
    the paper only, laplace-coordinatewise, laplace-coordinatewise-wide, laplace-l2."""
    epsilon: float = 1.0
    """ε: the whole privacy budget of one agent, over all it ever sends; `inf` for no privacy (clip
    only)."""
    score_epsilon: float = 0.0
    """The share of ε spent on a noisy boolean "score ≥ Θ" in each report; 0 sends no score."""
    submissions_per_agent: int = 1
    """T: how often one agent submits, at ε/T each."""
    clip: float | None = None
    """C, the clipping size, where the mechanism has one (those for directions have none, but for
    --lift); by default what suits the mechanism and preset (paper: 0.01 for laplace and none, 1 for
    prs)."""
    reduced_dim: int | None = None
    """d̂ of prs and prs-sign, the bits in a report, or the coordinates that piecewise sends; by
    default what suits ε (paper: max(1, min(d, ⌊ε/2.5⌋)))."""
    unbiased: bool = False
    """Whether reports of prs are scaled to be unbiased. (prs-sign nearly is, in many dimensions;
    the others are, but for what they clip.)"""
    code_size: int | None = None
    """M of index, the vectors in its public random code; by default 256 up to ε = 2,
    4096 beyond."""
    lift: bool = False
    """Whether a mechanism for directions reports the norm as well, up to the clip, by one dimension
    more."""
    subspace: Literal["full", "random", "linear", "quadratic"] | None = None
    """Where agents report: the whole gradient (paper); its coordinates in a random subspace; or
    along the directions of θ that add linear (or also quadratic) functions of the observation to
    the policy's outputs. Public, so it costs no ε. By default quadratic if ε affords its dimension,
    else linear."""
    subspace_dim: int = 8
    """Dimension of a random subspace."""
    control: bool = False
    """Replace every gradient by zero before the mechanism: shows what pure noise achieves."""

    # The private worlds and the agents in them
    world: str = "cartpole"
    """The world that agents live in: cartpole, acrobot, mountain-car, pendulum; gymnasium:ID;
    gymnax:ID; or MODULE:CLASS of a Gymnasium environment of your own."""
    max_steps: int | None = None
    """The longest episode, in a world of your own; by default its own time limit, or 1,000. A
    time-out is no terminal state."""
    threshold: float | None = None
    """Θ, the score of a success, in a world of your own; by default its own, if it is registered
    with one."""
    bounds: tuple[str, ...] | None = None
    """Public box in which the observations of a world of your own usually lie, INDEX=low:high; by
    default what a probe of the *usual* environment with random actions sees, before there is any
    agent, so that it costs no ε."""
    population: tuple[str, ...] | None = None
    """How agents' ψ differ: FIELD=v1,v2,… or FIELD=low:high, several allowed (paper:
    gravity=9.7,9.8,9.9)."""
    workers: int = 9
    """W: agents that play at the same time; their reports arrive asynchronously."""
    local_episodes: int | None = None
    """Episodes that an agent plays for one report. They cost environment steps, not ε. By default
    2(k + 1) for a subspace of k dimensions, at least 10, or 20 where a report has ε ≤ 0.25; at most
    20."""
    estimator: Literal["policy-gradient", "evolution"] | None = None
    """How an agent makes a gradient of its episodes: the policy gradient (the paper), or by trying
    policies near θ, which is the default in a subspace with 4 local episodes or more."""
    spread: float = 1.0
    """σ of evolution: how far from θ policies are tried, in the coordinates that are reported."""
    action: Literal["sampled", "argmax"] = "sampled"
    """How agents act: sampled from π, or its argmax. Evolution always takes the argmax
    (or mean)."""
    alpha_start: float = 0.0
    """α at the start: the probability of a random action is max(0, alpha_start − n/alpha_decay)
    after n submissions."""
    alpha_decay: float = 1800.0
    """See alpha_start."""
    score: Literal["training", "greedy"] | None = "greedy"
    """ζ of a submission: the score of its training episode, or of one more, greedy episode that is
    not trained on."""

    own_policy: int | None = None
    """d, where the policy is one of the devices' own that this program does not know (pgc serve
    --theta): nothing is simulated, and what is said below of worlds, policies and losses is the
    devices' affair."""

    # Policy and loss
    policy: str | None = None
    """The network: actor-critic (the default), convolutional (for pictures), or MODULE:NAME of your
    own, a function of (observation_shape, outputs) that returns what pgc.policies.own makes of a
    function, a Flax, Equinox or PyTorch module."""
    hidden: tuple[int, ...] = (16,)
    """Widths of the shared ReLU layers."""
    biases: bool = False
    """Whether layers have biases."""
    normalize: bool = True
    """Whether the policy sees observations scaled to [−1, 1] by their public bounds."""
    initial: Literal["glorot", "flat", "normal", "zeros"] = "flat"
    """θ_0: Glorot uniform (paper); that with a policy head of 0.3 its size; N(0, 0.1²);
    or zeros."""
    discount: float = 0.99
    """γ."""
    value_weight: float = 0.5
    """λ, the weight of the value loss, where there is a critic (policy gradient)."""
    entropy_weight: float = 0.01
    """β, the weight of the entropy bonus (policy gradient)."""
    reward: Literal["step", "end", "failure"] = "step"
    """The world's own reward; −1 / +1 at the end (short / score ≥ Θ); or −1 at failure only."""
    bootstrap: Literal["zero", "always", "timeout"] = "timeout"
    """What stands for V(s_T): nothing, the network's value, or that on time-out only."""
    baseline: Literal["critic", "none", "local"] = "local"
    """What returns are compared with: the network's V (the paper), nothing, or a fit to the agent's
    own episodes."""
    reduction: Literal["sum", "mean"] = "sum"
    """The loss is a sum or a mean over steps (policy gradient)."""
    standardize: Literal["no", "center", "scale"] = "scale"
    """Whether returns are centred, or centred and scaled, over the episodes of one report."""

    # The aggregator
    buffer_size: int | None = None
    """|B|: reports in each update of θ; by default 10 (paper: 1, and 100 for prs)."""
    optimizer: str = "sgd"
    """Any optimiser of optax by name: sgd (the paper), adam, rmsprop, …; or MODULE:NAME of your
    own, a function of the rate."""
    learning_rate: float | None = None
    """η; by default |B|/80·√k·tanh(ε/2) for k dimensions of a subspace, 4 standing for the whole
    gradient's (paper: 0.5)."""
    uses_per_report: int = 1
    """Update steps made from each full buffer."""
    max_staleness: int | None = None
    """Drop reports whose θ is more than this many versions old; by default none is dropped."""
    trim: float = 0.0
    """Against hostile agents: the share of each buffer that is left out at either end, coordinate
    by coordinate, before the mean; 0.2 leaves out two of ten on each side."""
    report_norm: float = math.inf
    """Against hostile agents: a decoded report that is longer than this is shortened to it; inf for
    none. Needed for laplace, whose valid reports can be any numbers."""
    output_cap: float | None = None
    """Largest root mean square of the policy's outputs (differences of logits) at public states,
    inf for none; by default 2, and none for continuous actions (paper: none)."""
    average_from: float = 0.75
    """The averaged policy is the mean of θ over the reports after this share of the run."""
    stop_rate: float | None = None
    """Stop a trial once the noisy booleans alone show, at two standard deviations, that more than
    this share succeed."""
    stop_window: int = 500
    """Reports that the stopping rule looks at together."""

    # The run
    submissions: int = 4000
    """N: private gradients collected in each trial."""
    trials: int = 1
    """Independent trials, side by side in one compiled program; trial i is the same whatever their
    number (on a CPU)."""
    seed: int = 0
    """Fixes everything: same seed, same machine type, same bits."""
    eval_episodes: int = 100
    """Greedy episodes for each ψ that score the final and the averaged policy."""
