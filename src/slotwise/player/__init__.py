"""The player: a policy with what it has learned, on named links.

`player.Player` owns which form of a policy plays, its state, the encoding of visitors, the order
of slots, pins and exclusions, and imported counts. The Selector adds open pages and a lock to it,
the service a position in its store.
"""
