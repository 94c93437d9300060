"""Searches replayed on recorded times: nothing is compiled, and noise is that of the machine."""

from autotune.simulate.recording import Recorded, Recording
from autotune.simulate.replay import Simulated, simulate

__all__ = ["Recorded", "Recording", "Simulated", "simulate"]
