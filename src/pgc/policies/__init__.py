"""π and V over one flat vector θ: networks, exploration, losses on one unbatched episode."""

from pgc.policies.actor_critic import ActorCritic
from pgc.policies.loss import Episode, LossOptions

__all__ = ["ActorCritic", "Episode", "LossOptions"]
