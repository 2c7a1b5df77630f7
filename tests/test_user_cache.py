"""What is kept between runs may be lost, broken or full, and nobody notices."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from gpuprof.sass.tools import user_cache
from gpuprof.sass.tools.user_cache import UserCache, key_of

KEY = key_of("kind", b"what it follows from")
CONTENT = b"BRA 0x10\n" * 100
MOST = 10_000


def test_an_entry_comes_back(tmp_path: Path) -> None:
    cache = UserCache(tmp_path / "new" / "folder")
    assert cache.read(KEY, MOST) is None
    cache.write(KEY, CONTENT)
    assert cache.read(KEY, MOST) == CONTENT
    assert UserCache(tmp_path / "new" / "folder").read(KEY, MOST) == CONTENT
    assert len({key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("", "abc")}) == 4
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == [KEY]
    if os.name == "posix":
        assert (tmp_path / "new" / "folder").stat().st_mode & 0o077 == 0


def test_an_entry_that_is_damaged_anywhere_is_none_and_is_written_anew(tmp_path: Path) -> None:
    cache = UserCache(tmp_path)
    cache.write(KEY, CONTENT)
    whole = (tmp_path / KEY).read_bytes()
    damaged = [whole[:at] for at in range(len(whole))]
    damaged += [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(len(whole))]
    for data in damaged:
        (tmp_path / KEY).write_bytes(data)
        assert cache.read(KEY, MOST) is None
    cache.write(KEY, CONTENT)
    assert cache.read(KEY, MOST) == CONTENT


def test_an_entry_that_unpacks_to_too_much_or_cannot_be_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below = UserCache(tmp_path / "file" / "below")
    below.write(KEY, CONTENT)
    assert below.read(KEY, MOST) is None
    (tmp_path / KEY).write_bytes(zlib.compress(bytes(MOST * 10)))
    assert UserCache(tmp_path).read(KEY, MOST) is None


def test_what_others_put_at_its_place_is_no_entry(tmp_path: Path) -> None:
    entries, other = UserCache(tmp_path / "entries"), UserCache(tmp_path / "other")
    other.write(KEY, CONTENT)
    entries.write(key_of("else"), CONTENT)
    place = tmp_path / "entries" / KEY
    place.symlink_to(tmp_path / "other" / KEY)
    assert entries.read(KEY, MOST) is None
    place.unlink()
    os.mkfifo(place)
    assert entries.read(KEY, MOST) is None
    entries.write(KEY, CONTENT[:9])
    assert (entries.read(KEY, MOST), other.read(KEY, MOST)) == (CONTENT[:9], CONTENT)


def test_a_linked_folder_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "gpuprof").symlink_to("elsewhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GPUPROF_CACHE", raising=False)
    user_cache.user_cache().write(KEY, CONTENT)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_oldest_entries_go_when_there_are_too_many(tmp_path: Path) -> None:
    for number in range(10):
        path = tmp_path / f"{number}"
        path.write_bytes(bytes(1000))
        os.utime(path, (number, number))
    UserCache(tmp_path, most_bytes=3500).write(KEY, CONTENT)
    assert {path.name for path in tmp_path.iterdir()} == {KEY, "7", "8", "9"}
