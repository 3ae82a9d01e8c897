"""Open a service: its store, the checks of a start, and the keys that a first start makes."""

from __future__ import annotations

from slotwise.errors import InvalidConfig, UnsupportedState
from slotwise.service.access.keys import click_secret, click_secrets, new_key
from slotwise.service.access.tokens import TokenSigner
from slotwise.service.options import ServiceOptions
from slotwise.service.service import Service
from slotwise.service.settings import Settings, is_loopback
from slotwise.service.storage import Store, open_store, public_address

__all__ = ["check_start", "make_first_keys", "open_service"]


def open_service(
    settings: Settings, compile_beside: bool = False, write_beside: bool = False
) -> Service:
    """Open the store and the service over it; threads are not started yet."""
    options = ServiceOptions(
        compile_beside=compile_beside,
        fold_every_s=settings.fold_every_s,
        retention_days=settings.retention_days,
        max_links=settings.max_pool_links,
        max_pools=settings.max_pools,
        seed=settings.seed,
    )
    store = open_store(settings.store, settings.store_direct, write_beside)
    try:
        _check_whole(store, settings.store)
        return Service(store, options)
    except BaseException:
        store.close()
        raise


def _check_whole(store: Store, address: str) -> None:
    with store.reading() as reader:
        moving_from = reader.moving_from()
    if moving_from:
        raise UnsupportedState(
            f"the store is still being filled from {moving_from}; finish that first: "
            f"slotwise move-store {moving_from} {public_address(address)}"
        )


def check_start(settings: Settings) -> None:
    """Raise what a start would raise, without listening; the store is opened, made if new."""
    service = open_service(settings)
    try:
        _check_reachable(service, settings)
    finally:
        service.close()


def _check_reachable(service: Service, settings: Settings) -> None:
    if not _has_admin(service) and not is_loopback(settings.host):
        raise InvalidConfig(
            f"host: {settings.host} can be reached by others and there is no admin key; "
            f"make one first: slotwise keys make admin --store {public_address(settings.store)}"
        )


def _has_admin(service: Service) -> bool:
    keys = service.keys()
    return any("admin" in key.scopes and not key.revoked_us for key in keys)


def make_first_keys(service: Service, settings: Settings) -> tuple[TokenSigner, str | None]:
    """Make what a first start needs: the click secret and, on loopback, an admin key."""
    now_us = service.clock()()
    admin_key = None
    with service.take_turns():
        service.catch_up()
        _check_reachable(service, settings)
        if not click_secrets(service.keys()):
            service.put_key(click_secret(now_us), "serve", now_us).result()
        if not _has_admin(service):
            made = new_key(["admin"], label="first start", now_us=now_us)
            service.put_key(made.record, "serve", now_us).result()
            admin_key = made.secret
    return TokenSigner(click_secrets(service.keys())), admin_key
