"""Policy files that try to cheat, to break out or to break down, and what must become of each.

Every file does its deed and then plays :data:`HONEST` where it can: a deed that changes no decision
may be accepted, with the honest result.
"""

from typing import NamedTuple

HONEST = """
def honest(view, limit):
    if view.batches >= 6:
        return []
    leaves = view.frontier[1:]
    return [view.root] * 2 if view.batches < 3 else list(leaves[:3]) or [view.root]
"""
SAME = ""
"""The deed changes nothing: the file is accepted with the honest result."""


class Hostile(NamedTuple):
    """One file."""

    deed: str
    """Statements that run in each decision, before the honest one; ``out`` may hold a batch."""
    reason: str
    """What the disqualification must say (a pattern), or :data:`SAME`."""
    top: str = ""
    """Statements of the module."""

    def source(self) -> str:
        """Return the file."""
        deed = "".join(f"    {line}\n" for line in self.deed.splitlines())
        return (
            f"{HONEST}\n{self.top}\ndef select_batch(view, limit):\n    out = None\n{deed}"
            "    return honest(view, limit) if out is None else out\n"
        )


DENIED = "PermissionError"
ABSENT = "ModuleNotFoundError|ImportError"
CRASH = "^crash: "
TIME = "^time: |^crash: "
TAMPERED = "^tampering: "
UNSTEADY = "^non-determinism: "

STEAL = """\
import gc
for thing in gc.get_objects():
    if type(thing).__name__ in ("Record", "ReplayWorld", "Tree", "Pool", "Node"):
        out = [view.root] * limit"""
CLIMB = """\
import sys
frame = sys._getframe()
while frame is not None:
    if "record" in frame.f_locals or "tree" in frame.f_locals:
        out = [view.root] * limit
    frame = frame.f_back"""
TRACEBACK = """\
try:
    1 / 0
except ZeroDivisionError as error:
    frame = error.__traceback__.tb_frame
    while frame is not None:
        if "world" in frame.f_locals and hasattr(frame.f_locals["world"], "advance"):
            out = [view.root] * limit
        frame = frame.f_back"""
SUBCLASSES = """\
for kind in object.__subclasses__():
    if kind.__name__ in ("Record", "ReplayWorld", "Popen"):
        out = [view.root] * limit"""
DRIVER = """\
import sys
child = sys.modules["daydream.policy_child"]
"""
MATES = """\
import sys
frame = sys._getframe()
while "worlds" not in frame.f_locals:
    frame = frame.f_back
worlds = frame.f_locals["worlds"]
"""

