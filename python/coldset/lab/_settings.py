"""Settings as the native half takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._errors import SettingError

#: Names with values, or "name=value" texts.
Settings = Mapping[str, object] | Iterable[str]


def text(value: object) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def pairs(what: str, settings: Settings | str | None) -> list[tuple[str, str]]:
    """Names and values."""
    if settings is None:
        return []
    if isinstance(settings, str):
        settings = [settings]
    if isinstance(settings, Mapping):
        return [(str(name), text(value)) for name, value in settings.items()]
    found = []
    for item in settings:
        name, equal, value = str(item).partition("=")
        if not equal:
            raise SettingError(f"{what} {item!r} is not of the form name=value")
        found.append((name.strip(), value.strip()))
    return found


def assignments(settings: Settings | str | None) -> list[str]:
    """Switches."""
    return [f"{name}={value}" for name, value in pairs("switch", settings)]


def costs(settings: Settings | str | None) -> list[tuple[str, int]]:
    """Costs of the machine."""
    found = []
    for name, value in pairs("cost", settings):
        try:
            number = int(value.replace("_", ""))
        except ValueError:
            number = -1
        if not 0 <= number < 1 << 64:
            raise SettingError(f"cost {name!r} takes a whole number, not {value!r}")
        found.append((name, number))
    return found


def count(what: str, value: Any, least: int, most: int) -> int:
    """A whole number in a range."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = least - 1
    if number != value or not least <= number <= most:
        raise SettingError(f"{what} is {value!r}; write a whole number from {least} to {most}")
    return number


def of_a_file(given: Mapping[str, object]) -> None:
    """Refuses what says how a file is read, beside an array."""
    for name in ("format", "columns"):
        if given.get(name) is not None:
            raise SettingError(f"{name} says how a file is read; leave it out with an array of page numbers")


def flag(name: str, value: object) -> bool:
    """True or False, which a switch may also say as "on" or "off"."""
    if isinstance(value, bool):
        return value
    if value in ("on", "off"):
        return value == "on"
    raise TypeError(f"{name} is {value!r} ({type(value).__name__}); it takes True or False")


def word(name: str, value: object) -> str | None:
    """A text, or None."""
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{name} is {value!r} ({type(value).__name__}); it takes a text")


def several(value: str | Iterable[Any] | int | None) -> list[str] | None:
    """One or several texts or numbers, "a,b" being two."""
    if value is None:
        return None
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    if isinstance(value, int):
        return [str(value)]
    return [str(part) for part in value]


def some(what: str, value: Any) -> Any:
    """A list of what may be a list, and is not empty; all else as it is."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return value
    found = list(value)
    if not found:
        raise SettingError(f"{what} is empty; name at least one, or leave it out")
    return found


def scale(value: object) -> str | None:
    """A scale: "1/64", or 1."""
    return None if value is None else str(value)


def jobs(value: int | None) -> int | None:
    """Threads or processes."""
    return None if value is None else count("jobs", value, 1, 1024)
