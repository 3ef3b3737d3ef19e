"""Models as data: named numbers and arrays in one piece of bytes, checked when they are read.

What a :class:`CrowdLearner` makes travels to deciders, to a journal and back in this form, or in
any other that its policy writes and reads. There is no code in it, as there would be in a pickle.
"""

import hashlib
import json
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bdes_framework._internal.files import parse_json
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError

_MAGIC = b"bdes packed model 1\n"
_SIZE = 8
"""Bytes that say how long the description is."""
_DIGEST = 32
_ALIGNMENT = 8
_TYPES = ("|u1", "<i2", "<i4", "<i8", "<f4", "<f8")


def pack_model(
    kind: str, values: Mapping[str, object], arrays: Mapping[str, NDArray[np.generic]]
) -> bytes:
    """Return a model as bytes: the same bytes for the same values and arrays.

    Parameters
    ----------
    kind : str
        What it is a model of, and the version of its form, such as ``"my-policy 1"``.
    values : Mapping[str, object]
        What JSON can hold; numbers are kept to the last bit.
    arrays : Mapping[str, NDArray]
        Arrays of 8 to 64 bits integers, or of floats.

    Examples
    --------
    >>> data = pack_model("my-policy 1", {"told": 3}, {"means": np.array([0.5, 0.25])})
    >>> values, arrays = unpack_model(data, "my-policy 1")
    >>> values["told"], arrays["means"].tolist()
    (3, [0.5, 0.25])
    """
    listed, parts = [], []
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array)
        plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
        if plain.dtype.str not in _TYPES:
            raise InvalidValueError(f"array {quoted(name)} is of a type that is not kept")
        listed.append([name, plain.dtype.str, list(plain.shape)])
        parts.append(plain.tobytes() + bytes(-plain.nbytes % _ALIGNMENT))
    content = {"kind": kind, "values": dict(values), "arrays": listed}
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-(len(_MAGIC) + _SIZE + len(text)) % _ALIGNMENT)
    body = b"".join([_MAGIC, len(text).to_bytes(_SIZE, "little"), text, *parts])
    return body + hashlib.sha256(body).digest()


def unpack_model(
    data: bytes, kind: str
) -> tuple[dict[str, object], dict[str, NDArray[np.generic]]]:
    """Return the values and arrays, read-only, that :func:`pack_model` was given.

    Raises InvalidValueError if the data are damaged, or of another kind.
    """
    head = len(_MAGIC) + _SIZE
    if len(data) < head + _DIGEST or not data.startswith(_MAGIC):
        raise InvalidValueError("these data are no model")
    body = memoryview(data)[:-_DIGEST]
    if hashlib.sha256(body).digest() != data[-_DIGEST:]:
        raise InvalidValueError("the model is damaged")
    start = head + int.from_bytes(data[len(_MAGIC) : head], "little")
    try:
        content = parse_json(bytes(body[head:start]))
    except ValueError as error:
        raise InvalidValueError(f"the model's description {error}") from None
    if content.get("kind") != kind:
        raise InvalidValueError(
            f"this is a model of {quoted(content.get('kind'))}, not of {kind!r}"
        )
    values, listed = content.get("values"), content.get("arrays")
    if not isinstance(values, dict) or not isinstance(listed, list):
        raise InvalidValueError("the model's description is incomplete")
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, type_name, shape in listed:
        size = math.prod(shape) * np.dtype(type_name).itemsize
        arrays[name] = np.frombuffer(body[start : start + size], type_name).reshape(shape)
        start += size + -size % _ALIGNMENT
    return values, arrays
