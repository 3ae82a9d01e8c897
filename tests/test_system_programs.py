"""Tests that need a program which is not installed are skipped, and the run says so."""

from __future__ import annotations

import pytest

from tests.system_programs import skipped_for, system_program


@pytest.mark.system
def test_a_program_that_is_not_there_skips_the_test() -> None:
    with pytest.raises(pytest.skip.Exception, match="needs the system package no-such-package"):
        system_program("no-such-program", package="no-such-package")
    assert system_program("no-such-program", "sh", package="dash").name == "sh"


def test_a_test_of_the_other_lane_must_not_start_a_program() -> None:
    with pytest.raises(pytest.fail.Exception, match="a test that starts sh must be marked `sys"):
        system_program("sh", package="dash")


def test_the_last_line_names_what_is_missing() -> None:
    reasons = ["needs the system package nginx", "needs the system package chromium", "no data"]
    assert skipped_for(reasons).startswith("skipped 2 tests for want of chromium, nginx; to run")
    assert skipped_for(["no data"]) == ""
