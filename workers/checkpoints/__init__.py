"""Checkpoints: a partition's state and the offset it is the fold up to, so that recovery reads only what came after."""
