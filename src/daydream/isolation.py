"""Policy files in a process of their own: the parent reveals, judges and counts; the child wishes.

The child gets what is revealed, world by world, and sends back batches (see ``policy_child``). Here
every batch passes the same loop and the same checks as a built-in policy's, so a number never comes
from the child. Replay plays many worlds in lock-step, one message for all that wait; an online
rollout is the same with one world.

A version counts only when its decisions are a function of what is revealed. It plays all worlds
twice, the second time in another order, grouping and hash seed; in the first pass one world is
played alone, exactly as online. One batch that differs voids it. What this cannot see is a clock
that changes no decision.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Final, cast

import msgspec

from daydream.canonical import clean_text, seed_of
from daydream.errors import EnvironmentMissing, PolicyError, PolicyFault, SandboxError
from daydream.policies.base import PolicySpec
from daydream.policies.optimal_policy import MOST
from daydream.policies.python_file import PythonFileSpec, runs_apart
from daydream.policy_child import File, Loaded, Lock, Reply, Root, Turn
from daydream.replay import Record, ReplayWorld
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.session import Session, SessionFailed, SessionLimits
from daydream.search import Outcome, Policy, Revealed, Rollout, World, play
from daydream.tree import Batch, Grid, TreeView, VisibleNode

UNSTEADY: Final = (
    "non-determinism: this decision differs between two passes that revealed the same; it depends "
    "on other worlds, hash order, chance or a clock"
)
GROUP: Final = 96
"""Worlds in one message."""
SECOND_GROUP: Final = 41
ALONE: Final = 1
"""Worlds of the first pass that end before the process hears of another, as online."""


class PolicyLimits(msgspec.Struct, frozen=True):
    """What a policy may use."""

    decision_s: float = 5.0
    """CPU time of one message, however many worlds it decides in."""
    start_s: float = 20.0
    """CPU time until the file is loaded."""
    world_s: float = 2.0
    """CPU time that each world adds to what all decisions may take."""
    cpu_s: int = 600
    """CPU time of one process; the same for any number of worlds, or it would tell them."""
    memory_mb: int = PROFILES["policy"].limits.memory_mb or 512
    message_bytes: int = 1 << 20


class Played(msgspec.Struct, frozen=True):
    """One world, ended, with every batch that was decided in it."""

    outcome: Outcome
    trace: bytes


@contextmanager
def open_policy(
    spec: PolicySpec,
    scale: float,
    *,
    limit: int,
    limits: PolicyLimits = PolicyLimits(),  # noqa: B008
) -> Iterator[Policy]:
    """Yield the policy of ``spec`` for one rollout: built here, or in a child when it runs apart.

    Raises :class:`PolicyError` for a file that is no policy; the policy raises it too.
    """
    if not runs_apart(spec):
        yield spec.build(scale)
        return
    with _Child(spec, limit, limits, worlds=1, hash_seed=_seed(spec, "live")) as child:

        def ask(turn: Turn) -> Reply:
            return child.ask([turn])[0]

        yield SeatedPolicy(Seat(0, plans=child.plans), ask)


def check_policy(spec: PolicySpec, *, limit: int) -> None:
    """Raise :class:`PolicyError` unless ``spec`` can be built."""
    with open_policy(spec, 1.0, limit=limit):
        pass


def replay_apart(
    spec: PythonFileSpec,
    records: Sequence[Record],
    *,
    limit: int,
    max_batches: int,
    limits: PolicyLimits = PolicyLimits(),  # noqa: B008 - frozen
) -> list[Outcome]:
    """Return the outcome of ``spec`` in each world of ``records``.

    Raises :class:`PolicyFault` naming the world (its position), the batch and the reason, for a
    crash, for time, for an illegal batch, for a decision that does not repeat, for tampering.
    """
    stage = _Stage(spec, records, limit, max_batches, limits)
    again = list(range(len(records)))
    random.Random(_seed(spec, "order")).shuffle(again)
    first = stage.first(again[:ALONE])
    for part in (again[::2], again[1::2]) if stage.plans else (again,):
        if part:
            stage.compare(first, part)
    return [first[position].outcome for position in range(len(records))]


def _seed(spec: PythonFileSpec, purpose: str) -> int:
    """A hash seed: the same for the first pass and online, and no constant that a file can name."""
    return seed_of(spec.source, purpose) % (1 << 32)


class Seat:
    """One world's part of the talk with a child: what is new there, and what is wished."""

    __slots__ = ("_key", "_plans", "grid", "trace")

    def __init__(self, key: int, *, plans: bool = False) -> None:
        self._key = key
        self._plans = plans
        self.grid: Grid | None = None
        """What the policy planned, by its own word; known from the first batch on."""
        self.trace: list[Batch] = []
        """The batches so far."""

    def first(self, view: TreeView) -> Turn:
        """Return how the world of ``view`` begins."""
        root = view.nodes[0]
        before = view.before() if self._plans else None
        began = Root(root.status, root.score, view.frontier.eligibility, before)
        return Turn(self._key, view.nodes[1:], (), began)

    def turn(self, view: TreeView, seen: Sequence[VisibleNode]) -> Turn:
        """Return what the last batch brought: ``seen``, the newest nodes of ``view``."""
        batch = self.trace[-1]
        if len(seen) < len(batch):
            nodes = view.nodes
            exhausted = tuple(n for n in dict.fromkeys(batch) if nodes[n].exhausted)
            return Turn(self._key, seen, exhausted)
        return Turn(self._key, seen)

    def take(self, reply: Reply, view: TreeView) -> Batch:
        """Return the batch of ``reply``; raises :class:`PolicyFault` where it has none."""
        if reply.problem is not None:
            raise PolicyFault(_line(reply.problem), batch=view.batches + 1)
        if reply.grid is not None and not self.trace:
            self.grid = _checked(reply.grid)
        batch = reply.batch
        self.trace.append(batch)
        return batch


