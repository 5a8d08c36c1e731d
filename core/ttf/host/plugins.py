"""The plugin host: loads one plugin by name or by address, and explains failures.

Names come from metadata (`ttf.host.installed`). Loading imports one module, registers it with
pluggy and calls its hook for the factory; a module that raises does not affect others.
"""

# ruff: noqa: PLC0414 -- `name as name` offers a name of another file here as well

from __future__ import annotations

import contextlib
import difflib
import functools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast, overload, runtime_checkable

import pluggy

from ttf import hookspecs
from ttf.contracts import Availability, Kind
from ttf.errors import (
    BadData,
    ConfigError,
    DataMissing,
    PluginBroken,
    PluginUnavailable,
    suggestion,
)
from ttf.host import hook_trace, notices
from ttf.host.at_work import at_work
from ttf.host.deprecation import PluginDeprecationWarning
from ttf.host.foreign_files import recognized
from ttf.host.installed import (
    API as API,
    OURS as OURS,
    PluginInfo as PluginInfo,
    choice_of as choice_of,
    choices as choices,
    claimed_twice as claimed_twice,
    disabled_distributions as disabled_distributions,
    find as find,
    installed as installed,
    normal as normal,
    of_kind as of_kind,
    ours as ours,
)
from ttf.host.observers import Observers
from ttf.host.plugin_faults import Blamed, loading

if TYPE_CHECKING:
    from ttf.contracts import (
        DeviceFactory,
        Factory,
        MinerFactory,
        StorageFactory,
        Store,
        StoreWriter,
        TowerFactory,
    )
    from ttf.hookspecs import Check, EncoderFactory, ExporterFactory
    from ttf.jobs import ExecutorFactory

# Hooks that are not named after their kind.
_HOOKS: Final[Mapping[Kind, str]] = {"check": "ttf_doctor_check"}
_MOST_ARRAYS: Final = 4096  # of a file with vectors; ours have at most a dozen


@functools.cache
def load(kind: Kind, name: str) -> Factory:
    """Imports the plugin and returns its factory; does not check if it can run here."""
    info = find(kind, name)
    hook = _HOOKS.get(kind, f"ttf_{kind}")
    with loading(info):
        factory = getattr(_hooks_of(info), hook)(name=info.name)
    if factory is None:
        raise PluginBroken(
            f"The distribution {info.distribution} offers {info.reference}, but its hook {hook} "
            f"returned nothing for {info.name!r}.",
            hint=f"Report this to the authors of {info.distribution}.",
        )
    return cast("Factory", factory if info.ours else Blamed(factory, info))


def _hooks_of(info: PluginInfo) -> Any:
    # A manager per plugin: no other plugin receives these hook calls.
    manager = pluggy.PluginManager("ttf")
    manager.add_hookspecs(hookspecs)
    began = time.perf_counter()
    with at_work(info, "importing", brief=True):
        plugin = info.entry_point.load()
    hook_trace.imported(info, time.perf_counter() - began)
    hook_trace.watch(manager, info)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PluginDeprecationWarning)
        manager.register(plugin, name=info.reference)
    for warning in caught:
        if issubclass(warning.category, PluginDeprecationWarning):
            notices.say(f"{info.reference} of {info.distribution}: {warning.message}")
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    _warn_of_unknown_hooks(manager, plugin, info)
    return manager.hook


def _warn_of_unknown_hooks(manager: pluggy.PluginManager, plugin: object, info: PluginInfo) -> None:
    # A misspelt hook would otherwise never be noticed.
    known = [name for name in vars(hookspecs) if name.startswith("ttf_")]
    for caller in manager.get_hookcallers(plugin) or ():
        if not caller.has_spec():
            notices.say(
                f"{info.reference} of {info.distribution} implements {caller.name}, but this ttf "
                f"has no such hook.{suggestion(caller.name, known)}"
            )


@overload
def usable(kind: Literal["tower"], name: str) -> TowerFactory: ...
@overload
def usable(kind: Literal["miner"], name: str) -> MinerFactory: ...
@overload
def usable(kind: Literal["storage"], name: str) -> StorageFactory: ...
@overload
def usable(kind: Literal["device"], name: str) -> DeviceFactory: ...
@overload
def usable(kind: Literal["encoder"], name: str) -> EncoderFactory: ...
@overload
def usable(kind: Literal["exporter"], name: str) -> ExporterFactory: ...
@overload
def usable(kind: Literal["executor"], name: str) -> ExecutorFactory: ...
@overload
def usable(kind: Kind, name: str) -> Factory: ...
def usable(kind: Kind, name: str) -> Factory:
    """The factory; raises PluginUnavailable with the reason and the fix."""
    factory = load(kind, name)
    _require_available(find(kind, name), factory.availability())
    return factory


