"""What the memory of processes consists of, from the text of smaps."""

from __future__ import annotations

from ttf.machine.memory.mappings import Part, grown, parsed

SMAPS = b"""\
5581c0000000-5581c0200000 rw-p 00000000 00:00 0                          [heap]
Size:               2048 kB
Rss:                1024 kB
Pss:                1024 kB
Anonymous:          1024 kB
VmFlags: rd wr mr mw me ac sd
7f0000000000-7f0010000000 rw-p 00000000 00:00 0
Rss:                4096 kB
Pss:                2048 kB
Anonymous:          4096 kB
7f1000000000-7f1010000000 r--s 00000000 fe:00 77                         /data/pairs with space.npz
Rss:                8192 kB
Pss:                8192 kB
Anonymous:             0 kB
7f2000000000-7f2010000000 rw-p 00000000 fe:00 78                         /usr/lib/libtorch.so
Rss:                 300 kB
Pss:                 200 kB
Anonymous:           100 kB
7f3000000000-7f3010000000 rw-s 00000000 00:19 5                          /dev/shm/torch_12_99_0
Rss:                 512 kB
Pss:                 256 kB
Anonymous:             0 kB
7f4000000000-7f4010000000 rw-s 00000000 00:19 6                          /dev/shm/torch_12_98_1 (deleted)
Rss:                 128 kB
Pss:                 128 kB
Anonymous:             0 kB
"""
KB = 1 << 10


def found() -> dict[Part, int]:
    sums: dict[Part, int] = {}
    for part, size in parsed(7, SMAPS):
        sums[part] = sums.get(part, 0) + size
    return {part: size for part, size in sums.items() if size}


def test_each_mapping_is_what_it_is() -> None:
    assert found() == {
        Part(7, "heap", ""): 1024 * KB,
        Part(7, "anonymous", ""): 2048 * KB,
        Part(7, "page cache of files", "/data/pairs with space.npz"): 8192 * KB,
        Part(7, "changed pages of files", "/usr/lib/libtorch.so"): 100 * KB,
        Part(7, "page cache of files", "/usr/lib/libtorch.so"): 100 * KB,
        Part(7, "shared memory", "/dev/shm/torch_..."): 384 * KB,
    }


def test_what_grew_is_listed_without_page_cache_the_most_first() -> None:
    before = {Part(7, "heap", ""): 1000 * KB, Part(7, "anonymous", ""): 3000 * KB}
    growths = grown(before, found())
    assert [(g.part.kind, g.bytes // KB) for g in growths] == [
        ("shared memory", 384),
        ("changed pages of files", 100),
        ("heap", 24),
    ]
