"""The frames between a session and its child: a length and as many bytes. Light on both sides."""

import struct
from typing import Final

HEADER: Final = struct.Struct("<I")
"""Number of bytes that follow."""
PAGE: Final = struct.Struct("=I")
"""What the shared page holds: which of its tasks the child is at."""


def between(nonce: str, data: bytes) -> bytes | None:
    """Return what stands between two of ``nonce`` in ``data``; None when that is not all of it."""
    mark = nonce.encode()
    if not (len(data) > 2 * len(mark) and data.startswith(mark) and data.endswith(mark)):
        return None
    return data[len(mark) : -len(mark)]
