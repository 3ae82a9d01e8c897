"""The store in memory."""

from slotwise.service.storage.memory.store import MemoryStore

__all__ = ["MemoryStore"]
