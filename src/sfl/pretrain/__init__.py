"""Encoders of frames: random walks to learn from, training, and how well an encoder knows a place again."""
