"""What is going out of use: hooks (pluggy's `warn_on_impl`), their arguments, options of plugins."""

from __future__ import annotations


class PluginDeprecationWarning(DeprecationWarning):
    """A plugin uses what the next plugin API will not have; the message says what to use instead.

    Authors see it in their tests, as any DeprecationWarning; who runs the plugin gets a note.
    """
