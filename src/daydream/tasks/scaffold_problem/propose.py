"""Proposes the next program without a model: moves points at random and keeps what gives room.

Daydream starts it in a folder with the parent program's files. What the files are afterwards is the
proposal. Put your own program here: a solver, a script that asks a model, a coding agent.
"""

import json
import math
import os
import random
import runpy
from pathlib import Path

STEPS = 40
START, END = "# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-END\n"

Points = list[tuple[float, float]]


def room(points: Points, moved: int) -> float:
    """Return the distance from one point to its nearest neighbour."""
    return min(math.dist(points[moved], other) for i, other in enumerate(points) if i != moved)


def improved(points: Points, rng: random.Random) -> Points:
    """Move points with little room, one at a time, to where they have more."""
    for step in range(STEPS):
        crowded = sorted(range(len(points)), key=lambda i: (room(points, i), rng.random()))
        moved = rng.choice(crowded[:4])
        reach = 0.3 * (1 - step / STEPS)
        x, y = (min(1.0, max(0.0, c + rng.uniform(-reach, reach))) for c in points[moved])
        trial = [*points[:moved], (x, y), *points[moved + 1 :]]
        if room(trial, moved) > room(points, moved):
            points = trial
    return points


def main() -> None:
    """Read the context, change the program."""
    context = json.loads(Path(os.environ["DAYDREAM_CONTEXT"]).read_text(encoding="utf-8"))
    program = Path("initial_program.py")
    points = improved(
        runpy.run_path(str(program))["points"](), random.Random(context["attempt_seed"])
    )
    before, _, rest = program.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    listing = "".join(f"    ({x!r}, {y!r}),\n" for x, y in points)
    program.write_text(f"{before}{START}POINTS = [\n{listing}]\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
