"""The servers of these tests outlive the clients that these tests kill."""

import socket

import pytest

from tests.real.model_server import ModelServer


@pytest.mark.parametrize("sent", ["", "content-length: 9\r\n\r\n", "content-length: 9\r\n\r\n{}"])
def test_a_client_that_ends_while_it_asks_is_not_told_of(
    sent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with ModelServer() as server:
        host, port = server.host.split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nhost: here\r\n{sent}".encode())
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        assert server.requests == 0
    assert capsys.readouterr().err == ""
