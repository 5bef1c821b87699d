"""What all tests need."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def _heed_interrupts():
    """A shell that runs the tests in the background has them, and the commands they start, ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
