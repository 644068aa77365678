"""How messages and tables count things."""


def counted(count: int, noun: str, many: str = "") -> str:
    """Return ``count`` with its noun: ``1 task``, ``2,000 tasks``; ``many`` is an odd plural."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
