"""The search behind the tool ``grep``, as a process of its own: a pattern may take for ever.

Started by path, with nothing but the standard library. Arguments: the pattern, the checkout, and
where to look, which lies in it. Prints ``path:line: text``; links are not followed.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LARGEST: Final = 2 << 20
"""Bytes of a file that is searched."""
LONGEST: Final = 2_000
"""Characters of a line that is searched."""
FOUND: Final = 200


def search(pattern: str, tree: Path, start: Path) -> Iterator[str]:
    """Yield the lines below ``start`` that hold ``pattern``, by path."""
    wanted = re.compile(pattern)
    for place in [start] if start.is_file() else sorted(start.rglob("*")):
        if place.is_symlink() or not place.is_file() or place.stat().st_size > LARGEST:
            continue
        name = place.relative_to(tree).as_posix()
        text = place.read_bytes().decode("utf-8", "replace")
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) < LONGEST and wanted.search(line):
                yield f"{name}:{number}: {line}"


def main() -> None:
    """Print at most ``FOUND`` lines, and say when there are more."""
    pattern, tree, start = sys.argv[1:]
    for count, line in enumerate(search(pattern, Path(tree), Path(start))):
        if count == FOUND:
            sys.stdout.write("(more lines match)\n")
            return
        sys.stdout.buffer.write(f"{line}\n".encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