class SeatedPolicy:
    """A policy whose decisions are made elsewhere, one turn at a time."""

    def __init__(self, seat: Seat, ask: Callable[[Turn], Reply]) -> None:
        self._seat = seat
        self._ask = ask
        self._told = 0

    @property
    def grid(self) -> Grid | None:
        """What the policy planned, by its own word; known from the first batch on."""
        return self._seat.grid

    def select_batch(self, view: TreeView, limit: int) -> Batch:
        """Return the child's next batch."""
        del limit
        seat, told = self._seat, self._told
        self._told = len(view.nodes)
        turn = seat.turn(view, view.nodes[told:]) if told else seat.first(view)
        try:
            reply = self._ask(turn)
        except SessionFailed as error:
            raise PolicyFault(_reason(error), batch=view.batches + 1) from None
        return seat.take(reply, view)


class _Child:
    """The process of one version. A context manager."""

    def __init__(
        self, spec: PythonFileSpec, limit: int, limits: PolicyLimits, *, worlds: int, hash_seed: int
    ) -> None:
        self._session = Session(
            "daydream.policy_child",
            _places(),
            SessionLimits(
                answer_s=limits.decision_s,
                total_s=limits.start_s + limits.decision_s + worlds * limits.world_s,
                start_s=limits.start_s,
                message_bytes=limits.message_bytes,
            ),
            hash_seed=hash_seed,
        )
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(list[Reply]).decode
        try:
            self.layers = self._lock(Lock(os.getpid(), limits.memory_mb, limits.cpu_s))
            self.plans = self._load(File(spec.file, spec.source, dict(spec.config), limit))
        except BaseException:
            self._session.close()
            raise

    def _lock(self, wanted: Lock) -> tuple[str, ...]:
        """Have the child lock itself in; no code of the file has run when this returns."""
        try:
            answer = self._session.ask(self._encode(wanted))
            layers = msgspec.msgpack.decode(answer, type=tuple[str, ...])
        except (SessionFailed, msgspec.MsgspecError) as error:
            raise SandboxError(
                f"the process for a policy file did not start: {error}; run `daydream doctor`"
            ) from None
        if "seccomp" not in layers:
            raise EnvironmentMissing(
                f"policy files cannot be locked in on this machine: it has {', '.join(layers)} "
                "(expected Linux with system call filters on x86-64 or arm64); read the file, and "
                "run it in this process with --trust"
            )
        return layers

    def _load(self, file: File) -> bool:
        """Return whether the file plans its grid."""
        try:
            answer = self._session.ask(self._encode(file))
            loaded = msgspec.msgpack.decode(answer, type=Loaded)
        except SessionFailed as error:
            raise PolicyFault(_reason(error)) from None
        except msgspec.MsgspecError as error:
            raise PolicyFault(f"tampering: malformed message: {_line(str(error))}") from None
        if loaded.problem is not None:
            raise PolicyFault(_line(loaded.problem))
        return loaded.plans

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def ask(self, turns: Sequence[Turn]) -> list[Reply]:
        """Return one reply for each turn, in order; raises :class:`SessionFailed`."""
        answer = self._session.ask(self._encode(turns))
        try:
            replies = self._decode(answer)
        except msgspec.MsgspecError as error:
            raise self._session.failed("extra", f"sent a malformed message: {error}") from None
        if [reply.world for reply in replies] != [turn.world for turn in turns]:
            raise self._session.failed("extra", "did not answer for each world that waited")
        return replies


