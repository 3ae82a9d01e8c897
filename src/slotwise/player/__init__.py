"""The player: a policy with what it has learned, on named links.

`player.Player` has the form of the policy that plays, its state, the encoding of visitors, the
order of slots, pins and exclusions, and imported counts. The Selector adds open pages and a lock,
the service a position in its store.
"""
