"""The ASGI side: routing, requests, problem answers, OpenAPI, rate limits, static files.

Knows nothing of pools, policies or stores. It may import the service's records and settings only.
"""
