"""The frames between a session and its child: a length and as many bytes. Light on both sides."""

import struct
from typing import Final

HEADER: Final = struct.Struct("<I")
"""Number of bytes that follow."""
PAGE: Final = struct.Struct("<I")
"""What the shared page holds: which of its tasks the child is at."""
