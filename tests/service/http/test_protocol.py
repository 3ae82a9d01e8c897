"""How answers leave: whole, in order, and never later than the turn they were written in."""

from __future__ import annotations

import asyncio

import pytest

from slotwise.service.http.protocol import GatheredWrites


class Wire(asyncio.Transport):
    """A transport that remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.ends: list[str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def is_closing(self) -> bool:
        return bool(self.ends)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.ends.append("closed")

    def abort(self) -> None:
        self.ends.append("aborted")


@pytest.fixture
def wire() -> Wire:
    return Wire()


def test_head_and_body_go_out_together_after_the_turn(wire: Wire) -> None:
    async def answer() -> list[bytes]:
        writes = GatheredWrites(wire, asyncio.get_running_loop())
        writes.write(b"head")
        writes.write(b"body")
        before = list(wire.sent)
        await asyncio.sleep(0)
        return before

    assert asyncio.run(answer()) == []
    assert wire.sent == [b"headbody"]


def test_each_turn_sends_its_own(wire: Wire) -> None:
    async def answer() -> None:
        writes = GatheredWrites(wire, asyncio.get_running_loop())
        for data in (b"one", b"two"):
            writes.write(data)
            await asyncio.sleep(0)

    asyncio.run(answer())
    assert wire.sent == [b"one", b"two"]


def test_much_is_sent_at_once_and_in_order(wire: Wire) -> None:
    async def answer() -> list[bytes]:
        writes = GatheredWrites(wire, asyncio.get_running_loop())
        writes.writelines([b"head", b"x" * 70_000])
        before = list(wire.sent)
        writes.write(b"end")
        await asyncio.sleep(0)
        return before

    assert asyncio.run(answer()) == [b"head" + b"x" * 70_000]
    assert wire.sent == [b"head" + b"x" * 70_000, b"end"]


def test_closing_sends_first_and_aborting_does_not(wire: Wire) -> None:
    async def answer(end: str) -> None:
        writes = GatheredWrites(wire, asyncio.get_running_loop())
        writes.write(end.encode())
        getattr(writes, end)()
        await asyncio.sleep(0)

    asyncio.run(answer("close"))
    assert (wire.sent, wire.ends) == ([b"close"], ["closed"])
    asyncio.run(answer("abort"))
    assert (wire.sent, wire.ends) == ([b"close"], ["closed", "aborted"])
