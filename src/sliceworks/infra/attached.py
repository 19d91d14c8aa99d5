"""The stand-in provider, started once for all that one of our commands has Terraform do.

Left to itself Terraform starts a provider three to five times for each plan or apply. It can also be told where one runs already
(`TF_REATTACH_PROVIDERS`); that one is then neither started nor ended by Terraform. It ends with the process that started it here.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import extras
from sliceworks.base.errors import SliceworksError
from sliceworks.infra.standin import ATTACHED

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "TF_REATTACH_PROVIDERS"
ADDRESSES = ("registry.terraform.io/hashicorp/google", "registry.opentofu.org/hashicorp/google")
_PROTOCOL = 5


class Attached:
    """A running provider. Its settings come from the environment it is given, as they would from Terraform's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        extras.check({"environments on a twin need": "terraform"})
        with tempfile.TemporaryFile() as said:
            # In a session of its own: what ends there when somebody presses Ctrl-C is for Terraform to decide.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sliceworks.infra.standin", ATTACHED],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
            assert self._process.stdout is not None
            self._socket = self._process.stdout.readline().decode().strip()
            if not self._socket:
                self.end()
                said.seek(0)
                reason = said.read().decode(errors="replace").strip().rpartition("\n")[2]
                raise SliceworksError(f"the twin's provider does not start: {reason}")

    def variable(self) -> str:
        """What tells Terraform where it is."""
        address = {"Network": "unix", "String": self._socket}
        # "Test" has Terraform leave it alone at the end.
        one: dict[str, Any] = {"Protocol": "grpc", "ProtocolVersion": _PROTOCOL, "Pid": self._process.pid, "Test": True}
        return orjson.dumps({name: {**one, "Addr": address} for name in ADDRESSES}).decode()

    def end(self) -> None:
        """Nothing more is asked of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


_running: dict[tuple[str, str], Attached] = {}
_starting = threading.Lock()


def attached(address: str, token: str, environment: Mapping[str, str]) -> Attached:
    """The provider of a twin's cloud in this process, for as long as that lives."""
    with _starting:
        if (address, token) not in _running:
            _running[address, token] = made = Attached(environment)
            atexit.register(made.end)
        return _running[address, token]