class _Live:
    """One world that is being played."""

    __slots__ = ("game", "position", "seat", "view")

    def __init__(self, position: int, seat: Seat, world: World, limit: int, most: int) -> None:
        self.position = position
        self.seat = seat
        self.view = world.view()
        self.game = play(world, limit=limit, max_batches=most)


class _Stage:
    """Plays one version in many worlds in lock-step."""

    def __init__(
        self,
        spec: PythonFileSpec,
        records: Sequence[Record],
        limit: int,
        max_batches: int,
        limits: PolicyLimits,
    ) -> None:
        self._spec = spec
        self._records = records
        self._limit = limit
        self._max_batches = max_batches
        self._limits = limits
        self.plans = False
        """Whether the file plans its grid, once it was played."""

    def play(
        self, order: Sequence[int], group: int, hash_seed: int, *, alone: int = 0
    ) -> dict[int, Played]:
        """Play the worlds ``order``, at most ``group`` at a time; raises :class:`PolicyFault`.

        The first ``alone`` end before the process hears of another. Of several faults it is the
        one of the earliest world, as if they were played in turn.
        """
        with _Child(
            self._spec, self._limit, self._limits, worlds=len(order), hash_seed=hash_seed
        ) as child:
            table = _Table(self, child)
            self.plans = child.plans
            if child.plans:
                # A manifest tells of its own world, so no process hears of a world afterwards.
                order, group = sorted(order, key=lambda i: self._records[i].round), 1
            begun = 0
            while True:
                room = 1 if begun < alone or (begun == alone and table.live) else group
                while begun < len(order) and len(table.live) < room and table.fault is None:
                    table.begin(order[begun])
                    begun += 1
                if not table.turns:
                    break
                table.tick()
            if table.fault is None:
                table.farewell()
        if table.fault is not None:
            raise table.fault
        return table.played

    def first(self, alone: Sequence[int]) -> dict[int, Played]:
        """Play every world as online, ``alone`` alone and before all others."""
        seed = _seed(self._spec, "live")
        order = range(len(self._records))
        rest = [position for position in order if position not in alone]
        try:
            return self.play([*alone, *rest], GROUP, seed, alone=len(alone))
        except PolicyFault:
            # In their own order the earliest world that has a fault is met first.
            self.play(order, GROUP, seed)
            raise

    def open(self, position: int, seat: Seat) -> _Live:
        """Return a world of which nothing is revealed."""
        world = ReplayWorld(self._records[position])
        return _Live(position, seat, world, self._limit, self._max_batches)

    def compare(self, first: dict[int, Played], order: Sequence[int]) -> None:
        """Play ``order`` again; raises :class:`PolicyFault` unless each batch is what it was."""
        try:
            again = self.play(order, SECOND_GROUP, _seed(self._spec, "second"))
        except PolicyFault as fault:
            raise PolicyFault(
                f"{UNSTEADY}; the other time: {fault.reason}", world=fault.world, batch=fault.batch
            ) from None
        for position in sorted(again):
            before, after = first[position].trace, again[position].trace
            if before != after:
                batch = _first_difference(before, after)
                raise PolicyFault(UNSTEADY, world=position, batch=batch)


