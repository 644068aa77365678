"""The promises that tests/conftest.py makes to all other tests."""

import os
import socket
from pathlib import Path

import pytest

from tests.conftest import ROOT


def test_a_test_cannot_reach_the_network() -> None:
    with socket.socket() as connection, pytest.raises(PermissionError, match=r"192\.0\.2\.1"):
        connection.connect(("192.0.2.1", 80))
    with pytest.raises(PermissionError, match=r"example\.invalid"):
        socket.getaddrinfo("example.invalid", 80)


def test_a_test_may_talk_to_itself() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as peer,
    ):
        client.sendall(b"x")
        assert peer.recv(1) == b"x"


def test_a_test_starts_in_an_empty_folder_outside_the_checkout() -> None:
    here = Path.cwd()
    assert not list(here.iterdir())
    assert not here.is_relative_to(ROOT)
    assert not Path.home().is_relative_to(ROOT)
    assert not [name for name in os.environ if name.startswith("DAYDREAM_")]
