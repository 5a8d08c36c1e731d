"""Names of hosts in one piece of work: each is known by one, also when it comes back."""

from __future__ import annotations

from collections.abc import Collection

_LONGEST_NUMBER = 8


def free_name(host: str, before: object, taken: Collection[str]) -> str:
    """`before`: the name that it had; it says so itself.

    >>> free_name("a", "", ["b"]), free_name("a", "", ["a", "a-2"]), free_name("a", "a-2", ["a"])
    ('a', 'a-3', 'a-2')
    >>> free_name("a", "b", ["a"])
    'a-2'
    """
    wanted = str(before)
    known = wanted == host or (
        wanted.startswith(f"{host}-") and wanted[len(host) + 1 :][:_LONGEST_NUMBER].isdigit()
    )
    if known and wanted not in taken and len(wanted) <= len(host) + _LONGEST_NUMBER:
        return wanted
    name, number = host, 1
    while name in taken:
        number += 1
        name = f"{host}-{number}"
    return name
