"""A Terraform that makes nothing: it keeps a state, speaks the real one's JSON, and does what a file beside it orders.

The file is called `orders` and lies in the folder of the program. Each line has a stage and what happens there when it is next
applied or destroyed: `hang` until Ctrl-C, or an error's summary and detail, parted by `|`. An order is carried out once. A file
`planned` has the actions and addresses of every plan, `pulled-STAGE` the state of a stage; a file `broken` makes states unreadable;
`calls` lists the commands.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """#!{python} -IS
import json, os, signal, sys, time
from pathlib import Path
verb, stage, state = sys.argv[1], Path.cwd().name, Path("state.json")
orders = Path(__file__).with_name("orders")
with Path(__file__).with_name("calls").open("a") as calls:
    calls.write(f"{{stage}} {{verb}}\\n")
def say(**line):
    print(json.dumps(line), flush=True)
def ordered():
    lines = orders.read_text().splitlines() if orders.exists() else []
    mine = [line for line in lines if line.startswith(stage + " ")]
    orders.write_text("".join(line + "\\n" for line in lines if line not in mine[:1]))
    return mine[0].partition(" ")[2] if mine else ""
def made(names):
    state.write_text(json.dumps(names))
if verb == "output":
    names = ("bootstrap", "base", "cluster") if state.exists() else ()
    print(json.dumps({{name: {{"value": {{"of": name, "name": "main", "location": "us-central2-b"}}}} for name in names}}))
elif verb == "state" and sys.argv[2] == "pull":
    pulled = Path(__file__).with_name(f"pulled-{{stage}}")
    print(pulled.read_text() if pulled.exists() else json.dumps({{"resources": []}}))
elif verb == "state":
    if Path(__file__).with_name("broken").exists():
        sys.exit("Error: Failed to load state")
    if not state.exists():
        sys.exit("No state file was found!")
    print("".join(name + "\\n" for name in json.loads(state.read_text())), end="")
elif verb == "destroy":
    if order := ordered():
        say(type="diagnostic", diagnostic={{"severity": "error", "summary": order, "detail": ""}})
        sys.exit(1)
    for name in json.loads(state.read_text()):
        say(type="planned_change", change={{"resource": {{"addr": name}}, "action": "delete"}})
    state.unlink()
elif verb == "plan":
    planned = Path(__file__).with_name("planned")
    for line in planned.read_text().splitlines() if planned.exists() else ():
        action, _, address = line.partition(" ")
        say(type="planned_change", change={{"resource": {{"addr": address}}, "action": action}})
    for argument in sys.argv:
        if argument.startswith("-out="):
            Path(argument.removeprefix("-out=")).write_text("planned")
elif verb == "show":
    print(f"\\nall that is {{Path(sys.argv[-1]).read_text()}} in {{stage}}\\n")
elif verb == "apply":
    order = ordered()
    say(type="apply_start", **{{"@message": "first: Creating..."}})
    made(["first"])
    if order == "hang":
        signal.signal(signal.SIGINT, lambda *_: None)
        Path(__file__).with_name("hanging").touch()
        signal.pause()
        time.sleep(0.2)
        made(["first", "second"])
        sys.exit(1)
    if order == "interrupted":
        say(type="log", **{{"@message": "Interrupt received.\\nPlease wait for Terraform to exit"}})
        say(type="diagnostic", diagnostic={{"severity": "error", "summary": "execution halted", "detail": ""}})
        sys.exit(1)
    if order:
        summary, _, detail = order.partition("|")
        say(type="diagnostic", diagnostic={{"severity": "error", "summary": summary, "detail": detail}})
        sys.exit(1)
    made(["first", "second", "third"])
"""


def install(folder: Path, *orders: str) -> Path:
    """Install the program in a folder, with orders for its next runs."""
    folder.mkdir(exist_ok=True)
    program = folder / "terraform"
    program.write_text(_PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    (folder / "orders").write_text("".join(f"{order}\n" for order in orders))
    return program
