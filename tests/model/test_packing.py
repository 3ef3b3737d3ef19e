"""Models as data: they come back as they were, and damage is noticed."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bdes_framework import InvalidValueError, pack_model, unpack_model

ARRAYS = st.dictionaries(
    st.text(max_size=5),
    hnp.arrays(
        st.sampled_from(["u1", "i2", "i4", "i8", "f4", "f8", ">f8", ">i4"]),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
    ),
    max_size=4,
)
VALUES = st.dictionaries(
    st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
)


@given(values=VALUES, arrays=ARRAYS)
def test_models_come_back_as_they_were(values: dict[str, Any], arrays: dict[str, Any]) -> None:
    data = pack_model("test 1", values, arrays)
    assert data == pack_model("test 1", dict(reversed(values.items())), arrays)
    found_values, found = unpack_model(data, "test 1")
    assert found_values == values
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
        assert not found[name].flags.writeable


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_every_bit_counts(place: int, bit: int) -> None:
    data = bytearray(pack_model("test 1", {"n": 3}, {"a": np.arange(9.0)}))
    data[place % len(data)] ^= 1 << bit
    with pytest.raises(InvalidValueError):
        unpack_model(bytes(data), "test 1")


@given(st.integers(0, 10_000))
def test_every_byte_counts(stop: int) -> None:
    data = pack_model("test 1", {}, {"a": np.arange(9)})
    with pytest.raises(InvalidValueError):
        unpack_model(data[: stop % len(data)], "test 1")


def test_models_of_others_are_refused() -> None:
    data = pack_model("test 1", {}, {})
    with pytest.raises(InvalidValueError, match="a model of 'test 1', not of 'test 2'"):
        unpack_model(data, "test 2")


def test_other_types_are_not_kept() -> None:
    for array in (np.array(["text"]), np.array([1j]), np.array([object()])):
        with pytest.raises(InvalidValueError, match="a type that is not kept"):
            pack_model("test 1", {}, {"a": array})
