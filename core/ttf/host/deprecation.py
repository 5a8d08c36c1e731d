"""Deprecations: hooks (pluggy's `warn_on_impl`), their arguments, options of plugins."""

from __future__ import annotations


class PluginDeprecationWarning(DeprecationWarning):
    """A plugin uses something that the next plugin API will not have; the message names the
    replacement.

    Authors see it in their tests, as any DeprecationWarning; users of the plugin get a note.
    """
