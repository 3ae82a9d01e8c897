"""Open a service over its store, refuse unsafe starts, and make the keys of a first start.

Used by `server` and `cli`.
"""

from __future__ import annotations

import contextlib
import logging

from slotwise.errors import InvalidConfig, UnsupportedState
from slotwise.service.access.keys import click_secret, click_secrets, new_key
from slotwise.service.access.tokens import TokenSigner
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions, Settings, is_loopback
from slotwise.service.storage import open_store, public_address

_log = logging.getLogger(__name__)


def open_service(settings: Settings, separate_writer: bool = False) -> Service:
    """Open the store and the service over it; threads are not started yet.

    With `separate_writer` another process writes an SQLite file. Damage to the store is logged; a
    store that is still being filled from another one raises `UnsupportedState`.
    """
    options = ServiceOptions(
        fold_every_s=settings.fold_every_s,
        max_links=settings.max_pool_links,
        max_pools=settings.max_pools,
        retention_days=settings.retention_days,
        seed=settings.seed,
    )
    store = open_store(settings.store, settings.store_direct, separate_writer)
    try:
        with store.reading() as reader:
            moving_from, damage = reader.moving_from(), reader.damage_at_a_glance()
        if damage:
            _log.error(
                "the store %s is damaged: %s; stop the service, copy the file, run `slotwise "
                "verify` and restore a backup",
                public_address(settings.store),
                damage,
            )
        if moving_from:
            raise UnsupportedState(
                f"the store is still being filled from {moving_from}; finish that first: "
                f"slotwise move-store {moving_from} {public_address(settings.store)}"
            )
        return Service(store, options)
    except BaseException:
        store.close()
        raise


def check_start(settings: Settings) -> None:
    """Raise the errors of a start without listening; the store is created if there is none."""
    with contextlib.closing(open_service(settings)) as service:
        _check_reachable(service, settings)


def _check_reachable(service: Service, settings: Settings) -> None:
    if not _has_admin(service) and not is_loopback(settings.host):
        raise InvalidConfig(
            f"host: {settings.host} can be reached by others and there is no admin key; "
            f"make one first: slotwise keys make admin --store {public_address(settings.store)}"
        )


def _has_admin(service: Service) -> bool:
    keys = service.directory.keys()
    return any("admin" in key.scopes and not key.revoked_us for key in keys)


def make_first_keys(service: Service, settings: Settings) -> tuple[TokenSigner, str | None]:
    """Make what a first start needs: the secret of click links and, on loopback, an admin key.

    Of replicas that start together on a new store, the first makes both, and the others load them.
    Return the signer of click links and the admin key, None unless it was made now.
    """
    now_us = service.clock()()
    admin_key = None
    with service.take_turns():
        service.catch_up()
        _check_reachable(service, settings)
        if not click_secrets(service.directory.keys()):
            service.directory.put_key(click_secret(now_us), "serve", now_us).result()
        if not _has_admin(service):
            first_key = new_key(["admin"], label="first admin key", now_us=now_us)
            service.directory.put_key(first_key.record, "serve", now_us).result()
            admin_key = first_key.secret
    return TokenSigner(click_secrets(service.directory.keys())), admin_key
