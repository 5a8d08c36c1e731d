"""Patterns for addresses and paths.

Repetitions are bounded: a line of a megabyte without a space must not take minutes.
"""

from __future__ import annotations

import re
from typing import Final

GIT_REMOTE: Final = re.compile(
    r"\b(?:git|ssh)@[\w.-]+:[\w./~-]+|\bssh://[^\s\"'<>]+|"
    r"\b(?:https?|git)://[^\s\"'<>]+?\.git\b(?:/[^\s\"'<>]*)?"
)
URL: Final = re.compile(r"\b(?:[a-z][a-z0-9+.-]{0,20})://[^\s\"'<>)\]}]+", re.IGNORECASE)
# Pages that libraries name in their messages.
PUBLIC: Final = re.compile(
    r"https?://(?:(?:[\w-]+\.)?(?:pytorch\.org|python\.org|openmp\.llvm\.org|numpy\.org)(?:/|$)|"
    r"www\.intel\.com/|github\.com/[\w.-]+/[\w.-]+/(?:issues|pull|discussions)/\d+|"
    r"(?:localhost|127\.0\.0\.1)(?:[:/]|$)|www\.w3\.org/)",
    re.IGNORECASE,
)

EMAIL: Final = re.compile(r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,}\b")
# Of somebody else, on a machine whose name has no dot: after ssh, or before a path.
LOGIN: Final = re.compile(
    r"(?P<before>\b(?:ssh|scp|sftp|rsync|mosh)\s(?:-\S{1,40}\s(?:[\w./]{1,40}\s)?){0,8})[\w.-]{1,64}@[\w-]{1,63}"
    r"(?:\.[\w-]{1,63}){0,8}|"
    r"(?<![\w.@<>/-])[A-Za-z_][\w.-]{0,63}@[A-Za-z][\w-]{1,63}(?=:[~/\w])"
)
# The comment of a public key is by default user@host.
KEY_COMMENT: Final = re.compile(
    r"(?P<before>\bssh-\w{3,20} AAAA[\w+/=]{16,2000} )[\w.-]{1,64}@[\w.-]{1,253}"
)
MAC: Final = re.compile(r"\b(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\b")
IPV4: Final = re.compile(r"(?<![\w.])(?<!==)(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)")
IPV6: Final = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f:]{0,9}:[0-9A-Fa-f:]{0,9}:)[0-9A-Fa-f:]{3,39}(?![\w:])"
)

_PIECE: Final = r"[^\s/'\"<>|:;,()\[\]{}`*?\\&]+"
PATH: Final = re.compile(rf"(?<![\w.~<>/-])(?:/{_PIECE})+/?")
# Also right after a letter, as in -I/home/...
IN_HOME: Final = re.compile(
    rf"(?:/(?:home|homes|Users)/{_PIECE}|/root(?=/)|~[\w.-]*(?=/))(?:/{_PIECE})*/?"
)
WINDOWS_HOME: Final = re.compile(r"(?i)\b([a-z]:(?:\\\\?|/)users(?:\\\\?|/))([^\\/\s\"'<>|:]+)")
HOME_OF: Final = re.compile(r"(?:^|/)(?:home|homes|Users|users)/([^/]+)")
SITE: Final = re.compile(r"^.*/(?:site|dist)-packages/")
STDLIB: Final = re.compile(r"^.*/lib(?:64)?/python3\.\d+/")
# The same on every machine of its kind.
SYSTEM: Final = re.compile(
    r"/(?:usr/(?:local/)?(?:bin|sbin|lib|lib64|libexec|include|share|src|\w+-\d[\d.]*)|lib|lib64|bin|"
    r"sbin|proc|sys|dev|etc|System|Library|opt/(?:conda|homebrew|nvidia|rocm[\w.-]*))(?:/|$)"
)
