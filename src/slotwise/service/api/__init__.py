"""One file a resource: its bodies and its handlers. `all_operations` lists them, `app` serves them.

Top room of the service: it may import every other room but `demo`.
"""
