"""How a pool is doing: reports of pools and decisions, and the dashboard's data.

May import every part below it: `learning`, `deciding`, `storage` and `counting`.
"""
