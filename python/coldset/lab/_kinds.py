"""How a value in Python is written on the command line, by the kind of option."""

from __future__ import annotations

import difflib
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Union

from .._errors import SettingError
from ._settings import Settings as _Pairs

#: A page, bytes.
_PAGE = 4096
#: The values of an option, each given once, None being the bare option; or None if it takes no such value.
_Write = Callable[[Any], "Sequence[str | None] | None"]


class Kind:
    """What an option takes, in words, and how it is written."""

    def __init__(self, takes: str, write: _Write) -> None:
        self.takes = takes
        self._write = write

    def write(self, name: str, value: object) -> list[str]:
        """A keyword with its value as arguments. Raises TypeError for a value that it does not take."""
        try:
            written = self._write(value)
        except SettingError as e:
            raise SettingError(f"{name}: {e}") from None
        if written is None:
            raise TypeError(f"{name} is {value!r} ({type(value).__name__}); it takes {self.takes}")
        option = option_of(name)
        return [option if text is None else f"{option}={text}" for text in written]


def option_of(name: str) -> str:
    """The option of a keyword."""
    return "--" + name.rstrip("_").replace("_", "-")


def _whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _list(value: object) -> list[Any] | None:
    """The parts of a list, tuple, array or other iterable that is no text and no mapping."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return None
    if getattr(value, "ndim", 1) != 1:
        return None
    return list(value)


def _text(value: object) -> list[str] | None:
    return [value] if isinstance(value, str) else None


def _path(value: object) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        return [path] if isinstance(path, str) else None
    return None


def _number(value: object) -> list[str] | None:
    return [str(value)] if _whole(value) else None


def _factor(value: object) -> list[str] | None:
    if isinstance(value, bool) or not isinstance(value, (str, numbers.Real)):
        return None
    return [str(value)]


def _percent(value: object) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    return [f"{float(value) * 100:.10g}%"]


def _names(value: object) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    parts = _list(value)
    if not parts or not all(isinstance(part, str) for part in parts):
        return None
    return [",".join(parts)]


def size(value: object) -> str | None:
    """A size: text as it is, a float as a share, a whole number as bytes."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Integral):
        if value < _PAGE:
            raise SettingError(
                f"{value} bytes is less than a page; for pages write '{value}pages', for a share a float (0.5 is 50 %)"
            )
        return f"{int(value)}B"
    return share(float(value))


def share(value: float) -> str:
    """A share: 0.3 is 30 %."""
    if not 0 < value <= 1:
        raise SettingError(
            f"a share is a float above 0 and up to 1 (0.3 is 30 %), not {value!r}; sizes are texts such as '64MiB'"
        )
    return f"{value * 100:.10g}%"


def amount(value: object) -> str | None:
    """An amount of a trace's memory: text as it is, a float as a share, a whole number as pages, as those of the
    trace are."""
    if isinstance(value, bool) or not isinstance(value, (str, numbers.Real)):
        return None
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        value = share(float(value))
    text = str(value).strip()
    return f"{text}pages" if text.isdigit() else text


def _amounts(value: object) -> list[str | None]:
    parts = value.split(",") if isinstance(value, str) else _list(value)
    return [amount(part) for part in ([value] if parts is None else parts)]


def pages(name: str, value: object) -> list[str]:
    """Amounts of a trace's memory, one or several."""
    found = [] if value is None else _amounts(value)
    if value is not None and not found:
        raise SettingError(f"{name} is empty; give at least one, or leave it out")
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        raise TypeError(
            f"{name} is {value!r} ({type(value).__name__}); it takes a size ('64MiB'), a number of pages, a share "
            "(0.3 or '30%'), or a list of them"
        )
    return known


def _memory(value: object) -> list[str] | None:
    one = amount(value)
    return None if one is None else [one]


def _memories(value: object) -> list[str] | None:
    found = _amounts(value)
    if not found or None in found:
        return None
    return [",".join(str(one) for one in found)]


def _size(value: object) -> list[str] | None:
    written = size(value)
    return None if written is None else [written]


def _flag(value: object) -> list[None] | None:
    return ([None] if value else []) if isinstance(value, bool) else None


def _how(value: object) -> Sequence[str | None] | None:
    return [value] if isinstance(value, str) else _flag(value)


def _switch(value: object) -> list[str] | None:
    return _text("on" if value else "off") if isinstance(value, bool) else _text(value)


def _value(value: object) -> str | None:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, (str, numbers.Real)) else None


def _pairs(value: object) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        values = {str(name): _value(what) for name, what in value.items()}
        if None in values.values():
            return None
        return [f"{name}={what}" for name, what in values.items()]
    parts = _list(value)
    return parts if parts is not None and all(isinstance(part, str) for part in parts) else None


def _limits(value: object) -> list[str] | None:
    if isinstance(value, Mapping):
        values = {str(task): size(what) for task, what in value.items()}
        if None in values.values():
            return None
        return [f"{task}={what}" for task, what in values.items()]
    return _pairs(value)


def _points(value: object) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    pairs = list(value.items()) if isinstance(value, Mapping) else _list(value)
    if not pairs:
        return None
    try:
        points = [(access, seconds) for access, seconds in pairs]
    except (TypeError, ValueError):
        return None
    if not all(_whole(a) and isinstance(s, numbers.Real) for a, s in points):
        return None
    return [",".join(f"{int(a)}:{float(s)!r}" for a, s in points)]


#: "text", exactly as the command takes it.
Text = Annotated[str, Kind("text", _text)]
PathName = Annotated[Union[str, os.PathLike[str]], Kind("a path", _path)]
Number = Annotated[int, Kind("a whole number", _number)]
Factor = Annotated[Union[float, str], Kind("a number, or a text such as '1/64'", _factor)]
Percent = Annotated[Union[float, str], Kind("a share (0.01 is 1 %), or a text such as '1%'", _percent)]
Names = Annotated[
    Union[str, Iterable[str]], Kind("a name, names separated by commas, or a list of names", _names)
]
Size = Annotated[
    Union[str, int, float],
    Kind("a size ('64MiB', '300pages'), a number of bytes, or a share (0.3 or '30%')", _size),
]
Memory = Annotated[
    Union[str, int, float],
    Kind("a size ('64MiB'), a number of pages, or a share (0.3 or '30%')", _memory),
]
Memories = Annotated[
    Union[str, int, float, Iterable[Union[str, int, float]]],
    Kind("a size ('64MiB'), a number of pages, a share (0.3 or '30%'), or a list of them", _memories),
]
Flag = Annotated[bool, Kind("True or False", _flag)]
How = Annotated[Union[bool, str], Kind("True, False or a text", _how)]
OnOff = Annotated[Union[bool, str], Kind("True or False ('on' or 'off')", _switch)]
Pairs = Annotated[
    Union[_Pairs, str], Kind("a dict of names and values, 'name=value', or a list of such texts", _pairs)
]
Limits = Annotated[
    Union[Mapping[int, Union[str, int, float]], str, Iterable[str]],
    Kind("a dict of tasks and sizes, 'task=size', or a list of such texts", _limits),
]
Points = Annotated[
    Union[Mapping[int, float], str, Iterable[tuple[int, float]]],
    Kind("a dict or pairs of accesses and seconds, or 'access:seconds,...'", _points),
]


def unknown(function: str, name: str, known: Iterable[str]) -> TypeError:
    """For a keyword that a function does not have."""
    names = sorted({*known})
    near = difflib.get_close_matches(name.strip("_"), names, 1) or difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"
    return TypeError(f"{function}() has no keyword {name!r}; {hint}")
