"""One frozen dataclass holds everything that decides a run: a run is a function of (config, seed).

It round-trips through YAML and the command line; the help text of each flag is the text under its
field. `validation.py` checks it, `problem.py` builds the parts of a run from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Preset = Literal["default", "paper"]
SECTIONS = {
    "preset": "Where settings start from",
    "mechanism": "Privacy",
    "world": "The private worlds and the agents in them",
    "own_policy": "Policy and loss",
    "buffer_size": "The aggregator",
    "submissions": "The run",
    "public": "Where it starts",
}
"""The title of each group of settings, by the first setting in it."""
FILLED_IN = ("start_origin", "learnt_directions")
"""Settings that pgc fills in; nobody gives them."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of a run, which trains one policy for many private worlds under ε-LDP."""

    preset: Preset = "default"
    """The preset from which all other flags take their default values: `default` learns best;
    `paper` has the values that the paper prints."""

    # Privacy
    mechanism: str = "index"
    """The mechanism that randomises each gradient on the agent: index, privunit, privunitg, duchi,
    piecewise, prs-sign, prs, laplace, none, or a class of your own as MODULE:CLASS. Three more are
    NOT ε-LDP and serve only for comparison with the paper: laplace-coordinatewise,
    laplace-coordinatewise-wide, laplace-l2."""
    epsilon: float = 1.0
    """ε, the privacy budget of one agent for everything that it ever sends; `inf` turns privacy
    off, and gradients are only clipped."""
    score_epsilon: float = 0.0
    """The part of ε that one agent spends on noisy booleans, which say with each report whether
    its score reached Θ; 0 sends none."""
    submissions_per_agent: int = 1
    """T, the number of reports that one agent submits; each of them gets ε/T."""
    clip: float | None = None
    """C, the size to which gradients are clipped. Mechanisms that report a direction (index,
    privunit, privunitg, duchi, prs-sign) do not use it, except with --lift. By default it depends
    on the mechanism and the preset (paper: 0.01 for laplace and none, 1 for prs)."""
    reduced_dim: int | None = None
    """d̂, the number of bits in a report of prs or prs-sign, or of coordinates in a report of
    piecewise. By default it follows from ε (for prs and piecewise by the paper's rule,
    max(1, min(d, ⌊ε/2.5⌋)))."""
    unbiased: bool = False
    """Whether reports of prs are scaled to be unbiased. Reports of prs-sign are nearly unbiased in
    many dimensions; those of the other mechanisms are unbiased except for clipping."""
    code_size: int | None = None
    """M, the number of vectors in the public random code of index; by default 256 if a report has
    ε ≤ 2, else 4096."""
    lift: bool = False
    """Whether index, privunit, privunitg and duchi report the norm of the gradient, up to --clip,
    as well as its direction. This takes one more dimension."""
    subspace: Literal["full", "random", "linear", "quadratic", "learnt"] | None = None
    """What agents report of a gradient: all of it (full, as in the paper); its coordinates in a
    random subspace (random); its coordinates along the directions of θ that add linear, or linear
    and quadratic, functions of the observation to the policy's outputs (linear, quadratic); or
    those along the directions that pgc pretrain found in a public simulator (learnt, with --start
    FOLDER). The subspace is public and costs no ε. By default quadratic if its dimension is at most
    12·min(1, ε) for the ε of one report, else linear; full for a policy in PyTorch, or where linear
    has more than 256 dimensions."""
    constant: bool | None = None
    """Whether a linear or quadratic subspace also contains a constant, so that an offset of the
    policy's outputs can be learnt; the network then has biases. By default only in a linear
    subspace, and only if 0 is unusual for some number of the observation: it is more than a
    standard deviation away from the mean in public play, or outside the bounds that are given."""
    subspace_dim: int = 8
    """Dimension of the subspace of --subspace random."""
    control: bool = False
    """Whether every gradient is replaced by zero before the mechanism. Such a run shows what noise
    alone achieves."""

    # The private worlds and the agents in them
    world: str = "cartpole"
    """The world that agents live in: cartpole, acrobot, mountain-car, pendulum, thermostat, rooms,
    glucose; gymnasium:ID; gymnax:ID; or MODULE:CLASS of a world of your own, in JAX or as a
    Gymnasium environment."""
    max_steps: int | None = None
    """The largest number of steps in an episode, for a world that is not built in; by default the
    world's own time limit, or 1,000 if it has none. An episode that is cut off there has not
    reached a terminal state."""
    threshold: float | None = None
    """Θ, the score from which an episode is a success, for a world that is not built in; by default
    the reward threshold with which the world is registered, if any."""
    bounds: tuple[str, ...] | None = None
    """The public box in which observations usually lie, by which a policy's inputs are scaled:
    INDEX=low:high for one or more of the numbers of an observation. The other numbers have the box
    of the built-in world (see --scales), or one that is found by play in the default environment,
    before there is any agent, so this costs no ε."""
    scales: Literal["play", "limits"] = "play"
    """The box of a built-in world where --bounds does not say: how far observations vary in good
    play (play), or the limits of the observation space (limits). Both are public."""
    public_steps: int = 40_000
    """The number of environment steps of that play (see --bounds). About the first 1,000 take
    random actions; in the rest, a small search learns what good play looks like. Give fewer if the
    environment is slow; with at most 1,000, all actions are random."""
    population: tuple[str, ...] | None = None
    """How the private parameters ψ of agents' worlds are distributed: FIELD=v1,v2,… is uniform on
    these values, FIELD=low:high on a range. Several fields can be given (paper:
    gravity=9.7,9.8,9.9)."""
    workers: int = 9
    """W, the number of agents that play at the same time. Their reports arrive asynchronously."""
    local_episodes: int | None = None
    """Number of episodes that an agent plays for one report. They cost environment steps, not ε. By
    default 2(k + 1) for a subspace of k dimensions, but at least 10 (20 if a report has ε ≤ 0.25 or
    the subspace was learnt) and at most 60: what a device can afford, rather than what would be
    best."""
    estimator: Literal["policy-gradient", "evolution"] | None = None
    """How an agent estimates a gradient from its episodes: by the policy gradient (as in the
    paper), or by evolution, which tries policies near θ. By default evolution in a subspace of at
    most 256 dimensions with at least 4 local episodes, else policy-gradient."""
    spread: float | None = None
    """σ of evolution: the standard deviation of the policies that are tried around θ, in the
    coordinates that are reported. By default such that their outputs differ from those of θ by the
    same amount in any subspace: 1 with four observations, less with more of them. In a learnt
    subspace 0.6, where 1 is about as far as good policies lie from the start."""
    action: Literal["sampled", "argmax"] = "sampled"
    """How agents choose actions in training episodes: sampled from π, or as the argmax of π.
    Evolution always takes the argmax (for continuous actions, the mean)."""
    alpha_start: float = 0.0
    """The probability α of a random action at the start. After n submissions it is
    max(0, alpha_start − n/alpha_decay)."""
    alpha_decay: float = 1800.0
    """The number of submissions in which α would fall by 1; see --alpha-start."""
    score: Literal["training", "greedy"] | None = "greedy"
    """Which episode gives the score ζ of a submission: its first training episode, or one more
    episode that is played greedily and not trained on. None means training if there is one local
    episode, else greedy."""

    own_policy: int | None = None
    """d, the length of θ, if only the devices know the policy (pgc serve --theta). Nothing can be
    simulated then, and the settings of worlds, policies and losses have no effect, since the
    devices decide about them."""

    # Policy and loss
    policy: str | None = None
    """The network: actor-critic (the default), convolutional (the default for pictures), or
    MODULE:NAME of your own. The latter is a function of (observation_shape, outputs) that returns
    the result of one of the from_… functions of pgc.policies.own, which take a plain function or a
    Flax, Equinox or PyTorch module."""
    hidden: tuple[int, ...] | None = None
    """Widths of the shared layers; --hidden without numbers makes a linear policy. By default one
    layer of 16 units, but none in a linear subspace if an observation has more than four numbers,
    because 16 units cannot express every linear function of them (paper: 16)."""
    activation: Literal["relu", "tanh"] = "relu"
    """What follows each shared layer: ReLU (as in the paper), or tanh, which networks that others
    trained often have."""
    biases: bool = False
    """Whether layers have biases."""
    normalize: bool = True
    """With --no-normalize the policy sees observations as the world gives them. By default it sees
    them scaled to [−1, 1] by their public bounds."""
    initial: Literal["glorot", "flat", "normal", "zeros"] = "flat"
    """How θ_0 is drawn: Glorot uniform (glorot, as in the paper); the same with the policy head
    multiplied by 0.3 (flat); from N(0, 0.1²) (normal); or all zero (zeros)."""
    discount: float | None = None
    """γ, the discount factor of future rewards. By default 1 − 2/max_steps, so that rewards half of
    the longest episode ahead still count, but at least 0.99 (paper: 0.99)."""
    value_weight: float = 0.5
    """λ, the weight of the value loss. Only the policy gradient with --baseline critic has one."""
    entropy_weight: float = 0.01
    """β, the weight of the entropy bonus. Only the policy gradient has one."""
    reward: Literal["step", "end", "failure"] = "step"
    """The reward that agents learn from: the world's own (step); +1 at the end of an episode whose
    score reached Θ and −1 at the end of any other (end); or −1 on reaching a terminal state
    and 0 otherwise (failure)."""
    bootstrap: Literal["zero", "always", "timeout"] = "timeout"
    """What is used as the value V(s_T) after the last step: zero, the network's value (always), or
    the network's value only if the episode ended by time-out. Has an effect only with --baseline
    critic."""
    baseline: Literal["critic", "none", "local"] = "local"
    """What returns are compared with: the network's V (critic, as in the paper), nothing (none), or
    a value function that is fitted to the agent's own episodes (local)."""
    reduction: Literal["sum", "mean"] = "sum"
    """Whether the loss is the sum or the mean over the steps of an episode. Has an effect only with
    the policy gradient."""
    standardize: Literal["no", "center", "scale"] = "scale"
    """Whether returns are left as they are (no), centred (center), or centred and divided by their
    standard deviation (scale), over the episodes of one report."""

    # The aggregator
    buffer_size: int | None = None
    """|B|, the number of reports in each update of θ; by default 10 (paper: 1, or 100 for prs)."""
    optimizer: str = "sgd"
    """The name of any optimiser in optax: sgd (as in the paper), adam, rmsprop, …; or MODULE:NAME
    of your own function that takes learning_rate and returns an optax optimiser."""
    learning_rate: float | None = None
    """η, the learning rate; by default |B|/80·√k·tanh(ε/2), where ε is that of one report and k is
    the dimension of the subspace, or 4 if the whole gradient is reported (paper: 0.5)."""
    step_decay: float | None = None
    """n₀: after n reports the step is η/√(1 + n/n₀), so that a late burst of hostile reports moves
    θ less; inf for a step that does not shrink. By default 12.5·k/min(1, ε)², for the ε of one
    report and k as in --learning-rate, where --output-cap holds, and inf where it does not, because
    the policy then grows with the noise, and its steps shrink by themselves (paper: inf)."""
    uses_per_report: int = 1
    """Number of update steps that are made with each full buffer."""
    max_staleness: int | None = None
    """Drop reports whose θ is more than this many versions old; by default none is dropped."""
    trim: float = 0.0
    """A protection against hostile agents: in each coordinate, this share of the lowest and of the
    highest values in a buffer is left out of the mean. With 0.2, a buffer of 10 loses two values at
    each end."""
    report_norm: float | None = None
    """A protection against hostile agents: a decoded report with a larger L2 norm, in θ-space, is
    scaled down to this norm; inf for no limit. By default 1.5 times the root mean square length of
    an honest report where the mechanism's reports differ in length (laplace could otherwise say any
    number), and inf for the others (paper: inf)."""
    output_cap: float | None = None
    """The largest root mean square of the policy's outputs (of differences of logits) at public
    states. A policy beyond it is scaled down after the update; inf for no limit. By default 2, and
    inf for continuous actions, for other policies than actor-critic, and in the paper."""
    average_from: float = 0.75
    """The share of the run's reports before averaging begins. The averaged policy is the mean of θ
    over the reports after that."""
    stop_rate: float | None = None
    """Stop a trial once the noisy booleans of a window show, at two standard deviations, that more
    than this share of its submissions succeed. Needs --score-epsilon. By default no trial is
    stopped."""
    stop_window: int = 500
    """Number of successive reports in a window of the stopping rule (--stop-rate)."""

    # The run
    submissions: int = 4000
    """N, the number of private gradients that are collected in each trial."""
    trials: int = 1
    """Number of independent trials, which run side by side. On a CPU, the result of trial i does
    not depend on how many there are."""
    seed: int = 0
    """The seed of all randomness. The same settings and seed give the same bits on machines of the
    same type."""
    eval_episodes: int = 100
    """Number of greedy episodes, for each ψ, that are played to score the final and the averaged
    policy."""

    # Where it starts
    public: bool = False
    """Whether all agents are simulated and the run uses nobody's data. Needs --epsilon inf. Another
    run can then start from its policy (--start) at no cost in ε, and privacy.json says so."""
    start: str | None = None
    """Where θ_0 comes from, for all trials: a run folder (its first trial's averaged policy), a
    file of safetensors or numpy.save, or a policy of PyTorch (.pt, a state_dict) or
    Stable-Baselines3 (.zip). The network is that of the run or policy. privacy.json says what is
    known of its own privacy."""
    start_origin: str | None = None
    """What is known of the start; filled in by pgc."""
    learnt_directions: str | None = None
    """The directions of --subspace learnt; filled in by pgc from the start."""
