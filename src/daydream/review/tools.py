"""What a reviewer may do in our checkout: read, grep, ls, bash, and for fixes edit and write.

Paths stay inside the checkout and follow no link out of it. A command runs in the sandbox on a
copy, so nothing that it writes comes back. Edits stay inside the scope that the host set; the host
writes the files itself.
"""

import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from daydream.canonical import JsonValue, clean_text
from daydream.config import SandboxLevel, user_environment
from daydream.errors import Stopped
from daydream.llm.base import Tool
from daydream.sandbox.base import ExecResult, Job, Limits, Stop
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.sandbox.choose import choose, weakness
from daydream.sandbox.process import ProcessSandbox
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.workspace import let_others_read, workspace

SHOWN: Final = 20_000
"""Characters of one tool's answer."""
LARGEST: Final = 2 << 20
"""Bytes of a file that is read or written."""
FOUND: Final = 200
"""Names that ls shows."""
GREP_S: Final = 20.0
CHILD: Final = Path(__file__).with_name("grep_child.py")
COMMAND_S: Final = 120.0
COPY: Final = 'cp -R "$1/." . && exec /bin/sh -c "$2"'

READING: Final = (
    Tool(
        "read",
        "Read a text file with line numbers.",
        {"path": "path in the repository", "start": "first line, 1 by default", "end": "last line"},
        ("path",),
    ),
    Tool(
        "grep",
        "Search files for a regular expression.",
        {"pattern": "Python regular expression", "path": "file or folder, all by default"},
        ("pattern",),
    ),
    Tool("ls", "List a folder.", {"path": "folder, the top by default"}),
    Tool(
        "bash",
        "Run a shell command on a copy of the repository, without a network. Its changes are lost.",
        {"command": "the command"},
        ("command",),
    ),
)
WRITING: Final = (
    Tool(
        "edit",
        "Replace a text that stands exactly once in a file.",
        {"path": "path in the repository", "old": "text to replace", "new": "its replacement"},
        ("path", "old", "new"),
    ),
    Tool(
        "write",
        "Write a whole file.",
        {"path": "path in the repository", "content": "its whole content"},
        ("path", "content"),
    ),
)


class ToolFailed(ValueError):  # noqa: N818 - goes back to the model as the answer
    """A tool cannot do what was asked."""


class Shell(msgspec.Struct, frozen=True):
    """Where commands run."""

    level: SandboxLevel = "auto"
    readable: tuple[str, ...] = ()
    """Further paths that commands may read, such as a virtual environment."""
    stop: Stop | None = None
    """Says, some times a second, whether to end the command."""

    def run(self, command: str, tree: Path, *, wall_s: float) -> ExecResult:
        """Run a shell command on a copy of ``tree``; what it changes is lost with the copy.

        Raises :class:`daydream.errors.EnvironmentMissing` where no sandbox is to be had, and
        :class:`Stopped` when somebody asked to stop.
        """
        profile = PROFILES["evaluator"]
        sandbox = choose(self.level, profile)
        let_others_read(tree)
        environment = profile.environment(user_environment())
        own = environment.get("VIRTUAL_ENV")
        with workspace() as place:
            home = str(place) if weakness(sandbox.layers) else "/work"
            job = Job(
                argv=("/bin/sh", "-c", COPY, "sh", str(tree), command),
                cwd=home,
                env={**environment, "HOME": home, "CI": "true", "GIT_CONFIG_GLOBAL": "/dev/null"},
                readable=(str(tree), *self.readable, *((own,) if own else ())),
                scratch=(home,),
            )
            limits = Limits(wall_s=wall_s, output_bytes=1 << 20)
            if not isinstance(sandbox, BubblewrapSandbox | ProcessSandbox):
                return sandbox.run(job, limits)
            done = sandbox.run_until(job, limits, self.stop)
        if done.outcome == "stopped":
            raise Stopped("interrupted", exit_code=130)
        return done


