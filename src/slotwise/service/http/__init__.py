"""The ASGI side: routing, requests, problem answers, OpenAPI, rate limits, static files.

Knows nothing of pools, keys, policies or stores. It may import the service's limits only.
"""