def _require_available(info: PluginInfo, state: Availability) -> None:
    if not state.ok:
        raise PluginUnavailable(
            f"The {info.kind} {info.name!r} (from {info.distribution}) cannot be used here: "
            f"{state.reason}",
            hint=state.fix,
        )


def check(name: str) -> Check:
    # A check of `ttf doctor` by a plugin; call it in a process of its own.
    return cast("Check", load("check", name))


def require(kind: Kind, name: str, recorded: str = "") -> None:
    """For resuming a run: raises PluginUnavailable if a plugin that it used is missing.

    `recorded` is the plugin's entry in the run's manifest: distribution and version.
    """
    owner, _, bare = name.rpartition(":")
    here = [p for p in installed(frozenset()) if p.kind == kind and p.name == bare]
    distribution, _, version = recorded.partition(" ")
    distribution = owner or distribution
    mine = [p for p in here if p.owned_by(distribution)]
    blocked = [p for p in mine if normal(p.distribution) in disabled_distributions()]
    if blocked and len(blocked) == len(mine):
        raise PluginUnavailable(
            f"The run uses the {kind} {bare!r} of the distribution {blocked[0].distribution}, but "
            "TTF_DISABLE_PLUGINS disables it.",
            hint=f"Remove {blocked[0].distribution} from TTF_DISABLE_PLUGINS.",
        )
    if not here:
        said = f" (of the distribution {recorded or owner})" if distribution else ""
        wanted = f"{distribution}=={version}" if version else distribution or "DISTRIBUTION"
        raise PluginUnavailable(
            f"The run uses the {kind} {bare!r}{said}, but it is not installed.",
            hint=f'Install its distribution: pip install "{wanted}"',
        )
    if kind == "observer":
        observer(name)
    else:
        usable(kind, name)


def observer(name: str) -> tuple[PluginInfo, Any]:
    """An observer's hooks, if it can work here."""
    info, hooks, state = offered_observer(name)
    _require_available(info, state)
    return info, hooks


def offered_observer(name: str) -> tuple[PluginInfo, Any, Availability]:
    """An observer's hooks, and whether it can work here: a module or object may have a function
    `availability`, as factories do."""
    info = find("observer", name)
    with loading(info):
        hooks = _hooks_of(info)
        ask = getattr(info.entry_point.load(), "availability", None)
        with at_work(info, "in availability() of", brief=True):
            state = ask() if callable(ask) else Availability(ok=True)
    return info, hooks, state


def observers(wanted: Iterable[str], say: Callable[[str], None] | None = None) -> Observers:
    """Loads the named observers one by one; `say` gets later failures."""
    return Observers([observer(name) for name in wanted], say or notices.to_standard_error)


# --- from a path or URL to an open container -----------------------------------------------------

_INPUT_HINT: Final = (
    "Write the arrays with numpy.savez(FILE.npz, ...), or name the storage plugin that reads the "
    "file with --storage NAME."
)
_OUTPUT_HINT: Final = (
    "Use a file name with a known ending, for example .npz. ttf data convert also has the option "
    "--to-storage NAME."
)


def storage_for(uri: str, storage: str = "auto", *, output: bool = False) -> str:
    """The name of the storage plugin for a uri; ConfigError if none claims it.

    First by the ending: of ttf's own plugins, then of third parties (`rows` reads `bank.rows` and
    `rows://...`, so nothing else is imported for that). Then ttf's own plugins look at what lies
    there. `output`: for the message, a file to write; `--storage` does not help there.
    """
    if storage != "auto":
        find("storage", storage)
        return storage
    factories = [_loaded(name) for name in ours("storage")]
    file = uri.rstrip("/").lower()
    for factory in factories:
        if file.endswith(tuple(factory.suffixes)) and factory.claims(uri):
            return factory.name
    strangers = sorted({p.name for p in of_kind("storage") if not p.ours}, key=len)
    for name in reversed(strangers):  # zarr.gz before gz
        named = file.endswith(f".{name}") or file.startswith(f"{name}://")
        if named and _loaded(name).claims(uri):
            return name
    for factory in factories:
        if factory.claims(uri):
            return factory.name
    if is_local(uri) and not output:
        foreign = recognized(uri)
        if foreign is not None:
            raise ConfigError(
                f"{uri} is {foreign.what}, which no storage plugin here reads.", hint=foreign.do
            )
        if _is_empty_folder(Path(uri)):
            raise ConfigError(f"{uri} is an empty folder.", hint="Check the path.")
    endings = {ending for factory in factories for ending in factory.suffixes}
    known = sorted(endings | {f".{name}" for name in strangers})
    verb = "write" if output else "read"
    raise ConfigError(
        f"{uri}: no storage plugin {verb}s files with this ending. Known endings: "
        f"{', '.join(known) or 'none'}.",
        hint=_OUTPUT_HINT if output else _INPUT_HINT,
    )


