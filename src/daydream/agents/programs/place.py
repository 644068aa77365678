"""Where an agent program works: its workspace, what lies beside it, and which paths it needs."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from daydream.agents.base import AttemptContext
from daydream.agents.history import write_history
from daydream.agents.programs.base import Facts
from daydream.config import user_environment
from daydream.sandbox.base import Job
from daydream.sandbox.namespaces import holds_home
from daydream.sandbox.profiles import ONLINE
from daydream.sandbox.workspace import let_nobody_write, let_others_read, write_files

PROXIES: Final = (
    "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
    "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE",
)  # fmt: skip
"""Variables that say how the network is reached."""
START: Final = 'cp -R "$1"/. . && cp -R "$2"/. "$HOME"/ && shift 2 && exec "$@"'
"""Shell script that takes the parent's files and the login, and becomes the program."""
_LINKS: Final = 8


class Place(msgspec.Struct, frozen=True):
    """The folders of one attempt, all in one that is gone afterwards."""

    root: Path

    @property
    def work(self) -> Path:
        """The workspace, which is the program's working folder."""
        return self.root / "workspace"

    @property
    def parent(self) -> Path:
        """The parent's files, which the workspace starts with."""
        return self.root / "parent"

    @property
    def history(self) -> Path:
        """What the run tried before, read-only."""
        return self.root / "history"

    @property
    def login(self) -> Path:
        """Copies of the program's login and settings, for a home of its own."""
        return self.root / "login"

    @property
    def home(self) -> Path:
        """That home."""
        return self.root / "home"

    def fill(self, context: AttemptContext, facts: Facts, *, apart: bool) -> None:
        """Lay everything out; ``apart`` gives the program a home of its own with its login."""
        for folder in (self.work, self.parent, self.history, self.login, self.home):
            folder.mkdir()
        write_files(self.parent, context.parent.files)
        write_history(self.history, context)
        if apart:
            home = Path(user_environment().get("HOME", "/nonexistent"))
            for name in (*facts.secrets, *facts.settings):
                if (home / name).is_file():
                    (self.login / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(home / name, self.login / name)
        for folder in (self.parent, self.history, self.login):
            let_others_read(folder)
        let_nobody_write(self.history)

    def job(
        self, facts: Facts, program: str, arguments: tuple[str, ...], prompt: str, *, apart: bool
    ) -> Job:
        """Return the job that runs ``program`` here."""
        shown = tuple(dict.fromkeys(program_paths(program)))
        env = variables(facts, own=apart)
        if apart:
            env |= {"HOME": str(self.home), "PATH": _path(shown, env["PATH"])}
        start = ("/bin/sh", "-c", START, "sh", str(self.parent), str(self.login))
        return Job(
            argv=(*start, program, *arguments),
            cwd=str(self.work),
            env=env,
            stdin=prompt.encode("utf-8", "replace"),
            readable=(*shown, str(self.parent), str(self.history), str(self.login)),
            scratch=(str(self.work), str(self.home)),
            whole=True,
        )


def variables(facts: Facts, *, own: bool) -> dict[str, str]:
    """Return the variables of the program: those of any job, how to reach the network, its keys.

    ``own`` gives it those of a sandboxed job; else it finds the user's home and tools.
    """
    known = user_environment()
    base = ONLINE.environment(known)
    if not own:
        base |= {name: known[name] for name in ("HOME", "PATH", "USER") if name in known}
    wanted = (*PROXIES, *facts.keys, *facts.variables)
    return {**base, **facts.quiet, **{name: known[name] for name in wanted if known.get(name)}}


def program_paths(program: str, depth: int = _LINKS) -> Iterator[str]:
    """Yield what has to be seen for ``program`` to start: its links, its folder, its interpreter.

    Of a program in a folder of packages it is that folder, of one in a folder of programs the file
    alone, of any other its folder, unless that holds the user's home.
    """
    path = Path(program)
    if depth == 0 or not path.exists():
        return
    if path.is_symlink():
        yield str(path)
    real = path.resolve()
    parts = real.parts
    folder = real.parent
    if "node_modules" in parts:
        yield str(Path(*parts[: parts.index("node_modules") + 1]))
    elif folder.name in {"bin", "sbin"} or holds_home(folder):
        yield str(real)
    else:
        yield str(folder)
    with real.open("rb") as file:
        first = file.readline(256)
    if first.startswith(b"#!"):
        words = first[2:].decode("utf-8", "replace").split()
        named = [one for one in words if not one.startswith("-")]
        name = named[1] if len(named) > 1 and named[0].endswith("/env") else (named or [""])[0]
        found = shutil.which(name)
        if found is not None:
            yield from program_paths(found, depth - 1)


def _path(shown: tuple[str, ...], path: str) -> str:
    """Return ``path`` with the folders of the shown programs before it."""
    folders = [str(Path(one).parent) for one in shown if not Path(one).is_dir()]
    return ":".join(dict.fromkeys((*folders, *path.split(":"))))
