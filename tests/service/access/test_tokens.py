"""Click tokens: only what this service signed is read back."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given, strategies as st

from slotwise.errors import InvalidInput
from slotwise.service.access.tokens import MAX_SIGNED_TOGETHER, ClickToken, TokenSigner
from slotwise.service.limits import MAX_ID_CHARS

SECRET = bytes(range(32))
CLICK = ClickToken("home", "d1", 5, 1, "l9", 8)


def token_of(signer: TokenSigner) -> str:
    """Return the token of `CLICK`."""
    return f"{signer.sign_page('home', 'd1', 5, '8')}~1~l9"


ids = st.text("ABCabc019._:-", min_size=1, max_size=64)


@given(ids, ids, ids, st.integers(0, 2**50), st.lists(st.integers(0, 99_999), min_size=1))
def test_a_page_is_signed_once_for_all_its_links(
    pool: str, decision: str, link: str, issued: int, places: list[int]
) -> None:
    places = places[:MAX_SIGNED_TOGETHER]
    signer, listed = TokenSigner({"k1": SECRET}), "-".join(map(str, places))
    for n_before, said in ((0, listed), (32, f"32:{listed}")):
        head = signer.sign_page(pool, decision, issued, said)
        for position, place in enumerate(places, start=1 + n_before):
            token = f"{head}~{position}~{link}"
            assert signer.read(token) == ClickToken(pool, decision, issued, position, link, place)
        for position in (n_before, n_before + len(places) + 1):
            assert signer.read(f"{head}~{position}~{link}") is None


def test_secrets_longer_than_a_block_are_hashed_first_as_hmac_says() -> None:
    secret = bytes(range(100))
    head = TokenSigner({"k1": secret}).sign_page("home", "d1", 5, "8")
    signed, _, signature = head.rpartition("~")
    assert bytes.fromhex(signature) == hmac.new(secret, signed.encode(), hashlib.sha256).digest()


def test_the_signature_of_a_page_is_hmac_sha_256_of_all_that_comes_before() -> None:
    head = TokenSigner({"k1": SECRET}).sign_page("home", "d1", 5, "8-0-31")
    signed, _, signature = head.rpartition("~")
    assert signed == "v2.k1~home~d1~5~8-0-31"
    assert bytes.fromhex(signature) == hmac.digest(SECRET, signed.encode(), "sha256")


def test_a_token_of_a_page_can_only_be_moved_to_another_place_of_the_page() -> None:
    signer = TokenSigner({"k1": SECRET})
    head = signer.sign_page("home", "d1", 5, "8-0-31")
    token = f"{head}~2~l1"
    for at in range(len(token)):
        for other in "A0~.-3":
            read = signer.read(token[:at] + other + token[at + 1 :])
            assert read is None or (read.pool_id, read.decision_id, read.issued_at_ms) == (
                ("home", "d1", 5)
            )
            assert read is None or read.place == (8, 0, 31)[read.position - 1]
    for position in ("0", "4", "02", "-1", "+2", " 2", "2.0", "²", "1" * 30, ""):
        assert signer.read(f"{head}~{position}~l1") is None, position
    for text in (head, f"{head}~2", f"{token}~", f"{token}~3~l1", token.replace("v2.", "v1.")):
        assert signer.read(text) is None, text


def test_the_longest_ids_fit_into_a_token() -> None:
    signer = TokenSigner({"k" * 16: SECRET})
    name, places = "i" * MAX_ID_CHARS, "80:" + "-".join(["99999"] * MAX_SIGNED_TOGETHER)
    token = f"{signer.sign_page(name, name, 10**13, places)}~{80 + MAX_SIGNED_TOGETHER}~{name}"
    assert signer.read(token) is not None


@pytest.mark.parametrize(
    "text",
    ["", ".", "v1", "v1.k1.", "v1.k1.a~b~1~c~5.", "v2.k1~a~b~1~5~AAAA~1~c", "é" * 20, "x" * 10_000],
)
def test_texts_that_are_no_tokens_are_not_read(text: str) -> None:
    assert TokenSigner({"k1": SECRET}).read(text) is None


def test_a_token_of_another_secret_is_not_read() -> None:
    token = token_of(TokenSigner({"k1": SECRET}))
    assert TokenSigner({"k1": SECRET[::-1]}).read(token) is None


def test_an_old_secret_still_reads_and_the_newest_signs() -> None:
    old = TokenSigner({"k1": SECRET})
    both = TokenSigner({"k1": SECRET, "k2": SECRET[::-1]})
    assert both.read(token_of(old)) == CLICK
    newer = token_of(both)
    assert newer.startswith("v2.k2~")
    assert old.read(newer) is None


@pytest.mark.parametrize(
    ("secrets", "message"),
    [
        ({}, "`secrets` must be at least one secret"),
        ({"k1": b"short"}, "`secret` must be at least 32 bytes, got '5 bytes'"),
        ({"k.1": SECRET}, "`key id` must be letters and digits, got 'k.1'"),
    ],
)
def test_unsafe_secrets_are_refused(secrets: dict[str, bytes], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        TokenSigner(secrets)
