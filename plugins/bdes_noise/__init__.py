"""Plugin of noise models for the state that rewards are drawn from."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``none``, ``gaussian``, ``uniform``, ``rademacher`` and ``truncated-gaussian``."""
    from bdes_noise.simple import Gaussian, NoNoise, Rademacher, UniformNoise
    from bdes_noise.truncated_gaussian import TruncatedGaussian

    # A model keeps no state but its parameters: it is its own config.
    registrar.noise_model("none", NoNoise, lambda model, _: model)
    registrar.noise_model("gaussian", Gaussian, lambda model, _: model)
    registrar.noise_model("uniform", UniformNoise, lambda model, _: model)
    registrar.noise_model("rademacher", Rademacher, lambda model, _: model)
    registrar.noise_model("truncated-gaussian", TruncatedGaussian, lambda model, _: model)
