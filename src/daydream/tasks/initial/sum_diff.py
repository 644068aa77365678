"""Sets with many sums and few differences: copies of a small set, laid out in a larger base."""

CAP = 24
SPAN = 64


# EVOLVE-BLOCK-START
BASE_SET = [0, 2, 3, 4, 7, 11, 12, 14]
SPACING = 2.1


def elements() -> list[int]:
    """Shifted copies of the base set, as many as fit."""
    step = int(SPACING * max(BASE_SET))
    found: list[int] = []
    shift = 0
    while len(found) + len(BASE_SET) <= CAP and shift + max(BASE_SET) <= SPAN:
        found += [shift + value for value in BASE_SET]
        shift += step
    return found


# EVOLVE-BLOCK-END


def construct() -> list[int]:
    """The set as a list of integers, each once."""
    return sorted(set(elements()))[:CAP]
