"""Explicit mode: pages that are fixed one by one."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import coldset
import numpy as np
import pytest

MIB = 1 << 20
PAGE = 4096


def explicit(budget: int = MIB, **settings: object) -> coldset.Pool:
    return coldset.Pool(budget, **{"swap": "lz4:64MiB", "fault_mode": "explicit", **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["v5", "classic", "lru", "sieve", "merged"])
def test_contents_are_those_of_an_array_outside(tmp_path: Path, policy: str) -> None:
    rng = np.random.default_rng(7)
    pages = 1_000
    truth = np.zeros((2, pages * PAGE), np.uint8)
    path = tmp_path / "file"
    with explicit(policy=policy) as pool:
        regions = [pool.region(pages * PAGE), pool.file_region(path, "w+", pages * PAGE)]
        for at in range(12_000):
            which, page = at % 2, int(rng.integers(pages))
            begin = page * PAGE
            if rng.integers(3):
                with regions[which].fix(page) as view:
                    assert bytes(view) == truth[which, begin : begin + PAGE].tobytes()
                    assert view.readonly
            else:
                place, value = int(rng.integers(PAGE)), int(rng.integers(256))
                with regions[which].fix(page, write=True) as view:
                    view[place] = value
                truth[which, begin + place] = value
        assert pool.stats()["evicted"] > 1_000 and pool.stats()["resident_bytes"] <= MIB
        regions[1].close()
        assert path.read_bytes() == truth[1].tobytes()


def test_a_view_ends_with_its_block() -> None:
    region = explicit().region(MIB)
    with region.fix(3, write=True) as view:
        view[:4] = b"abcd"
        part = view[1:3]
        part.release()
    with pytest.raises(ValueError, match="released"):
        view[0]
    with region.fix(3) as view, pytest.raises(TypeError, match="read-only"):
        view[0] = 1
    # Arrays over it are found, and the page stays until they have gone.
    with pytest.raises(coldset.Error, match="page 3 is still used by an array"):
        with region.fix(3) as view:
            kept = np.frombuffer(view, "u1")
    assert bytes(kept[:4]) == b"abcd"
    with pytest.raises(coldset.Error, match="page 3 is still used"):
        with region.fix(3) as view:
            slice_of = view[:2]
    slice_of.release()
    del kept, slice_of
    with region.fix(3, write=True) as view:
        numbers = np.frombuffer(view, "i8")
        numbers[0] = 77
        del numbers
    # An error of the block goes on.
    with pytest.raises(ZeroDivisionError):
        with region.fix(3) as view:
            held = np.frombuffer(view, "i8")
            held[0] // int(held[1] - held[1]) if False else 1 / 0
    del held


def test_wrong_uses_have_one_error_each(tmp_path: Path) -> None:
    pool = explicit()
    region = pool.region(3 * PAGE)
    assert (region.pages, region.nbytes, repr(region)) == (3, 3 * PAGE, "<coldset.Region of 3 pages>")
    for page in (3, -1):
        with pytest.raises(coldset.SettingError, match=f"page {page} is outside .* use 0 to 2"):
            region.fix(page)
    with region.fix(0):
        with region.fix(0):
            pass
        with pytest.raises(coldset.Error, match="would wait for itself"):
            region.fix(0, write=True).__enter__()
    with region.fix(0, write=True), pytest.raises(coldset.Error, match="would wait for itself"):
        region.fix(0).__enter__()
    with pytest.raises(coldset.Error, match=r"explicit mode: use region\(\)"):
        pool.zeros(10)
    with pytest.raises(coldset.Error, match='fault_mode="explicit"'):
        coldset.Pool(MIB).region(PAGE)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5_000)
    with pool.file_region(path, "r") as file:
        with pytest.raises(coldset.ReadOnlyError):
            file.fix(0, write=True).__enter__()
        with file.fix(1) as view:
            assert bytes(view) == b"x" * (5_000 - PAGE)
    with pytest.raises(coldset.ClosedError):
        file.fix(0).__enter__()
    with pytest.raises(coldset.SettingError, match="give it a size"):
        pool.file_region(path, "w+")
    with pytest.raises(coldset.OutOfMemory, match="no memory for 1 more page"):
        whole = pool.region(4 * MIB)
        blocks = [whole.fix(page) for page in range(whole.pages)]
        for block in blocks:
            block.__enter__()
    del block, blocks
    gc.collect()
    with region.fix(2, write=True) as view:
        view[0] = 1


def test_a_writer_waits_for_readers() -> None:
    region = explicit().region(MIB)
    order: list[str] = []

    def write() -> None:
        with region.fix(5, write=True) as view:
            order.append("written")
            view[0] = 9

    with region.fix(5) as view:
        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive() and view[0] == 0
        order.append("read")
    thread.join(20)
    assert order == ["read", "written"]


def test_nothing_is_no_region(tmp_path: Path) -> None:
    pool = explicit()
    path = tmp_path / "file"
    path.write_bytes(b"kept")
    for call in (
        lambda: pool.region(0),
        lambda: pool.group("g").region("0"),
        lambda: pool.file_region(path, "w+", 0),
        lambda: pool.file_region(tmp_path / "new", "w+", 0),
    ):
        with pytest.raises(coldset.SettingError, match="the size is 0; a region has at least one byte"):
            call()
    assert path.read_bytes() == b"kept" and not (tmp_path / "new").exists()
