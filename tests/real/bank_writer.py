"""A process that appends episodes: python bank_writer.py FOLDER NAME COUNT."""

import sys
from pathlib import Path

from daydream.weights.bank import Bank
from tests.unit.weights.samples import episode


def main() -> None:
    folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with Bank(folder) as bank:
        for number in range(count):
            answer = f"{name}-{number}-" + "x" * (number % 97)
            bank.append([episode(name, answer, number=number)], durable=False)


if __name__ == "__main__":
    main()
