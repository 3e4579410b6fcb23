"""What is given of each sequence, or of each of its items, as arrays."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan._checks import number, whole
from batchplan._errors import InvalidRequest

_MOST = 2**32 - 1
_FLAGS = {bool, numpy.bool_}
# Behind what is wrong with lengths, where tokens were given.
_OF_TOKENS = "; of lists of tokens give [len(t) for t in tokens]"


def listed(where: str, values: Any) -> Any:
    """The same values, to be read more than once: what is neither a sequence nor an array, such as an iterator, as a
    list.

    Raises:
        InvalidRequest: they are text, a mapping or a set.
    """
    if isinstance(values, (str, bytes, bytearray)):
        raise InvalidRequest(f"{where} is {reprlib.repr(values)}; must be a list or an array")
    if isinstance(values, Mapping):
        raise InvalidRequest(f"{where} is {reprlib.repr(values)}; must be a list or an array, such as its values()")
    if isinstance(values, Set):
        order = ", and no order" if isinstance(values, (set, frozenset)) else ""
        raise InvalidRequest(
            f"{where} is {reprlib.repr(values)}; must be a list or an array: a {type(values).__name__} has equal "
            f"entries once{order}"
        )
    if isinstance(values, Sequence) or hasattr(values, "__array__") or _is_buffer(values):
        return values
    return list(values) if isinstance(values, Iterable) else values


def uint32_of(name: str, values: Any) -> NDArray[numpy.uint32]:
    """A field of the manifest: whole numbers, floats among them, without a copy where they are uint32 already.

    Raises:
        InvalidRequest: a number is not whole, or out of range; or they are no list.
    """
    where = f"manifest.{name}"
    hint = _OF_TOKENS if name == "lengths" else ""
    values, array = _array(where, values, "whole numbers", hint)
    if array.dtype.kind == "f" and numpy.isfinite(array).all() and (array == numpy.floor(array)).all():
        if ((array >= 0) & (array < 2.0**32)).all():
            return array.astype(numpy.uint32)
    if array.dtype.kind not in "iu":
        array = numpy.array([_uint32(where, place, one, hint) for place, one in enumerate(values)])
    if array.dtype != numpy.uint32:
        for wrong in (array < 0, array > _MOST):
            if wrong.any():
                place = int(wrong.argmax())
                raise InvalidRequest(f"{where}[{place}] is {array[place]}; must be 0 to {_MOST}")
    return numpy.ascontiguousarray(array, numpy.uint32)


def float64_of(where: str, values: Any) -> NDArray[numpy.float64]:
    """Numbers, without a copy where they are float64 already.

    Raises:
        InvalidRequest: one is none, or they are no list.
    """
    values, array = _array(where, values, "numbers")
    if array.dtype.kind not in "iuf":
        array = numpy.array([_float64(where, place, one) for place, one in enumerate(values)], numpy.float64)
    return numpy.ascontiguousarray(array, numpy.float64)


def _array(where: str, values: Any, kind: str, hint: str = "") -> tuple[Sequence[Any] | NDArray[Any], NDArray[Any]]:
    """The values as errors show them, and an array of one dimension: of numbers, or of what is to be looked at."""
    values = listed(where, values)
    is_list = isinstance(values, (list, tuple))
    if isinstance(values, numpy.ma.MaskedArray) and numpy.any(values.mask):
        raise InvalidRequest(f"{where}[{int(numpy.argmax(values.mask))}] is masked; must be a number")
    try:
        # Tokens are not read to see that they are no numbers.
        array = _objects(values) if is_list and len(values) and _is_list(values[0]) else numpy.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        # Of lists of different lengths, or a tensor that is not on the host.
        if not is_list:
            raise InvalidRequest(f"{where} is no array: {error}") from None
        array = _objects(values)
    if array.ndim == 0:
        raise InvalidRequest(f"{where} is {reprlib.repr(values)}; must be a list or an array of {kind}")
    if array.ndim > 1 and is_list:
        array = _objects(values)
    if array.ndim != 1:
        raise InvalidRequest(f"{where} has {array.ndim} dimensions; it must have one{hint}")
    if array.size == 0:
        return array, numpy.empty(0, numpy.uint32)
    if not is_list:
        if array.dtype.kind not in "iufO":
            raise InvalidRequest(f"{where} has dtype {array.dtype}; it must be of {kind}")
        return array, array
    # NumPy reads True beside numbers as 1.
    return values, array if _FLAGS.isdisjoint(map(type, values)) else _objects(values)


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    """Without a look at what they are."""
    array = numpy.empty(len(values), object)
    for place, one in enumerate(values):
        array[place] = one
    return array


def _uint32(where: str, place: int, value: Any, hint: str) -> int:
    """The number at a place, as an array can hold it."""
    own = f"{where}[{place}]"
    if type(value) in _FLAGS:
        raise InvalidRequest(f"{own} is {value}; must be a whole number")
    if _is_list(value):
        raise InvalidRequest(f"{own} is {reprlib.repr(value)}; must be a whole number{hint}")
    found = int(value) if isinstance(value, (float, numpy.floating)) and value.is_integer() else whole(own, value)
    if not 0 <= found <= _MOST:
        raise InvalidRequest(f"{own} is {value}; must be 0 to {_MOST}")
    return found


def _float64(where: str, place: int, value: Any) -> float:
    own = f"{where}[{place}]"
    if type(value) in _FLAGS or _is_list(value):
        raise InvalidRequest(f"{own} is {reprlib.repr(value)}; must be a number")
    return number(own, value)


def _is_list(value: Any) -> bool:
    """Also of a tensor, but not where it is one number."""
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) > 0


def _is_buffer(values: Any) -> bool:
    try:
        memoryview(values)
    except TypeError:
        return False
    return True
