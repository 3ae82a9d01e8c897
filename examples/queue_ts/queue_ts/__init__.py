"""Queue-TS, a policy of its own package: a queue for the floor, posterior sampling for the rest.

`policy` has the policy, `evidence` its counts, `queues` the prices of floors, `posterior` the
samples, and `pool_prior` the prior that links share.
"""

from queue_ts.policy import QueueTS

__all__ = ["QueueTS"]
