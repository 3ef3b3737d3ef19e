"""A learner that serves people for months: a session over a journal, a service and its client."""

from typing import TYPE_CHECKING

from bdes_framework._internal.lazy_names import lazy_names

if TYPE_CHECKING:
    from bdes_framework.live.client import Client as Client
    from bdes_framework.live.serving import ServiceProcess as ServiceProcess

_HOMES = {"client": "Client", "serving": "ServiceProcess"}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