class Tools:
    """The tools of one conversation."""

    def __init__(self, tree: Path, shell: Shell, *, scope: Collection[str] | None = None) -> None:
        self._tree = tree.resolve()
        self._shell = shell
        self._scope = None if scope is None else frozenset(scope)
        self.edited: set[str] = set()
        """Paths that were changed."""

    @property
    def tree(self) -> Path:
        """The checkout."""
        return self._tree

    @property
    def scope(self) -> frozenset[str]:
        """Paths that may be changed."""
        return self._scope or frozenset()

    def take(self, name: str, data: bytes) -> None:
        """Put what another program made of a file in scope; raises :class:`ToolFailed`."""
        self._put(self._in_scope(name), data)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """What may be called."""
        return READING if self._scope is None else (*READING, *WRITING)

    def call(self, name: str, arguments: Mapping[str, JsonValue]) -> str:
        """Return what the tool ``name`` answers; raises :class:`ToolFailed` with the reason."""
        tool = next((one for one in self.offered if one.name == name), None)
        if tool is None:
            known = ", ".join(one.name for one in self.offered)
            raise ToolFailed(f"there is no tool {name!r:.60} here (expected one of {known})")
        given = {key: text for key, text in arguments.items() if text is not None}
        texts = {
            key: value if isinstance(value, str) else str(value) for key, value in given.items()
        }
        missing = [key for key in tool.required if key not in texts]
        if missing:
            raise ToolFailed(f"{name} lacks {missing[0]!r} (expected {', '.join(tool.parameters)})")
        match name:
            case "read":
                answer = self._read(texts)
            case "grep":
                answer = self._grep(texts)
            case "ls":
                answer = self._ls(texts)
            case "bash":
                answer = self._bash(texts)
            case "edit":
                answer = self._edit(texts)
            case _:
                answer = self._write(texts)
        return clean_text(answer, SHOWN)

    def _path(self, name: str) -> Path:
        try:
            place = (self._tree / name.removeprefix("/")).resolve()
            if name.startswith(str(self._tree)):
                place = Path(name).resolve()
        except (ValueError, RuntimeError):
            raise ToolFailed(f"{name!r:.200} is no path (expected one in the repository)") from None
        if place != self._tree and self._tree not in place.parents:
            raise ToolFailed(f"{name!r:.200} is outside of the repository (expected a path in it)")
        return place

    def _data(self, place: Path, name: str) -> bytes:
        if not place.is_file():
            raise ToolFailed(f"{name!r:.200} is no file (expected one of the repository)")
        if place.stat().st_size > LARGEST:
            raise ToolFailed(f"{name!r:.200} is larger than {LARGEST} bytes")
        return place.read_bytes()

    def _read(self, texts: Mapping[str, str]) -> str:
        text = self._data(self._path(texts["path"]), texts["path"]).decode("utf-8", "replace")
        lines = text.removesuffix("\n").split("\n") if text else []
        start, end = _number(texts, "start", 1), _number(texts, "end", len(lines))
        shown = lines[max(0, start - 1) : end]
        return (
            "\n".join(f"{n:6} {line.rstrip()}" for n, line in enumerate(shown, max(1, start)))
            or "(empty)"
        )

    def _grep(self, texts: Mapping[str, str]) -> str:
        pattern = texts["pattern"].encode("utf-8", "replace").decode()[:500].replace("\0", "")
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ToolFailed(f"the pattern cannot be read: {error}") from None
        start = self._path(texts.get("path", "."))
        job = Job(
            argv=(sys.executable, "-I", "-S", str(CHILD), pattern, str(self._tree), str(start)),
            cwd=str(self._tree),
        )
        done = ProcessSandbox().run(job, Limits(wall_s=GREP_S, output_bytes=1 << 20))
        found = done.stdout.decode("utf-8", "replace")
        if done.outcome == "wall":
            return f"{found}(stopped after {GREP_S:g} s; use a simpler pattern or name a folder)"
        if (done.outcome, done.exit) != ("exited", 0):
            raise ToolFailed(f"the search ended early ({done.outcome}); name a folder or a file")
        return found or "(no line matches)"

    def _ls(self, texts: Mapping[str, str]) -> str:
        place = self._path(texts.get("path", "."))
        if not place.is_dir():
            raise ToolFailed(f"{texts.get('path')!r:.200} is no folder")
        names = sorted(f"{one.name}/" if one.is_dir() else one.name for one in place.iterdir())
        return "\n".join(names[:FOUND]) + ("\n(more)" if len(names) > FOUND else "")

    def _bash(self, texts: Mapping[str, str]) -> str:
        done = self._shell.run(texts["command"], self._tree, wall_s=COMMAND_S)
        out, err = (data.decode("utf-8", "replace") for data in (done.stdout, done.stderr))
        ending = f"exit {done.exit}" if done.exit is not None else done.outcome
        return "\n".join(part for part in (out[-SHOWN // 2 :], err[-SHOWN // 4 :], ending) if part)

    def _edit(self, texts: Mapping[str, str]) -> str:
        place = self._in_scope(texts["path"])
        before = self._data(place, texts["path"])
        old, new = (_as_in(before, texts[key]) for key in ("old", "new"))
        count = before.count(old) if old else 0
        if count != 1:
            raise ToolFailed(
                f"the old text stands {count} times in {texts['path']!r:.200} (expected once); "
                "read the file and give more of it"
            )
        return self._put(place, before.replace(old, new, 1))

    def _write(self, texts: Mapping[str, str]) -> str:
        place = self._in_scope(texts["path"])
        before = self._data(place, texts["path"]) if place.exists() else b""
        try:
            before.decode()
        except UnicodeDecodeError:
            raise ToolFailed(
                f"{texts['path']!r:.200} is no UTF-8 text; change it with edit"
            ) from None
        return self._put(place, _as_in(before, texts["content"]))

    def _in_scope(self, name: str) -> Path:
        place = self._path(name)
        inside = place.relative_to(self._tree).as_posix()
        if self._scope is None or inside not in self._scope:
            allowed = ", ".join(sorted(self._scope or ()))
            raise ToolFailed(f"{inside!r:.200} is outside of this fix (expected {allowed})")
        return place

    def _put(self, place: Path, data: bytes) -> str:
        if len(data) > LARGEST:
            raise ToolFailed(f"the text has {len(data)} bytes (expected at most {LARGEST})")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        name = place.relative_to(self._tree).as_posix()
        self.edited.add(name)
        return f"wrote {name}"


def _as_in(before: bytes, text: str) -> bytes:
    """Return ``text`` as bytes whose lines end as those of the file ``before`` do."""
    data = text.encode("utf-8", "replace")
    dos = b"\r\n" in before and b"\r\n" not in data
    return data.replace(b"\n", b"\r\n") if dos else data


def _number(texts: Mapping[str, str], key: str, default: int) -> int:
    text = texts.get(key, "").strip()
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ToolFailed(f"{key} is {text!r:.40} (expected a line number)")
    return int(text)
