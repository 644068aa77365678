"""Programs that review as ``claude``, ``codex`` and ``pi`` do, with the offline reviewer as model.

Each takes its question where the real one takes it, uses tools of its own in its working folder,
and prints what the real one prints. The file ``behaviour`` beside it says more: ``stray`` changes
files that it was not asked to change, ``garbage`` prints no JSON, ``fail`` ends with status 1,
``hang`` opens the pipe
``hanging`` beside it and waits for ever.
"""

import stat
import sys
from pathlib import Path

_PROGRAM = r"""#!PYTHON
import json, os, re, sys, time
from pathlib import Path
from daydream.llm.base import Message, Request, ToolCall
from daydream.review.backends.offline import OfflineReviewer

kind, here = "KIND", Path(__file__).resolve().parent
behaviour = (here / "behaviour").read_text().strip()
words, text = sys.argv[1:], sys.stdin.read()
with (here / "asked").open("a") as asked:
    asked.write(json.dumps(words) + "\n")

def say(**record):
    print(json.dumps(record), flush=True)

if behaviour == "hang":
    open(here / "hanging", "wb").close()
    time.sleep(600)
if behaviour == "garbage":
    sys.stdout.buffer.write(b"\x00\xff{not json\n[1,2]\n{}\n" * 50)
    sys.exit(0)
if behaviour == "fail":
    print("the service is overloaded", file=sys.stderr)
    sys.exit(1)
if kind == "codex":
    assert words[:2] == ["exec", "--json"] and words[-1] == "-", words
    system, _, user = text.partition("\n\n# ")
    system, user = system + "\n", "# " + user
else:
    system, user = words[words.index("--append-system-prompt") + 1], text
writing = {"claude": "Edit" in " ".join(words), "codex": "workspace-write" in words,
           "pi": "edit" in " ".join(words)}[kind]

def used(name, arguments):
    if name == "read":
        lines = Path(arguments["path"]).read_text().split("\n")
        start = int(arguments.get("start", 1))
        end = int(arguments.get("end", len(lines)))
        answer = "\n".join(f"{n:6} {line}" for n, line in enumerate(lines, 1) if start <= n <= end)
    else:
        assert writing, "asked to write where it may not"
        Path(arguments["path"]).write_text(arguments["content"])
        answer = f"wrote {arguments['path']}"
    if kind == "claude":
        block = {"type": "tool_use", "id": "t1", "name": name.title(),
                 "input": {"file_path": arguments["path"]}}
        say(type="assistant", message={"id": f"m{time.monotonic_ns()}", "model": "claude-x",
            "role": "assistant", "content": [block], "usage": usage["claude"]})
    elif kind == "codex":
        say(type="item.completed", item={"id": "i0", "type": "command_execution",
            "command": f"cat {arguments['path']}", "exit_code": 0})
    else:
        say(type="tool_execution_start", toolCallId="t1", toolName=name,
            args={"path": arguments["path"]})
        say(type="tool_execution_end", toolCallId="t1", toolName=name, result={}, isError=False)
    return answer

usage = {
    "claude": {"input_tokens": 10, "cache_creation_input_tokens": 20,
               "cache_read_input_tokens": 70, "output_tokens": 40},
    "codex": {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 40},
    "pi": {"input": 30, "output": 40, "cacheRead": 70, "cacheWrite": 0, "totalTokens": 140,
           "cost": {"total": 0.25}},
}
messages = [Message("system", system), Message("user", user)]
for turn in range(10):
    reply = OfflineReviewer().answer(Request(tuple(messages)), None)
    if not reply.calls:
        break
    messages.append(Message("assistant", reply.text, reply.calls))
    for call in reply.calls:
        answer = used(call.name, json.loads(call.arguments))
        messages.append(Message("tool", answer, call_id=call.id))
if behaviour == "stray":
    for path in Path(".").glob("*.py"):
        path.write_text(path.read_text() + "\n# strayed\n")
    Path("stray.txt").write_text("x")
if kind == "claude":
    say(type="assistant", message={"id": "m9", "model": "claude-x", "role": "assistant",
        "content": [{"type": "text", "text": reply.text}], "usage": usage["claude"]})
    say(type="result", subtype="success", is_error=False, num_turns=3, result=reply.text,
        total_cost_usd=0.25, usage=usage["claude"])
elif kind == "codex":
    say(type="turn.started")
    say(type="item.completed", item={"id": "i1", "type": "agent_message", "text": reply.text})
    say(type="turn.completed", usage=usage["codex"])
else:
    message = {"role": "assistant", "model": "m", "stopReason": "stop", "usage": usage["pi"],
               "content": [{"type": "text", "text": reply.text}]}
    say(type="message_end", message={"role": "user", "content": text[:20]})
    say(type="message_end", message=message)
    say(type="agent_end", messages=[message])
"""


def install(folder: Path, kind: str, behaviour: str = "review") -> Path:
    """Put a program called ``kind`` into ``folder`` and return the folder, for ``PATH``."""
    folder.mkdir(exist_ok=True)
    program = folder / kind
    program.write_text(_PROGRAM.replace("PYTHON", sys.executable).replace("KIND", kind))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (folder / "behaviour").write_text(behaviour)
    return folder
