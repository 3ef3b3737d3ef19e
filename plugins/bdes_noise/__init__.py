"""Plugin of noise models for the state that rewards are drawn from."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``none``, ``gaussian``, ``uniform``, ``rademacher`` and ``truncated-gaussian``."""
    from bdes_noise import simple, truncated_gaussian

    registrar.noise_model("none", simple.NoneConfig, simple.build_none)
    registrar.noise_model("gaussian", simple.GaussianConfig, simple.build_gaussian)
    registrar.noise_model("uniform", simple.UniformConfig, simple.build_uniform)
    registrar.noise_model("rademacher", simple.RademacherConfig, simple.build_rademacher)
    registrar.noise_model(
        "truncated-gaussian",
        truncated_gaussian.TruncatedGaussianConfig,
        truncated_gaussian.build,
    )