class _Table:
    """The worlds of one pass that are being played."""

    def __init__(self, stage: _Stage, child: _Child) -> None:
        self._stage = stage
        self._child = child
        self._keys: list[int] = []
        self._used = 0
        self.live: dict[int, _Live] = {}
        self.turns: list[Turn] = []
        self.played: dict[int, Played] = {}
        self.fault: PolicyFault | None = None

    def begin(self, position: int) -> None:
        """Start one more world."""
        if self._keys:
            key = self._keys.pop()
        else:
            key, self._used = self._used, self._used + 1
        seat = Seat(key, plans=self._child.plans)
        live = self.live[key] = self._stage.open(position, seat)
        found = next(live.game)
        if type(found) is Rollout:
            self._keep(key, live, found)
        else:
            self.turns.append(seat.first(live.view))

    def tick(self) -> None:
        """Have every waiting world decided in once."""
        turns, self.turns = self.turns, []
        try:
            replies = self._child.ask(turns)
        except SessionFailed as error:
            live = self.live.get(error.place) or self.live[turns[0].world]
            self._blame(live, PolicyFault(_reason(error)))
            self.live.clear()
            return
        live_worlds, turns = self.live, self.turns
        for reply in replies:
            live = live_worlds[reply.world]
            if self.fault is not None and live.position > self.fault.world:
                continue
            view, seat = live.view, live.seat
            try:
                found = live.game.send(seat.take(reply, view))
            except PolicyError as error:
                self._blame(live, error)
                self._end(reply.world)
                continue
            if type(found) is Revealed:
                turns.append(seat.turn(view, found.nodes))
            else:
                self._keep(reply.world, live, cast("Rollout", found))

    def farewell(self) -> None:
        """Ask once more, for nothing: what was written unasked shows up now."""
        try:
            self._child.ask([])
        except SessionFailed as error:
            self.fault = PolicyFault(_reason(error))

    def _keep(self, key: int, live: _Live, rollout: Rollout) -> None:
        outcome = Outcome(rollout.attempts, rollout.batches, rollout.off_record, rollout.best)
        self.played[live.position] = Played(outcome, msgspec.msgpack.encode(live.seat.trace))
        self._end(key)

    def _end(self, key: int) -> None:
        del self.live[key]
        self._keys.append(key)

    def _blame(self, live: _Live, error: PolicyError) -> None:
        if self.fault is None or live.position < self.fault.world:
            reason = error.reason if isinstance(error, PolicyFault) else str(error)
            batch = live.view.batches + 1
            self.fault = PolicyFault(reason, world=live.position, batch=batch)


def _checked(told: Grid | None) -> Grid | None:
    """Return the plan that a child told of, without what no plan can hold."""
    if told is None:
        return None
    width, depth = (
        size if size is not None and 1 <= size <= MOST else None
        for size in (told.width, told.depth)
    )
    beta = told.beta if told.beta is not None and 0 <= told.beta <= 1 else None
    return Grid(width, depth, beta)


def _first_difference(before: bytes, after: bytes) -> int:
    """Return the number of the first batch in which two traces differ."""
    streams = (msgspec.msgpack.decode(trace, type=list[list[int]]) for trace in (before, after))
    pairs = zip_longest(*streams)
    return 1 + next(number for number, (one, other) in enumerate(pairs) if one != other)


def _reason(error: SessionFailed) -> str:
    what = {"time": "time", "ended": "crash"}.get(error.kind, "tampering")
    return f"{what}: {_line(str(error))}"


def _line(text: str) -> str:
    """Return what a child said as one printable line."""
    return "".join(c if c.isprintable() else " " for c in clean_text(text, 1_000))


def _places() -> list[Path]:
    """Return the folders of the packages that the child imports."""
    modules = (sys.modules[name] for name in ("greenlet", "msgspec"))
    found = {Path(m.__file__).resolve().parents[1] for m in modules if m.__file__ is not None}
    return sorted(found)
