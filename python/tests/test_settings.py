"""Wrong settings are one clear error each."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import coldset
import numpy as np
import pytest


@pytest.mark.parametrize(
    ("kwargs", "kind", "text"),
    [
        ({"budget": "100K"}, ValueError, "use 1 MiB to 17592186036224 bytes"),
        ({"budget": 0}, coldset.SettingError, "use 1 MiB to 17592186036224 bytes"),
        ({"budget": -5}, coldset.SettingError, "the budget is -5 bytes; use 1 MiB to 17592186036224 bytes"),
        ({"budget": 2e9}, coldset.SettingError, "as an int or as text"),
        ({"budget": "2 parsecs"}, coldset.SettingError, "parsecs"),
        ({"policy": "v6"}, coldset.SettingError, "v6"),
        ({"swap": "lz5:8GiB"}, coldset.SettingError, "lz5"),
        ({"swap": "file:/nowhere/at/all:8MiB"}, FileNotFoundError, "creating the swap file"),
        ({"switches": ["nothing=1"]}, coldset.SettingError, "nothing"),
        ({"switches": {"nothing": 1}}, coldset.SettingError, "nothing"),
        ({"fault_mode": "magic"}, coldset.SettingError, 'magic.*"sigbus", "thread" or "explicit"'),
        ({"policy": "v55"}, coldset.SettingError, "no policy is named 'v55'"),
        ({"policy": "vv5"}, coldset.SettingError, r"'vv5' \(see: coldset.lab.variants\(\)\)"),
        ({"policy": "v5+smaller_batch=on"}, coldset.SettingError, r'given by switches=\["smaller_batch=on"\]'),
        ({"policy": "v5+smaller_batch"}, coldset.SettingError, r'given by switches=\["smaller_batch=on"\]'),
        ({"switches": ["x=1"]}, coldset.SettingError, r"no switch is named 'x' \(see: coldset.lab.switches\(\)\)"),
        ({"switches": [5]}, coldset.SettingError, "switches has 5; give \"name=value\" texts"),
        ({"switches": 5}, coldset.SettingError, "switches has 5; give \"name=value\" texts"),
        ({"swap": "file:/tmp/\udcff:8MiB"}, coldset.SettingError, "^swap is .* not UTF-8"),
        ({"policy": "\udcff"}, coldset.SettingError, "^policy is .* not UTF-8"),
        ({"fault_mode": "auto"}, coldset.SettingError, "whether it has arrays or regions"),
        ({"read_ahead": 99}, coldset.SettingError, "1 to 32"),
        ({"batch": 1}, coldset.SettingError, "32 to 256"),
        ({"journal": "/nowhere/at/all"}, FileNotFoundError, "journal"),
    ],
)
def test_pools(kwargs: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        coldset.Pool(**{"budget": "4MiB", **kwargs})


@pytest.mark.parametrize(("folder", "number"), [("/nowhere/at/all", errno.ENOENT), ("/etc/hostname", errno.ENOTDIR)])
def test_temporary_swap_names_its_folder(monkeypatch: pytest.MonkeyPatch, folder: str, number: int) -> None:
    monkeypatch.setenv("TMPDIR", folder)
    with pytest.raises(OSError, match=f"{folder}: .*; TMPDIR names the folder") as raised:
        coldset.Pool("4MiB", swap="temp:8MiB")
    assert raised.value.errno == number
    assert "os error" not in str(raised.value)


def test_arrays(pool: coldset.Pool) -> None:
    for call, text in (
        (lambda: pool.zeros(-1), "negative"),
        (lambda: pool.zeros((2, -1)), "negative"),
        (lambda: pool.zeros("ab"), "the shape"),  # type: ignore[arg-type]
        (lambda: pool.zeros(2.5), "the shape"),  # type: ignore[arg-type]
        (lambda: pool.zeros(3, object), "Python objects"),
        (lambda: pool.zeros(3, "V0"), "no bytes"),
        (lambda: pool.zeros(3, order="K"), "the order"),  # type: ignore[arg-type]
        (lambda: pool.zeros((1 << 60, 1 << 60)), "too large"),
        (lambda: pool.zeros(1 << 55, "u1"), "do not fit|16 TiB"),
        (lambda: pool.group("g", max="lots"), "lots"),
    ):
        with pytest.raises((coldset.SettingError, coldset.OutOfMemory), match=text):
            call()


def test_more_than_budget_and_swap() -> None:
    pool = coldset.Pool("2MiB", swap="none")
    a = pool.full(1 << 20, 1, "u1")
    with pytest.raises(MemoryError, match="give the pool more swap"):
        pool.zeros(2 << 20, "u1")
    del a
    assert pool.zeros(2 << 20, "u1").sum() == 0


def test_switches_and_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    pool = coldset.Pool("1MiB", swap="lz4:8MiB", policy="v5", journal=journal, read_ahead=1, batch=32)
    pool.zeros(4 << 20, "u1")[:] = 1
    del pool
    assert journal.stat().st_size > 0


def test_a_journal_of_a_running_pool(pool: coldset.Pool, tmp_path: Path) -> None:
    a = pool.full(6 << 20, 1, "u1")
    with pytest.raises(coldset.Error, match="no journal"):
        pool.stop_recording()
    pool.record(tmp_path / "journal")
    with pytest.raises(coldset.Error, match="kept already"):
        pool.record(tmp_path / "other")
    assert a.sum() == a.size
    pool.stop_recording()
    assert (tmp_path / "journal").stat().st_size > 1000
    with pytest.raises(FileNotFoundError):
        pool.record("/nowhere/at/all")


def test_probe_and_sizes() -> None:
    assert any("userfaultfd" in name for name in coldset.probe())
    assert coldset.parse_size("1.5KiB") == 1536
    with pytest.raises(coldset.SettingError, match="for example"):
        coldset.parse_size("x")
    assert coldset.__version__
    assert isinstance(coldset.Pool(np.int64(1 << 20)).budget, int)
    assert "1048576" in repr(coldset.Pool(1 << 20))


@pytest.mark.parametrize("name", ["overcommit", "shrink_under_pressure", "background", "map_streams"])
def test_true_and_false(name: str) -> None:
    for value in (True, False, np.bool_(False), "true", "false"):
        coldset.Pool("1MiB", **{name: value})  # type: ignore[arg-type]
    for wrong in ("no", "", "False", "on", 0, 1, [], 1.0):
        with pytest.raises(coldset.SettingError, match=f"^{name} is .* use True or False"):
            coldset.Pool("1MiB", **{name: wrong})  # type: ignore[arg-type]


def test_a_text_overcommits_or_not() -> None:
    assert coldset.Pool("1MiB", swap="none", overcommit="true").zeros(64 << 20, "u1").nbytes == 64 << 20
    with pytest.raises(coldset.OutOfMemory):
        coldset.Pool("1MiB", swap="none", overcommit="false").zeros(64 << 20, "u1")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    journal = os.fsencode(tmp_path) + b"/\xff"
    for path in (journal, os.fsdecode(journal)):
        pool = coldset.Pool("1MiB", swap="lz4:8MiB", journal=path)
        pool.stop_recording()
        assert os.path.getsize(journal) > 0
        os.unlink(journal)
    for parent in (pool, pool.group("outer")):
        with pytest.raises(coldset.SettingError, match="the name of the group is .* not UTF-8"):
            parent.group("\udcff")