HOSTILE = {
    # Looking for what is not revealed.
    "gc_objects": Hostile(STEAL, SAME),
    "frames": Hostile(CLIMB, SAME),
    "traceback_frames": Hostile(TRACEBACK, SAME),
    "subclasses": Hostile(SUBCLASSES, SAME),
    "environment": Hostile("import os\nout = [0] * 5 if 'HOME' in os.environ else None", SAME),
    "main_module": Hostile(
        "import sys\nout = [0] * 5 if hasattr(sys.modules['__main__'], 'pool') else None", SAME
    ),
    "proc_parent": Hostile("import os\nopen(f'/proc/{os.getpid()}/status').read()", DENIED),
    "own_memory": Hostile("open('/proc/self/mem', 'rb').read(1)", DENIED),
    "history_on_disk": Hostile("open('/tmp/run/history/001.json').read()", DENIED),
    "list_folder": Hostile("import os\nos.listdir('/')", DENIED),
    # Reaching out.
    "write_file": Hostile("open('/tmp/daydream-was-here', 'w').write('x')", DENIED),
    "remove_file": Hostile("import os\nos.unlink('/tmp/daydream-victim')", DENIED),
    "fork": Hostile("import os\nos.fork()", DENIED),
    "fork_bomb": Hostile("import os\nfor _ in range(1000):\n    os.fork()", DENIED),
    "exec": Hostile("import os\nos.execv('/bin/true', ['true'])", DENIED),
    "shell": Hostile("import os\nout = [0] * 5 if os.system('true') == 0 else None", SAME),
    "socket": Hostile("import _socket\n_socket.socket()", f"{DENIED}|{ABSENT}"),
    "thread": Hostile("import _thread\n_thread.start_new_thread(print, ())", "RuntimeError"),
    "kill_parent": Hostile("import os\nos.kill(os.getppid(), 9)", DENIED),
    "kill_everyone": Hostile("import os\nos.kill(-1, 9)", DENIED),
    "alarm": Hostile("import signal\nsignal.setitimer(signal.ITIMER_REAL, 1)", "itimer_error"),
    "raise_limits": Hostile(
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (9999, 9999))",
        f"{DENIED}|ValueError|{ABSENT}",
    ),
    "ctypes": Hostile("import ctypes\nctypes.string_at(0)", ABSENT),
    "become_root": Hostile("import os\nos.setuid(0)", DENIED),
    # Lying in the protocol.
    "garbage_on_every_fd": Hostile(
        "import os\nfor fd in range(64):\n    try:\n        os.write(fd, b'x' * 64)\n"
        "    except OSError:\n        pass",
        TAMPERED,
    ),
    "close_every_fd": Hostile("import os\nos.closerange(0, 64)", f"{CRASH}|{DENIED}|OSError"),
    "extra_message": Hostile(
        DRIVER + "import os\nfor fd in range(64):\n    try:\n"
        "        os.write(fd, b'\\x01\\x00\\x00\\x00\\x90')\n    except OSError:\n        pass",
        TAMPERED,
    ),
    "forged_replies": Hostile(
        DRIVER + "child.Reply = lambda key, wish, *rest: [key + 1, wish]", TAMPERED
    ),
    "many_replies": Hostile(MATES + "frame.f_locals['replies'].extend([0] * 99)", TAMPERED),
    "driver_without_checks": Hostile(
        DRIVER + "type(view.frontier).accepts = lambda *rest: True\nout = ['0']",
        "raised|tampering",
    ),
    "patched_check": Hostile(
        DRIVER + "child.check_batch = lambda *rest: None\nout = [77]", "named parent 77"
    ),
    "announce_a_gigabyte": Hostile(
        "import os\nfor fd in range(64):\n    try:\n        os.write(fd, b'\\xff\\xff\\xff\\x3f')\n"
        "    except OSError:\n        pass",
        TAMPERED,
    ),
    "revealing_by_itself": Hostile(
        "view.nodes.append(view.nodes[0])\nview.batches += 1\nout = [len(view.nodes) - 1]",
        "named parent 1 ",
    ),
    # Breaking down.
    "exit_quietly": Hostile("import os\nos._exit(0)", CRASH),
    "system_exit": Hostile("raise SystemExit(0)", "SystemExit"),
    "interrupt": Hostile("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "nasty_exception": Hostile(
        "class Bad(Exception):\n    def __str__(self):\n        raise SystemExit\nraise Bad",
        "raised SystemExit",
    ),
    "message_of_ten_megabytes": Hostile("raise RuntimeError('x' * 10**7)", "RuntimeError: xxx"),
    "escape_codes": Hostile(
        "raise RuntimeError('\\x1b]0;owned\\x07')", r"RuntimeError:  \]0;owned"
    ),
    "huge_batch": Hostile("out = [0] * 100_000", "named 100000 parents"),
    "huge_number": Hostile("out = [2 ** 200]", "named parent 16069"),
    "list_that_lies": Hostile(
        "class Lies(list):\n    def __len__(self):\n        return 1\nout = Lies([0] * 99)",
        "named 99 parents|raised",
    ),
    "printing": Hostile("print('x' * 100_000)", SAME),
    "nothing": Hostile("out = []", "reveals nothing"),
    "endless_loop": Hostile("while True:\n    pass", TIME),
    "loop_on_import": Hostile("", TIME, top="while True:\n    pass"),
    "swallowing_loop": Hostile(
        "while True:\n    try:\n        while True:\n            pass\n"
        "    except BaseException:\n        pass",
        TIME,
    ),
    "ignoring_signals": Hostile(
        "import signal\nfor number in range(1, 64):\n    try:\n"
        "        signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError):\n"
        "        pass\nwhile True:\n    pass",
        TIME,
    ),
    "memory": Hostile("x = []\nwhile True:\n    x.append(bytearray(1 << 24))", "MemoryError|^time"),
    "deep_recursion": Hostile(
        "import sys\nsys.setrecursionlimit(10**9)\ndef f():\n    f()\nf()",
        "MemoryError|RecursionError|^crash|^time",
    ),
    "deep_data": Hostile(
        "x = []\nfor _ in range(10**6):\n    x = [x]\nrepr(x)", f"RecursionError|MemoryError|{TIME}"
    ),
    # Deciding by what is not revealed.
    "chance": Hostile("import random\nout = [0] * random.randint(1, limit)", UNSTEADY),
    "hash_seed": Hostile(
        "out = [0] * (1 + hash('a') % limit) if view.batches < 4 else []", UNSTEADY
    ),
    "clock": Hostile(
        "import time\nout = [0] * (1 + time.perf_counter_ns() // 1000 % limit)", UNSTEADY
    ),
    "process_number": Hostile(
        "import os\n"
        "out = [0] * (1 + (os.getpid() >> 3 * view.batches) % 8) if view.batches < 8 else []",
        UNSTEADY,
    ),
    "address": Hostile(
        "out = [0] * (1 + (id(object()) >> 12 + 3 * view.batches) % 8) if view.batches < 9 else []",
        UNSTEADY,
    ),
    "memory_in_sys": Hostile(
        "import sys\nsys.count = getattr(sys, 'count', 0) + 1\n"
        "out = [0] * (1 + sys.count % limit) if view.batches < 4 else []",
        UNSTEADY,
    ),
    "memory_in_a_module": Hostile(
        "import math\nmath.seen = getattr(math, 'seen', 0) + (view.batches == 0)\n"
        "out = [0] * (1 + math.seen % limit) if view.batches < 4 else []",
        UNSTEADY,
    ),
    "company": Hostile(
        MATES + "out = [0] * (1 + len(worlds) % limit) if view.batches < 4 else []", UNSTEADY
    ),
    "alone_means_live": Hostile(
        MATES + "out = [0] * limit if len(worlds) == 1 and view.batches < 4 else None", UNSTEADY
    ),
    "still_alone_means_live": Hostile(
        MATES + "out = [0] * limit if len(worlds) == 1 and 0 < view.batches < 4 else None", UNSTEADY
    ),
    "clock_read_for_nothing": Hostile("import time\ntime.time()", SAME),
    "module_state": Hostile("seen.append(1)\nout = None", SAME, top="seen = []"),
}
