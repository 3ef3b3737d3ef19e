"""What varies between the settings of a run: what the page's filter chooses by."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from attrs import frozen

Key = TypeVar("Key", bound=Hashable)


@frozen
class Dimension:
    """Something that varies, such as lam, and its values as they are shown."""

    name: str
    values: list[str]


class Dimensions(Generic[Key]):
    """The dimensions of settings, and where each setting stands in them.

    Parameters
    ----------
    columns : Mapping[str, Sequence[str]]
        The dimensions by name, with their values as they are shown, in order.
    settings : Mapping[Key, Mapping[str, str]]
        The value of each dimension, by setting.
    """

    def __init__(
        self, columns: Mapping[str, Sequence[str]], settings: Mapping[Key, Mapping[str, str]]
    ) -> None:
        unique = {name: list(dict.fromkeys(values)) for name, values in columns.items()}
        self.dimensions = [Dimension(name, values) for name, values in unique.items()]
        self._index = {key: i for i, key in enumerate(settings)}
        self._places = [
            [unique[name].index(values[name]) for name in unique] for values in settings.values()
        ]

    def index(self, setting: Key) -> int:
        """Return the number by which the page knows a setting."""
        return self._index[setting]

    def script_data(self) -> dict[str, Any]:
        """Return the dimensions and the settings' places in them as plain JSON."""
        dimensions = [{"name": d.name, "values": d.values} for d in self.dimensions]
        return {"dimensions": dimensions, "settings": self._places}
