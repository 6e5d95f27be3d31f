# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # Reproduce a figure
#
# The paper's Figure 3 shows how many of its trials have succeeded after n submissions: CartPole, Projected Random Sign (PRS), several ε. This
# notebook makes a small version of it in a minute: fewer trials and fewer submissions than the paper's 90,000. `pgc reproduce` makes all of the
# paper's tables and figures.
#
# A trial succeeds when ten scores in a row average at least Θ = 195. The algorithm as printed in the paper does not learn; with its reward at the
# end of an episode it does (docs/reproduction.md), so that is the reading used here.

# %%
import matplotlib.pyplot as plt
import numpy as np

import pgc
from pgc.runs.metrics import success_ratio

SUBMISSIONS, TRIALS = 6_000, 20
runs = {
    epsilon: pgc.train(
        preset="paper",
        mechanism="prs",
        epsilon=epsilon,
        reward="end",
        submissions=SUBMISSIONS,
        trials=TRIALS,
        eval_episodes=2,
        seed=1,
    )
    for epsilon in (1.0, 5.0, 10.0)
}

# %% [markdown]
# Each run is a folder, and an object that reads it. `summary` has its numbers; first success times (FST) are there for every trial, and null is never.

# %%
for epsilon, run in runs.items():
    print(
        f"ε = {epsilon:g}: median first success {run.summary['fst_median']}, AUC {run.summary['auc']:.2f}"
    )

# %%
n = np.arange(1, SUBMISSIONS + 1)
figure, axes = plt.subplots(figsize=(6, 3.6))
for epsilon, run in runs.items():
    fst = np.array([np.inf if f is None else f for f in run.summary["fst"]])
    axes.step(n, success_ratio(fst, n), where="post", label=f"PRS, ε = {epsilon:g}")
axes.set(xlabel="submissions", ylabel="success ratio", ylim=(-0.02, 1.02))
axes.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# Is that learning, or luck? The control replaces every gradient by zero: noise alone moves the policy, and sometimes succeeds.

# %%
control = pgc.train(
    preset="paper",
    mechanism="prs",
    epsilon=5.0,
    reward="end",
    control=True,
    submissions=SUBMISSIONS,
    trials=TRIALS,
    eval_episodes=2,
    seed=1,
)
print(
    "with gradients:",
    runs[5.0].summary["success_ratio"],
    " with noise alone:",
    control.summary["success_ratio"],
)
