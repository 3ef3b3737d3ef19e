"""Simulation: a policy plays an environment, and what that cost, as regret."""
