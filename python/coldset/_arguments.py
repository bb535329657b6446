"""What callers give: sizes, shapes, types, files and settings, checked and as the native half takes them."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from typing import IO, Any, Literal, SupportsIndex, Union

import numpy as np
import numpy.typing as npt

from . import _coldset
from ._array import Array, Path
from ._errors import SettingError

#: Bytes as a number, or as text: "512M", "2GiB".
Size = Union[int, str]
#: A file by its path, or open.
FilePath = Union[Path, bytes, IO[Any]]
Shape = Union[SupportsIndex, Iterable[SupportsIndex]]
Order = Literal["C", "F"]
#: A setting that is true or false, also as text.
Truth = Union[bool, Literal["true", "false"]]
Mode = Literal["r", "r+", "w+", "c", "readonly", "readwrite", "write", "copyonwrite"]

MODES = {"readonly": "r", "readwrite": "r+", "write": "w+", "copyonwrite": "c"}


#: What the native half says of sizes, for numbers that it cannot be given.
_RANGES = {
    "the budget": "use 1 MiB to 17592186036224 bytes (16 TiB less 8 KiB)",
    "the size": "use 1 to 17592186036224 bytes (16 TiB less 8 KiB)",
}


def size(what: str, size: Size) -> int:
    if isinstance(size, str):
        return _coldset.parse_size(size)
    try:
        number = operator.index(size)
    except TypeError:
        raise SettingError(f"{what} is {size!r}; give bytes as an int or as text like '2GiB'") from None
    if not 0 <= number < 1 << 64:
        raise SettingError(f"{what} is {size!r} bytes; {_RANGES.get(what, 'use 0 to 2^64-1')}")
    return number


def truth(name: str, value: object) -> str | None:
    """A true or false setting as the pager reads it, or None if it is not given."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, str) and value in ("true", "false"):
        return value
    raise SettingError(f'{name} is {value!r}; use True or False, or the text "true" or "false"')


def switches(switches: Any) -> list[str]:
    """Switches as the pager reads them."""
    if isinstance(switches, str):
        return [switches]
    if isinstance(switches, Mapping):
        return [f"{k}={str(v).lower()}" for k, v in switches.items()]
    found = list(switches) if isinstance(switches, Iterable) else [switches]
    for one in found:
        if not isinstance(one, str):
            raise SettingError(
                f'switches has {one!r}; give "name=value" texts, or a mapping of names to values '
                "(coldset.lab.switches() lists them)"
            )
    return found


def readable(what: str, text: str) -> str:
    """Text that the native half can take."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SettingError(f"{what} is {text!r}, which is not UTF-8; use another name") from None
    return text


def limits(limits: Mapping[str, Size | None]) -> dict[str, int]:
    return {
        # "max" is the kernel's word for no limit.
        name: (1 << 64) - 1 if value == "max" else size(name, value)
        for name, value in limits.items()
        if value is not None
    }


def shape(shape: Shape) -> tuple[int, ...]:
    try:
        numbers = (
            (operator.index(shape),)
            if isinstance(shape, SupportsIndex)
            else tuple(operator.index(n) for n in shape)
        )
    except TypeError:
        raise SettingError(f"the shape is {shape!r}; use an int or a tuple of ints") from None
    if any(n < 0 for n in numbers):
        raise SettingError(f"the shape is {shape!r}; negative dimensions are not allowed")
    return numbers


def dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    made = np.dtype(dtype)
    if made.hasobject:
        raise SettingError(f"the dtype is {made}; Python objects cannot be in managed memory")
    if made.itemsize == 0:
        raise SettingError(f"the dtype is {made}; its items have no bytes, give it a length")
    return made


def count(shape: tuple[int, ...]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def array(
    region: _coldset.Region,
    offset: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    order: str,
    filename: str | None = None,
) -> Array:
    if order not in ("C", "F"):
        raise SettingError(f"the order is {order!r}; use 'C' or 'F'")
    bytes_ = np.asarray(region)[offset : offset + count(shape) * dtype.itemsize]
    array = bytes_.view(dtype).reshape(shape, order="F" if order == "F" else "C").view(Array)
    array._region = region
    array.filename = filename
    return array


def path(path: FilePath) -> str:
    """The path of a file that is given as numpy.memmap takes it: by its path, or open."""
    if not hasattr(path, "fileno"):
        return os.fsdecode(path)
    if hasattr(path, "flush"):
        path.flush()
    open_, name = os.fstat(path.fileno()), getattr(path, "name", None)
    try:
        if isinstance(name, (str, bytes)) and os.path.samestat(os.stat(name), open_):
            return os.fsdecode(name)
    except OSError:
        pass
    # It has another name by now, or none.
    return f"/proc/self/fd/{path.fileno()}"


def policy(policy: object, fault_mode: str | None) -> object:
    """A maker of policy objects of a class."""
    if not isinstance(policy, type):
        name = type(policy).__name__
        raise SettingError(
            f"the policy is {policy!r}; give a name, or the class itself, which is made once for files and once for "
            f"anonymous memory of each group: policy={name}"
        )
    if fault_mode != "explicit":
        raise SettingError(
            f"the policy {policy.__name__} is written in Python, and decides in explicit mode only; add "
            'fault_mode="explicit", and use regions: pool.region(size)'
        )
    from .lab._outside import in_pool

    return in_pool(policy)
