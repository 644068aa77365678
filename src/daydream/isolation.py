"""Policy files in a process of their own: the parent reveals, judges and counts; the child wishes.

The child gets what is revealed, world by world, and sends back batches (see ``policy_child``). Here
every batch passes the same loop and the same checks as a built-in policy's, so a number never comes
from the child. Replay plays many worlds in lock-step, one message for all that wait; an online
rollout is the same with one world.

A version counts only when its decisions are a function of what is revealed. It plays all worlds a
second time, in another order, grouping and hash seed, and some worlds alone, exactly as online; one
batch that differs voids it. What this cannot see is a clock that changes no decision.
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
from greenlet import getcurrent, greenlet

from daydream.canonical import clean_text, seed_of
from daydream.errors import EnvironmentMissing, PolicyError, PolicyFault, SandboxError
from daydream.policies.base import PolicySpec
from daydream.policies.optimal_policy import MOST
from daydream.policies.python_file import PythonFileSpec, runs_apart
from daydream.policy_child import File, Loaded, Lock, Reply, Root, Turn
from daydream.replay import Record, ReplayWorld
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.session import Session, SessionFailed, SessionLimits
from daydream.search import Outcome, Policy, Rollout, solve
from daydream.tree import Batch, Grid, TreeView

UNSTEADY: Final = (
    "non-determinism: this decision differs between two passes that revealed the same; it depends "
    "on other worlds, hash order, chance or a clock"
)
GROUP: Final = 96
"""Worlds in one message."""
SECOND_GROUP: Final = 41
ALONE: Final = 1
"""Worlds that are also played in a process of their own, as online."""


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

        yield Seat(0, ask, plans=child.plans)


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
    order = list(range(len(records)))
    first = stage.play(order, GROUP, _seed(spec, "live"))
    random.Random(_seed(spec, "order")).shuffle(order)
    for part in (order[::2], order[1::2]) if stage.plans else (order,):
        if part:
            stage.compare(first, part, SECOND_GROUP, _seed(spec, "second"))
    for position in order[:ALONE] if len(order) > 1 else ():
        stage.compare(first, [position], 1, _seed(spec, "live"))
    return [first[position].outcome for position in range(len(records))]


def _seed(spec: PythonFileSpec, purpose: str) -> int:
    """A hash seed: the same for the first pass and online, and no constant that a file can name."""
    return seed_of(spec.source, purpose) % (1 << 32)


class Seat:
    """A policy whose decisions are made elsewhere: says what is new and hands the answer on."""

    def __init__(self, key: int, ask: Callable[[Turn], Reply], *, plans: bool = False) -> None:
        self._key = key
        self._plans = plans
        self.grid: Grid | None = None
        """What the policy planned, by its own word; known from the first batch on."""
        self._ask = ask
        self._told = 0
        self._batch: Batch = ()
        self.trace: list[Batch] = []

    def select_batch(self, view: TreeView, limit: int) -> Batch:
        """Return the child's next batch."""
        del limit
        nodes, told = view.nodes, self._told
        root = None
        if told == 0:
            told, first = 1, nodes[0]
            before = view.before() if self._plans else None
            root = Root(first.status, first.score, view.frontier.eligibility, before)
        self._told = len(nodes)
        seen = nodes[told:]
        exhausted: list[int] = []
        if len(seen) < len(self._batch):
            exhausted = [n for n in dict.fromkeys(self._batch) if nodes[n].exhausted]
        try:
            reply = self._ask(Turn(self._key, seen, exhausted, root))
        except SessionFailed as error:
            raise PolicyFault(_reason(error), batch=view.batches + 1) from None
        if reply.problem is not None:
            raise PolicyFault(_line(reply.problem), batch=view.batches + 1)
        if root is not None:
            self.grid = _checked(reply.grid)
        batch = self._batch = reply.batch
        self.trace.append(batch)
        return batch


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

    __slots__ = ("position", "running", "seat", "world")

    def __init__(
        self, position: int, key: int, record: Record, hub: greenlet, *, plans: bool
    ) -> None:
        self.position = position
        self.world = ReplayWorld(record)
        self.seat = Seat(key, hub.switch, plans=plans)
        self.running: greenlet = greenlet(solve)


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

    def play(self, order: Sequence[int], group: int, hash_seed: int) -> dict[int, Played]:
        """Play the worlds ``order``, at most ``group`` at a time; raises :class:`PolicyFault`.

        Of several faults it is the one of the earliest world, as if they were played in turn.
        """
        with _Child(
            self._spec, self._limit, self._limits, worlds=len(order), hash_seed=hash_seed
        ) as child:
            table = _Table(self, child)
            self.plans = child.plans
            if child.plans:
                # A manifest tells of its own world, so no process hears of a world afterwards.
                order, group = sorted(order, key=lambda i: self._records[i].round), 1
            queue = iter(order)
            while True:
                while table.fault is None and len(table.live) < group:
                    position = next(queue, None)
                    if position is None:
                        break
                    table.begin(position, self._records[position])
                if not table.turns:
                    break
                table.tick()
            if table.fault is None:
                table.farewell()
        if table.fault is not None:
            raise table.fault
        return table.played

    def start(self, live: _Live) -> object:
        """Return the first turn of a world, or its rollout when it needs none."""
        return live.running.switch(
            live.seat, live.world, limit=self._limit, max_batches=self._max_batches
        )

    def compare(
        self, first: dict[int, Played], order: Sequence[int], group: int, hash_seed: int
    ) -> None:
        """Play ``order`` again; raises :class:`PolicyFault` unless each batch is what it was."""
        try:
            again = self.play(order, group, hash_seed)
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
        self._hub = getcurrent()
        self._keys: list[int] = []
        self._used = 0
        self.live: dict[int, _Live] = {}
        self.turns: list[Turn] = []
        self.played: dict[int, Played] = {}
        self.fault: PolicyFault | None = None

    def begin(self, position: int, record: Record) -> None:
        """Start one more world."""
        if self._keys:
            key = self._keys.pop()
        else:
            key, self._used = self._used, self._used + 1
        live = self.live[key] = _Live(position, key, record, self._hub, plans=self._child.plans)
        found = self._stage.start(live)
        if isinstance(found, Turn):
            self.turns.append(found)
        else:
            self._keep(key, live, cast("Rollout", found))

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
            try:
                found = live.running.switch(reply)
            except PolicyError as error:
                self._blame(live, error)
                self._end(reply.world)
                continue
            if type(found) is Turn:
                turns.append(found)
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
            batch = live.world.view().batches + 1
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
