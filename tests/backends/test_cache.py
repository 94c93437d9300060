from __future__ import annotations

import os
import shutil
import threading
import time
import warnings

import pytest

from backends import BuildError, ObjectCache, cache, default_cache, object_key

KEY = object_key("some source")


def writer(content: bytes):
    return lambda path: path.write_bytes(content)


@pytest.fixture
def store(tmp_path):
    return ObjectCache(tmp_path / "cache")


def test_what_is_added_is_found(store):
    assert store.find(KEY) is None
    path = store.add(KEY, writer(b"object"))
    assert path.read_bytes() == b"object"
    assert store.find(KEY) == path
    assert ObjectCache(store.directory).find(KEY) == path
    store.discard(KEY)
    assert store.find(KEY) is None


@pytest.mark.parametrize("damage", [b"", b"obj", b"abject"])
def test_a_damaged_object_is_not_found_and_goes(store, damage):
    path = store.add(KEY, writer(b"object"))
    path.write_bytes(damage)
    assert store.find(KEY) is None
    assert not path.exists()
    assert store.find(KEY) is None


def test_nothing_is_kept_of_a_failed_build(store):
    def fail(path):
        path.write_bytes(b"half")
        raise RuntimeError("compiler died")

    with pytest.raises(RuntimeError):
        store.add(KEY, fail)
    assert store.find(KEY) is None
    assert not [p for p in store.directory.rglob("*") if p.is_file()]


def test_keys_do_not_run_into_each_other():
    keys = {object_key("ab", "c"), object_key("a", "bc"), object_key("abc"), object_key("abc", "")}
    assert len(keys) == 4
    assert object_key("ab", "c") == object_key("ab", "c")


def test_the_least_recently_used_go_first(store):
    keys = [object_key(str(i)) for i in range(4)]
    for age, key in enumerate(keys):
        path = store.add(key, writer(bytes([age]) * 100))
        os.utime(path, (1000 + age, 1000 + age))
    assert store.find(keys[0]) is not None  # used: it is the youngest now
    store.limit_bytes = 250
    assert store.prune() == 2
    assert [store.find(key) is not None for key in keys] == [True, False, False, True]
    assert store.prune() == 0


def test_the_object_just_made_survives_a_small_limit(tmp_path):
    store = ObjectCache(tmp_path, limit_bytes=10)
    assert store.add(KEY, writer(b"x" * 100)).exists()


def test_processes_that_add_few_objects_look_through_all_seldom(tmp_path, monkeypatch):
    """Each is one of the first of a process, but for the last of so many."""
    looked = []
    monkeypatch.setattr(ObjectCache, "prune", counted(looked, ObjectCache.prune))

    def added(count):
        store = ObjectCache(tmp_path)
        for n in range(count):
            store.add(object_key(str(n)), writer(b"object"))
        return len(looked)

    assert [added(3) for _ in range(3)] == [1, 1, 1]
    assert added(cache.PRUNE_EVERY + 1) == 2
    os.utime(tmp_path / cache.PRUNED, (1000, 1000))
    assert [added(3) for _ in range(2)] == [3, 3]


def test_what_is_dated_in_the_future_ages_from_now_on(tmp_path, monkeypatch):
    """The marker, objects and drafts of a machine whose clock was wrong for a while."""
    store, keys, later = ObjectCache(tmp_path), [object_key(str(n)) for n in range(3)], 4e9
    paths = [store.add(key, writer(b"x" * 100)) for key in keys]
    draft = paths[0].with_suffix(cache.DRAFT)
    draft.touch()
    for path in (tmp_path / cache.PRUNED, paths[0], draft):
        os.utime(path, (later, later))
    assert not store._is_due() and store.prune() == 0
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * cache.DRAFT_SECONDS)
    assert store._is_due()
    os.utime(paths[1], (now + cache.DRAFT_SECONDS,) * 2)
    os.utime(paths[2], (now + cache.DRAFT_SECONDS,) * 2)
    store.limit_bytes = 250
    assert store.prune() == 1
    assert not draft.exists() and [path.exists() for path in paths] == [False, True, True]


def counted(calls, function):
    def call(*args, **options):
        calls.append(args)
        return function(*args, **options)

    return call


def test_many_writers_of_one_key(store):
    paths = []

    def work():
        paths.append(store.add(KEY, writer(b"object" * 1000)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 8
    assert store.find(KEY) == paths[0]
    assert not list(store.directory.rglob("*.tmp"))


def test_an_unusable_directory_is_replaced(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="cannot be written"):
        store = ObjectCache(tmp_path / "file" / "cache")
    path = store.add(KEY, writer(b"object"))
    assert store.find(KEY) == path
    assert tmp_path not in path.parents


def test_a_folder_that_is_removed_meanwhile_is_made_again(store):
    """A compiler whose folder is gone says that it cannot write; no kernel is at fault."""
    built = []

    def build(path):
        built.append(path)
        if len(built) == 1:
            shutil.rmtree(store.directory)
            raise BuildError("cannot open output file")
        path.write_bytes(b"object")

    path = store.add(KEY, build)
    assert path.read_bytes() == b"object" and store.find(KEY) == path
    assert path.is_relative_to(store.directory) and len(built) == 2

    def link(path):
        if len(built) == 2:
            built.append(path)
            raise FileNotFoundError("a part of it")
        path.write_bytes(b"linked")

    assert store.add(object_key("other"), link).read_bytes() == b"linked"


def test_a_kernel_at_fault_is_told_once(store):
    def fail(path):
        raise BuildError("no kernel")

    with pytest.raises(BuildError, match="no kernel"):
        store.add(KEY, fail)


def test_parts_of_what_is_written_elsewhere_go_there_too(store):
    """It waited for ever for the lock that it held itself."""
    shutil.rmtree(store.directory)
    store.directory.write_bytes(b"no folder")
    found = []

    def build(path):
        found.append(store.add(object_key("part"), writer(b"part")))
        path.write_bytes(b"whole")

    def work():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found.append(store.add(KEY, build))
            found.append(said)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    part, whole, said = found
    assert part.read_bytes() == b"part" and whole.read_bytes() == b"whole"
    assert part.parents[1] == whole.parents[1] == store.place != store.directory
    assert len(said) == 1 and "cannot be written" in str(said[0].message)


def test_the_directory_is_private(store):
    assert store.directory.stat().st_mode & 0o077 == 0


def test_the_environment_chooses_the_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORIR_CACHE", str(tmp_path / "chosen"))
    assert default_cache().directory == tmp_path / "chosen"
    assert default_cache() is default_cache()
