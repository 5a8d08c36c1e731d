"""The name of a new plugin in the three spellings for pip, Python and people.

The templates are real packages of a plugin called `your-name`; each spelling of a name replaces
that of the template: `your-name`, `your_name`, `YourName`.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from ttf.errors import ConfigError

if TYPE_CHECKING:
    from ttf.contracts import Kind, StorageFactory

# Letters of a name: the lines of a package still fit, and the name can be typed.
LONGEST: Final = 30
_SHAPE: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TAKEN: Final = "auto"  # Every option that names a plugin has this value too.


@dataclass(frozen=True, kw_only=True)
class Naming:
    """The plugin `kind.name` and the names derived from it."""

    kind: Kind
    name: str

    @property
    def distribution(self) -> str:
        return f"ttf-{self.kind}-{self.name}"

    @property
    def module(self) -> str:
        """The package; never the bare name, which may be a library's."""
        return f"ttf_{self.kind}_{self._underscored}"

    @property
    def class_prefix(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("-"))

    @property
    def reference(self) -> str:
        return f"{self.kind}.{self.name}"

    @property
    def _underscored(self) -> str:
        return self.name.replace("-", "_")

    def render(self, text: str) -> str:
        """The text or path of a template with this name."""
        text = text.replace("your_name", self._underscored)
        return text.replace("your-name", self.name).replace("YourName", self.class_prefix)

    def library(self) -> str:
        """The importable library with the bare name; "" if there is none."""
        try:
            found = importlib.util.find_spec(self._underscored)
        except ValueError:  # a module that was put together by hand
            found = None
        return self._underscored if found is not None else ""


def checked_naming(kind: Kind, name: str) -> Naming:
    """Raises ConfigError if a plugin cannot, or should not, have this name."""
    naming = Naming(kind=kind, name=name)
    _check_shape(naming)
    _check_free(naming)
    return naming


def _check_shape(naming: Naming) -> None:
    name = naming.name
    if not _SHAPE.fullmatch(name):
        likely = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower())
        likely = likely.strip("-")
        meant = f" Did you mean {likely!r}?" if _SHAPE.fullmatch(likely) else ""
        raise ConfigError(
            f"{name!r} is not a valid name for a plugin. A name has lower-case letters and "
            f"digits, begins with a letter, and may have single dashes between its words.{meant}"
        )
    if len(name) > LONGEST:
        raise ConfigError(
            f"The name {name!r} has {len(name)} letters, but at most {LONGEST} are allowed."
        )
    if keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} is a keyword of Python, so a module of this name cannot be imported."
        )
    if name == _TAKEN:
        raise ConfigError(
            f"A plugin cannot have the name {name!r}: with --{naming.kind} {name}, ttf "
            "chooses a plugin itself."
        )


def _check_free(naming: Naming) -> None:
    from ttf.host import plugins

    kind, name = naming.kind, naming.name
    for plugin in plugins.installed(frozenset()):
        if (plugin.kind, plugin.name) == (kind, name):
            raise ConfigError(
                f"A {kind} with the name {name!r} already exists in the installed distribution "
                f"{plugin.distribution} {plugin.version}.",
                hint=(
                    "Choose another name. If two plugins have the same name, users must add "
                    "the name of the distribution."
                ),
            )
        if kind == plugin.kind == "storage" and plugin.distribution == plugins.OURS:
            endings = cast("StorageFactory", plugins.load("storage", plugin.name)).suffixes
            if f".{name}" in endings:
                raise ConfigError(
                    f"The storage {plugin.name!r} already reads files that end in .{name}.",
                    hint=(
                        "A storage plugin has the name of its file ending, and this ending is already in use. Choose another ending."
                    ),
                )
