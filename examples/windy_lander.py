r"""LunarLander in wind: a world of one's own whose ψ is gravity and the wind at a home.

    pgc pretrain --world examples.windy_lander:WindyLander --max-steps 1000 --threshold 200 \
        --vary gravity=-11.9:-7 wind_power=0:20 --out lander
    pgc train --world examples.windy_lander:WindyLander --max-steps 1000 --threshold 200 --start lander --subspace learnt \
        --population gravity=-11.9:-9 wind_power=15 --epsilon 2 --submissions 2000

Gymnasium's LunarLander has a switch for the wind, and ψ has numbers alone. Here the wind is always on, and its power is 0 in the
usual world. It needs `pip install 'gymnasium[box2d]'`.
"""

from gymnasium.envs.box2d.lunar_lander import LunarLander


class WindyLander(LunarLander):
    """LunarLander whose wind has a power of 0 by default."""

    def __init__(self, render_mode=None, gravity=-10.0, wind_power=0.0, turbulence_power=1.5):
        super().__init__(
            render_mode=render_mode,
            gravity=gravity,
            enable_wind=True,
            wind_power=wind_power,
            turbulence_power=turbulence_power,
        )