def _is_empty_folder(path: Path) -> bool:
    try:
        return path.is_dir() and next(path.iterdir(), None) is None
    except OSError:  # it cannot be read, so nobody knows
        return False


def _loaded(name: str) -> StorageFactory:
    return cast("StorageFactory", load("storage", name))


@runtime_checkable
class FillsMissing(Protocol):
    """Optional for stores of a format in which a part that does not exist stands for a fill value,
    and may as well be a lost file."""

    def fill_missing(self, say: Callable[[str], None]) -> None:
        """Called once after `open`, if the user chose this (`data.missing = "fill"`): such parts are
        read as the fill value, and `say` gets a sentence for each array that has some. Without this
        call, the store refuses them."""
        ...


def open_store(
    uri: str,
    storage: str = "auto",
    missing: str = "refuse",
    say: Callable[[str], None] | None = None,
) -> Store:
    """Opens a container for reading; raises DataMissing, with the nearest names, if there is
    none. `missing`: see `data.missing`; `say` gets what was filled."""
    name = storage_for(uri, storage)
    if is_local(uri) and not Path(uri).exists():
        raise _missing(Path(uri))
    store = usable("storage", name).open(uri)
    try:
        _refuse_too_many(store)
    except BaseException:
        store.close()
        raise
    if missing == "fill" and isinstance(store, FillsMissing):
        store.fill_missing(say or _said_elsewhere)
    return store


def _refuse_too_many(store: Store) -> None:
    # Each array costs about a millisecond wherever all are looked at, and a name takes 100 bytes.
    count = len(store.names())
    if count > _MOST_ARRAYS:
        raise BadData(
            f"{store.uri} has {count:,} arrays; ttf reads files with at most {_MOST_ARRAYS:,}.",
            hint="Store the vectors of all queries, or of all documents, as the rows of one array.",
        )


def _said_elsewhere(text: str) -> None:
    # Where the run was opened.
    pass


def create_store(uri: str, storage: str = "auto") -> StoreWriter:
    """Starts a new container; nothing is visible at the uri before `commit`."""
    return usable("storage", storage_for(uri, storage, output=True)).create(uri)


@contextlib.contextmanager
def written_store(uri: str, storage: str = "auto") -> Iterator[StoreWriter]:
    """Yields a new container that is committed at the end of the block, removed if the block
    raises."""
    writer = create_store(uri, storage)
    try:
        yield writer
        writer.commit()
    except BaseException:
        writer.abort()
        raise


def is_local(uri: str) -> bool:
    """True for a path of this machine, False for a URL such as s3://bucket/bank.zarr.

    >>> is_local("data/bank.npz"), is_local("s3://bucket/bank.zarr")
    (True, False)
    """
    return "://" not in uri


def refuse_remote(uris: Iterable[str | None], where: str, hint: str = "") -> None:
    """Raises ConfigError for a URL: `where` is a file that may come from somebody else, and ttf
    opens no address that the user did not name."""
    remote = [uri for uri in uris if uri and not is_local(uri)]
    if remote:
        raise ConfigError(
            f"{where} refers to data at the network address {remote[0]}. ttf opens only addresses "
            "that you give it yourself.",
            hint=hint or "If you trust the author of this file or folder, add --allow-remote.",
        )


def _missing(path: Path) -> DataMissing:
    folder = path.parent
    if not folder.is_dir():
        return DataMissing(
            f"{path}: there is no such file. The folder {folder} does not exist either.",
            hint="Check the path.",
        )
    there = sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
    close = difflib.get_close_matches(path.name, there, n=3, cutoff=0.5)
    alike = [n for n in there if Path(n).suffix == path.suffix and n not in close]
    near = [*close, *alike][:5]
    found = f" The folder contains: {', '.join(near)}." if near else ""
    return DataMissing(f"{path}: there is no such file.{found}", hint="Check the path.")
