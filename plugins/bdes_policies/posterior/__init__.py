"""The policy ``posterior``: information-directed sampling from a Laplace posterior."""
