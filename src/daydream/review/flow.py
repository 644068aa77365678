"""One review from the difference to the commit: the order of phases, and what each may do.

Models say what the change is for, what is wrong with it, whether that holds, and how to mend it.
Everything else is the host's: the difference, the merge, the gate, the edits, the tests by their
exit status, the commit. The user's reference moves last; a kill before that changes nothing of his.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from daydream.canonical import JsonValue, clean_text
from daydream.errors import ModelError, ReviewError, Stopped, UsageError
from daydream.prompting import prompt
from daydream.review.archive import Archive
from daydream.review.backends.base import Ask, Backend
from daydream.review.diff import SHOWN, FileDiff, cut, parse_diff, parts_of, shown_of
from daydream.review.git import Repository
from daydream.review.grounding import grounding_of
from daydream.review.merge import Merged, merge
from daydream.review.outcome import Options, Phase, Reviewed, Surroundings
from daydream.review.outputs import as_text
from daydream.review.records import (
    Item,
    Malformed,
    Record,
    TestVerdict,
    Verdict,
    read_records,
    read_verdicts,
)
from daydream.review.score import breakdown, read_signals, score, score_strict
from daydream.review.tools import Shell, Tools
from daydream.review.trajectory import Recorder, stamp
from daydream.sandbox.base import ExecResult
from daydream.wording import counted

S = TypeVar("S")
T = TypeVar("T")

SWEEPS: Final = 2
"""Further reviewers for files that no reviewer was shown."""
AT_ONCE: Final = 20
"""Findings that one question asks to verify."""
TOGETHER: Final = 6
"""Findings of one file that one question asks to mend."""
NAMED: Final = 500
"""Files that a question names."""
TAIL: Final = 8_000
"""Characters of test output that are kept."""


class Review:
    """One review of one repository. :meth:`run` plays it once."""

    def __init__(
        self,
        repository: Repository,
        backend: Backend,
        options: Options,
        *,
        archive: Archive,
        recorder: Recorder,
        shell: Shell,
        around: Surroundings,
    ) -> None:
        self._repo = repository
        self._backend = backend
        self._options = options
        self._archive = archive
        self._recorder = recorder
        self._shell = shell
        self._around = around
        self._events: list[dict[str, JsonValue]] = []
        self._stopped: str | None = None
        self._failures: dict[str, str] = {}
        self._began = around.clock()

    def run(self) -> Reviewed:
        """Review, verify, mend, test, commit.

        Raises :class:`UsageError` when there is nothing to compare, and :class:`ReviewError` when
        it cannot go on.
        """
        base, head, files = self._difference()
        self._head, self._base = head, base
        self._write_manifest("partial", files=files)
        intent = self._intent(files)
        found, covered = self._reviews(files, intent)
        merged = self._merge(found, files)
        verdicts = self._verify(merged.items)
        self._archive.text("review-output.md", as_text(merged.items, verdicts))
        done = Reviewed(
            archive=self._archive.path,
            base=base,
            head=head,
            files=tuple(files),
            items=merged.items,
            verdicts=verdicts,
            reviewers_failed=self._failures,
        )
        if self._stopped is None and self._options.fix:
            done = self._mend(done)
        done = msgspec.structs.replace(done, usage=self._recorder.usage, stopped=self._stopped)
        self._close(done, covered)
        return done

    # ------------------------------------------------------------------------------- the question

    def _difference(self) -> tuple[str, str, list[FileDiff]]:
        head = self._repo.commit("HEAD")
        if head is None:
            raise UsageError(f"{self._repo.path} has no commit yet (expected one to review)")
        names = [self._options.base] if self._options.base else MAIN
        target = next((sha for name in names if (sha := self._repo.commit(name))), None)
        if target is None:
            raise UsageError(
                f"{self._repo.path} has no commit {' or '.join(names)} (expected one to compare "
                "with); name it with --base"
            )
        base = self._repo.merge_base(target, head)
        if base is None:
            raise UsageError(
                f"{names[0]} and HEAD share no commit (expected a common one); name another --base"
            )
        if self._options.in_place and self._options.fix and not self._repo.clean(head):
            raise UsageError(
                "the work tree or the index has changes of yours, and --in-place would mix with "
                "them (expected both as in HEAD); commit them, or leave out --in-place"
            )
        with self._phase("diff") as told:
            text = self._repo.diff(base, head)
            files = parse_diff(text)
            self._archive.text("diff.patch", text)
            self._repo.check_out(head)
            told(counted(len(files), "file"))
        return base, head, files

    def _intent(self, files: Sequence[FileDiff]) -> str:
        if not files:
            return ""
        with self._phase("intent"):
            shown, whole = shown_of(files, SHOWN)
            names = "\n".join(_paths(files[:NAMED]))
            user = prompt("review_intent", files=names, diff=shown)
            answer = self._ask("intent", user, whole)
            intent = clean_text(answer or "", 6_000).strip() or "It is not said."
            self._archive.text("deep/intent.md", intent + "\n")
            return intent

    def _reviews(
        self, files: Sequence[FileDiff], intent: str
    ) -> tuple[dict[str, list[Record]], int]:
        parts, left = parts_of(files, most=self._options.reviewers)
        sweeps, _ = parts_of(left, most=SWEEPS)
        pieces = {
            **{part.name: part for part in parts},
            **{f"sweep-{number}": part for number, part in enumerate(sweeps, 1)},
        }
        asks = [
            (
                name if name.startswith("sweep-") else f"review-{name}",
                prompt("review_stack", intent=intent, stack=part.stack, diff=part.text),
                _paths(part.files),
            )
            for name, part in pieces.items()
        ]
        if len(files) > 1 and parts:
            shown, whole = shown_of(files, SHOWN)
            names = "\n".join(_paths(files[:NAMED]))
            user = prompt("review_structure", intent=intent, files=names, diff=shown)
            asks.append(("structure", user, whole))
        with self._phase("review", counted(len(asks), "reviewer")) as told:
            answers = self._side_by_side(asks, lambda one: self._records(*one))
            found = {
                ask[0].removeprefix("review-"): rows
                for ask, rows in zip(asks, answers, strict=True)
                if rows is not None
            }
            for name, rows in found.items():
                self._archive.json(f"deep/stack-{name}-records.json", rows)
            self._archive.json("deep/per-stack-failures.json", dict(self._failures))
            told(counted(sum(map(len, found.values())), "finding"))
        if asks and not found and self._stopped is None:
            raise ReviewError(
                f"no reviewer answered; the first: {next(iter(self._failures.values()), 'no word')}"
            )
        return found, sum(len(one.files) for name, one in pieces.items() if name in found)

    def _records(self, phase: str, user: str, shown: list[str]) -> list[Record] | None:
        return self._read(phase, user, shown, read_records)

    def _read(
        self, phase: str, user: str, shown: Sequence[str], read: Callable[[str], T]
    ) -> T | None:
        """Ask, read the answer, and ask once more where it cannot be read."""
        answer = self._ask(phase, user, shown)
        for last in (False, True):
            if answer is None:
                return None
            try:
                return read(answer)
            except Malformed as error:
                if last:
                    self._failures[phase] = f"two answers cannot be used: {error}"
                    return None
                again = prompt("review_again", problem=str(error))
                quoted = cut(answer, 8_000)
                answer = self._ask(phase, f"{user}\n\n# Your answer\n\n{quoted}\n\n{again}", shown)
        return None

    # ----------------------------------------------------------------------------- what is reported

    def _merge(self, found: dict[str, list[Record]], files: Sequence[FileDiff]) -> Merged:
        merged = merge(found, files)
        self._archive.json("deep/merged-items.json", {"items": msgspec.to_builtins(merged.items)})
        self._archive.json("deep/dropped.json", msgspec.to_builtins(merged.dropped))
        self._archive.text("review-output.md", as_text(merged.items, ()))
        return merged

    def _verify(self, items: Sequence[Item]) -> tuple[Verdict, ...]:
        if not items or self._stopped is not None:
            return ()
        verdicts: list[Verdict] = []
        with self._phase("verify", counted(len(items), "finding")) as told:
            chunks = [items[n : n + AT_ONCE] for n in range(0, len(items), AT_ONCE)]

            def one(number: int) -> list[Verdict] | None:
                known = [item.id for item in chunks[number]]
                phase = "verify" if number == 0 else f"verify-{number + 1}"
                user = prompt("review_verify", items=listed(chunks[number]))
                return self._read(phase, user, (), lambda text: read_verdicts(text, known))

            for answer in self._side_by_side(list(range(len(chunks))), one):
                verdicts += answer or []
            rows = msgspec.to_builtins(verdicts)
            self._archive.json("deep/recommendation-verdicts.json", {"verdicts": rows})
            told(f"{sum(v.verdict == 'consistent' for v in verdicts)} hold")
        return tuple(verdicts)

    # ------------------------------------------------------------------------------------- the fix

    def _mend(self, done: Reviewed) -> Reviewed:
        wrong = {v.issue_id for v in done.verdicts if v.verdict == "contradicts"}
        judged = {v.issue_id for v in done.verdicts}
        # What a reviewer names outside of the change is reported, and never written to.
        mendable = {one.path for one in done.files if not one.binary and not one.deleted}
        items = [item for item in done.items if item.id in judged - wrong and item.file in mendable]
        if not items or not self._around.confirm(done.items, done.verdicts):
            return done
        failures = self._fix(items)
        changed = self._repo.changed()
        if not changed or self._stopped is not None:
            return msgspec.structs.replace(done, fix_failures=failures)
        tests = self._tested(changed)
        self._archive.json("deep/fix-failures.json", dict(failures))
        if tests is not None:
            self._archive.json("deep/test-verdict.json", tests)
        commit, patch = self._commit(done, items, tests)
        done = msgspec.structs.replace(done, tests=tests, fix_failures=failures, patch=patch)
        if commit is None or (tests is not None and not tests.passed):
            return done
        branch = f"daydream/review-{self._recorder.session}"
        with self._phase("commit", branch):
            self._write_manifest("partial", files=done.files, fix=commit)
            self._repo.make_branch(branch, commit)
            if self._options.push:
                try:
                    self._repo.push(commit, branch)
                except ReviewError as error:
                    failures["push"] = str(error)
                    self._archive.json("deep/fix-failures.json", dict(failures))
            if self._options.in_place:
                self._repo.advance(done.head, commit)
        return msgspec.structs.replace(done, commit=commit, branch=branch)

    def _fix(self, items: Sequence[Item]) -> dict[str, str]:
        groups: list[tuple[str, list[Item]]] = []
        for file in sorted({item.file for item in items}):
            mine = [item for item in items if item.file == file]
            groups += [(file, mine[n : n + TOGETHER]) for n in range(0, len(mine), TOGETHER)]
        failures: dict[str, str] = {}
        locks = {file: threading.Lock() for file, _ in groups}

        def one(number: int) -> None:
            file, mine = groups[number]
            phase = f"fix-{number + 1}"
            user = prompt("review_fix", items=listed(mine), scope=file)
            with locks[file]:
                answer = self._ask(phase, user, (), scope=(file,))
                if answer is None and self._stopped is None:
                    failures[file] = self._failures.pop(phase, "no answer")

        what = f"{counted(len(items), 'finding')} in {counted(len(locks), 'file')}"
        with self._phase("fix", what) as told:
            self._side_by_side(list(range(len(groups))), one)
            told(counted(len(self._repo.changed()), "file") + " changed")
        return failures

    def _tested(self, changed: Sequence[str]) -> TestVerdict | None:
        command = self._options.test_command
        if not command:
            return None
        with self._phase("test", command) as told:
            verdict = self._verdict(self._test(), retries=0)
            told("passed" if verdict.passed else "failed")
        if verdict.passed or self._stopped is not None:
            return verdict
        with self._phase("heal"):
            user = prompt(
                "review_heal",
                command=command,
                ending=f"exit status {verdict.exit}",
                tail=verdict.tail,
                diff=cut(self._working_diff(), SHOWN),
                scope=", ".join(changed),
            )
            self._ask("heal", user, (), scope=tuple(changed))
            self._failures.pop("heal", None)
        with self._phase("test", command) as told:
            verdict = self._verdict(self._test(), retries=1)
            told("passed" if verdict.passed else "failed")
        return verdict

    def _test(self) -> ExecResult:
        return self._shell.run(
            self._options.test_command, self._repo.tree, wall_s=self._options.test_s
        )

    def _verdict(self, done: ExecResult, *, retries: int) -> TestVerdict:
        text = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
        return TestVerdict(
            passed=(done.outcome, done.exit) == ("exited", 0),
            retries=retries,
            exit=done.exit,
            command=self._options.test_command,
            tail=clean_text(text[-TAIL:], TAIL),
        )

    def _working_diff(self) -> str:
        said = self._repo.ours("diff", "--no-ext-diff", "--no-textconv", "--no-color", self._head)
        return said.out.decode("utf-8", "replace")

    def _commit(
        self, done: Reviewed, items: Sequence[Item], tests: TestVerdict | None
    ) -> tuple[str | None, str]:
        said = "not run" if tests is None else "passed" if tests.passed else "failed"
        subject = f"Mend {counted(len(items), 'finding')} of a review"
        body = "\n".join(f"- {item.file}:{item.line} {_first_line(item)}" for item in items[:50])
        trailers = (
            f"Daydream-Run: {self._recorder.session}\n"
            f"Daydream-Version: {self._around.version}\nDaydream-Tests: {said}"
        )
        date = stamp(self._around.clock())
        commit = self._repo.commit_all(done.head, f"{subject}\n\n{body}\n\n{trailers}\n", date=date)
        patch = "" if commit is None else self._repo.diff(done.head, commit)
        if patch:
            self._archive.text("recommended.patch", patch)
        return commit, patch

    # ------------------------------------------------------------------------------------ machinery

    def _ask(
        self, phase: str, user: str, shown: Sequence[str], *, scope: Sequence[str] | None = None
    ) -> str | None:
        """Hold one conversation; None when there is no answer, with the reason kept."""
        if self._around.interrupted.is_set():
            raise Stopped("interrupted", exit_code=130)
        if self._stopped is not None:
            return None
        fork = self._recorder.fork(phase)
        system = prompt("review_system", phase=phase)
        try:
            return self._backend.converse(
                Ask(phase, system, user, tuple(shown)),
                Tools(self._repo.tree, self._shell, scope=scope),
                fork,
            )
        except ModelError as error:
            self._failures[phase] = clean_text(str(error), 1_000)
        except Stopped as reason:
            if reason.exit_code == 130:
                raise
            self._stopped = reason.reason
        finally:
            self._archive.json(f"trajectories/{phase}.json", self._recorder.of_fork(fork))
        return None

    def _side_by_side(self, given: Sequence[T], play: Callable[[T], S]) -> list[S]:
        with ThreadPoolExecutor(max_workers=max(1, self._options.fanout)) as pool:
            return list(pool.map(play, given))

    @contextlib.contextmanager
    def _phase(self, name: str, detail: str = "") -> Iterator[Callable[[str], None]]:
        if self._around.interrupted.is_set():
            raise Stopped("interrupted", exit_code=130)
        told = [detail]
        self._event(name, "start")
        self._around.notify(Phase(name, detail))
        yield lambda text: told.__setitem__(0, text)
        self._event(name, "end")
        self._around.notify(Phase(name, told[0], ended=True))

    def _event(self, phase: str, event: str) -> None:
        self._events.append(
            {"phase": phase, "event": event, "timestamp": stamp(self._around.clock())}
        )

    def _close(self, done: Reviewed, covered: int) -> None:
        whole = self._recorder.whole(ended=self._stopped is None, phases=list(self._events))
        self._archive.json("trajectory.json", whole)
        # The score reads the grounding from the manifest, so that comes first.
        self._write_manifest("partial", files=done.files, done=done, covered=covered)
        complete = self._stopped is None and not done.fix_failures
        self._write_manifest(
            "complete" if complete else "partial", files=done.files, done=done, covered=covered
        )

    def _write_manifest(
        self,
        status: str,
        *,
        files: Sequence[FileDiff],
        fix: str | None = None,
        done: Reviewed | None = None,
        covered: int = 0,
    ) -> None:
        usage, now = self._recorder.usage, self._around.clock()
        run = self._archive.path
        count = None if done is None else len(done.items)
        manifest: dict[str, JsonValue] = {
            "session_id": self._recorder.session,
            "archived_at": stamp(now),
            "status": status,
            "run": {
                "flow": "deep",
                "backend": self._backend.name,
                "model": self._backend.model,
                "test_command": self._options.test_command,
                "stopped": self._stopped,
            },
            "fix_failures": {} if done is None else dict(done.fix_failures),
            "git": {
                "branch": self._repo.branch(),
                "base_branch": self._options.base or None,
                "head_sha": self._head,
                "fix_sha": fix if done is None else done.commit,
            },
            "code_context": {
                "base_sha": self._base,
                "head_sha": self._head,
                "changed_files": [one.path for one in files],
            },
            "metrics": {
                "total_prompt_tokens": usage.input_tokens,
                "total_completion_tokens": usage.output_tokens,
                "total_cost_usd": usage.cost_usd,
                "wall_clock_seconds": now - self._began,
                "total_findings": count,
                "grounding_rate": grounding_of(run),
                "coverage_ratio": round(covered / len(files), 4) if files else None,
            },
        }
        if done is not None:
            manifest["score"] = {
                "first": breakdown(score(read_signals(run))),
                "strict": breakdown(score_strict(run)),
            }
        self._archive.manifest(manifest)


MAIN: Final = ["origin/HEAD", "main", "master"]
"""Names that the main branch goes by, in the order tried."""


def listed(items: Sequence[Item]) -> str:
    """Return findings as a question shows them."""
    return "\n\n".join(
        f"{item.id}. {item.file}:{item.line} ({item.severity})\n{item.description}\n"
        f"Why: {item.rationale or 'not said'}\nEvidence: {item.evidence}"
        for item in items
    )


def _paths(files: Sequence[FileDiff]) -> list[str]:
    return [one.path for one in files]


def _first_line(item: Item) -> str:
    return cut(item.description.splitlines()[0], 100)
