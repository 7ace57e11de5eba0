"""Many games at once: a pool for training loops, and the same behind Gymnasium's vector interface."""

from sfl.envs.vector.doom_vector_env import DoomVectorEnv
from sfl.envs.vector.pool import EpisodeSource, GameEpisode, GamePool, GameStep, RandomEpisodes

__all__ = ["DoomVectorEnv", "EpisodeSource", "GameEpisode", "GamePool", "GameStep", "RandomEpisodes"]
