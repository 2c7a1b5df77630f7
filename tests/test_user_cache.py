"""What is kept between runs may be lost, broken or full, and nobody notices."""

from __future__ import annotations

import os
import zlib
from hashlib import sha256
from pathlib import Path

import pytest

from gpuprof.code.tools import programs, user_cache
from gpuprof.code.tools.user_cache import UserCache, cache_folder, key_of

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
    packed = zlib.compress(bytes(MOST * 10))
    (tmp_path / KEY).write_bytes(user_cache._MARK + sha256(packed).digest() + packed)
    assert UserCache(tmp_path).read(KEY, MOST) is None


def test_something_else_at_its_place_is_no_entry(tmp_path: Path) -> None:
    (tmp_path / KEY).mkdir()
    cache = UserCache(tmp_path)
    assert cache.read(KEY, MOST) is None
    cache.write(KEY, CONTENT)
    assert [path.name for path in tmp_path.iterdir()] == [KEY]


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


def test_its_folder_is_that_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    named = {"XDG_CACHE_HOME": str(tmp_path / "x"), "LOCALAPPDATA": str(tmp_path / "l")}
    end = Path("gpuprof") / "programs"
    assert cache_folder(named, "linux") == tmp_path / "x" / end
    assert cache_folder(named, "win32") == tmp_path / "l" / end
    assert cache_folder({"XDG_CACHE_HOME": "relative"}, "linux") == tmp_path / ".cache" / end
    assert cache_folder({}, "darwin") == tmp_path / "Library" / "Caches" / end
    assert cache_folder({}, "win32") == tmp_path / "AppData" / "Local" / end
    assert [cache_folder({"GPUPROF_CACHE": off}, "linux") for off in ("off", " OFF ", "0", "no")] == [None] * 4

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder({}, "linux") is None


@pytest.mark.skipif(os.name != "posix", reason="the program is a shell script")
def test_the_version_of_a_program_is_asked_again_only_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GPUPROF_CACHE")
    tool = tmp_path / "nvdisasm"
    tool.write_text(f"#!/bin/sh\necho x >> {tmp_path}/asked\necho Cuda tools, release 12.9, V12.9.1\n")
    tool.chmod(0o755)
    assert [programs._version(tool) for _ in range(3)] == [(12, 9)] * 3
    tool.write_text(f"#!/bin/sh\necho x >> {tmp_path}/asked\necho Cuda compilation tools, release 13.4\n")
    assert [programs._version(tool) for _ in range(2)] == [(13, 4)] * 2
    assert (tmp_path / "asked").read_text().count("x") == 2
    tool.write_text("#!/bin/sh\necho nothing of use\n")
    assert programs._version(tool) is None and programs._version(tmp_path / "missing") is None
