"""Programs that behave as the four agent programs do, with a model of their own that is none.

Each prints what the real one prints: the records were taken down from Claude Code 2.1.197, Codex
0.171.0, Gemini CLI and pi with and without a login. What a program does is written in the file
``behaviour`` beside it: ``edit`` changes the first file of its workspace and looks around,
``hang`` waits for ever with a child of its own, ``garbage`` prints no JSON, ``fail`` ends with
status 1 and an error, ``fork`` leaves a daemon behind, ``logout`` is not logged in, ``idle``
changes nothing, ``leak`` writes its key into a file.
"""

import stat
import sys
from pathlib import Path

_PROGRAM = r"""#!PYTHON
import json, os, sys, time
from pathlib import Path

kind, here = "KIND", Path(__file__).resolve().parent
behaviour = (here / "behaviour").read_text().strip()
arguments = sys.argv[1:]
if "--version" in arguments:
    print("1.2.3")
    sys.exit(0)
prompt = sys.stdin.read()
key = os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("GEMINI_API_KEY") or "none"

def say(**record):
    print(json.dumps(record), flush=True)

def claude(text, error=""):
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 20,
             "cache_read_input_tokens": 70, "output_tokens": 40}
    if not error:
        for part in ("thinking", "text"):
            say(type="assistant", message={"id": "m1", "model": "claude-x", "role": "assistant",
                "usage": usage, "content": [{"type": part, part: text}]})
    say(type="result", subtype="success", is_error=bool(error), num_turns=3, result=error or text,
        total_cost_usd=0 if error else 0.25, usage={} if error else usage)
    sys.exit(1 if error else 0)

def codex(text, error=""):
    say(type="turn.started")
    if error:
        say(type="error", message="Reconnecting... 1/5")
        say(type="turn.failed", error={"message": error})
        sys.exit(1)
    command = {"id": "i1", "type": "command_execution", "command": "true"}
    say(type="item.started", item=command)
    say(type="item.completed", item={**command, "exit_code": 0})
    say(type="item.completed", item={"id": "i2", "type": "agent_message", "text": text})
    say(type="turn.completed", usage={"input_tokens": 100, "cached_input_tokens": 60,
                                      "output_tokens": 40})

def gemini(text, error=""):
    if error:
        say(type="result", status="error", error={"type": "Error", "message": error})
        sys.exit(1)
    say(type="tool_use", tool_name="run_shell_command", tool_id="t1", parameters={})
    say(type="tool_result", tool_id="t1", status="success", output="")
    for piece in (text[:4], text[4:]):
        say(type="message", role="assistant", content=piece, delta=True)
    say(type="result", status="success", stats={"total_tokens": 140, "input_tokens": 100,
        "output_tokens": 40, "cached": 0, "models": {}})

def pi(text, error=""):
    usage = {"input": 30, "output": 40, "cacheRead": 70, "cacheWrite": 0, "totalTokens": 140,
             "cost": {"total": 0.25}}
    message = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": text}],
               "usage": usage, "stopReason": "error" if error else "stop", "errorMessage": error}
    say(type="message_end", message={"role": "user", "content": prompt[:20]})
    say(type="message_end", message=message)
    say(type="agent_end", messages=[message])

report = {"claude": claude, "codex": codex, "gemini": gemini, "pi": pi}[kind]
logout = {"claude": "Not logged in \u00b7 Please run /login",
          "codex": "unexpected status 401 Unauthorized: Missing bearer", "gemini": "", "pi": ""}

if behaviour == "hang":
    if kind == "claude":
        say(type="assistant", message={"id": "m0", "model": "claude-x",
            "usage": {"input_tokens": 7, "output_tokens": 5}, "content": []})
    os.fork()
    (here / "hanging").touch() if os.access(here, os.W_OK) else None
    time.sleep(600)
if behaviour == "garbage":
    sys.stdout.buffer.write(b"\x00\xff{not json\n[1,2]\n{}\n" * 50)
    sys.exit(0)
if behaviour == "fail":
    report("", f"overloaded, your key {key} is fine")
    sys.exit(1)
if behaviour == "logout":
    if kind == "gemini":
        print("Please set an Auth method", file=sys.stderr)
        sys.exit(41)
    if kind == "pi":
        print("No API key found for the selected model.", file=sys.stderr)
        sys.exit(1)
    report("", logout[kind])
if behaviour == "fork":
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
if behaviour in ("edit", "fork", "leak"):
    name = sorted(one for one in os.listdir(".") if os.path.isfile(one))[0]
    history = prompt.split("read-only in the folder ")[1].split(";")[0]
    seen = [json.loads(line) for line in Path(history, "attempts.jsonl").read_text().splitlines()]
    try:
        Path(history, "attempts.jsonl").write_text("forged")
        writable = True
    except OSError:
        writable = False
    text = Path(name).read_text()
    Path(name).write_text(text + f"\n# {len(seen)} seen before this one\n")
    Path("notes.txt").write_text(key if behaviour == "leak" else json.dumps({
        "seen": seen, "writable": writable, "environment": sorted(os.environ),
        "home": sorted(os.listdir(os.environ["HOME"])), "arguments": arguments,
        "files": [str(one.relative_to(history)) for one in sorted(Path(history).rglob("*"))],
    }))
report(f"I changed a file with {key}.")
"""


def install(folder: Path, kind: str, behaviour: str = "edit") -> Path:
    """Put a program called ``kind`` into ``folder`` and return the folder, for ``PATH``."""
    folder.mkdir(exist_ok=True)
    program = folder / kind
    program.write_text(_PROGRAM.replace("PYTHON", sys.executable).replace("KIND", kind))
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    behave(folder, behaviour)
    return folder


def behave(folder: Path, behaviour: str) -> None:
    """Tell the programs in ``folder`` what to do from now on."""
    (folder / "behaviour").write_text(behaviour)
