"""Immutable objects of a store elsewhere, kept on this machine and read as mapped files.

```text
 manifest: shards, each with its size and SHA-256
        │ bring: all that a run needs, before its first step
        v
 TTF_HOME/objects/<sha256>/  lock   one fetcher on this machine (fetching)
                             part   grows by pieces; a killed process leaves it, the next goes on behind it
                             shard  verified, fsynced, renamed: what is mapped
 TTF_HOME/objects/leases/    one file a process, locked while it lives: these shards are not evicted (leases)
```
"""

from __future__ import annotations

from ttf.data.shards.fetched import Fetching, Remote, RemoteFault, Shard
from ttf.data.shards.node_cache import NodeCache

__all__ = ["Fetching", "NodeCache", "Remote", "RemoteFault", "Shard"]
