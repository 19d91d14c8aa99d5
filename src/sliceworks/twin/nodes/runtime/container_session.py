"""Sessions of exec and attach with a container that runs as a process."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from sliceworks.twin.apiserver.streaming.remote_command import STDERR, STDOUT
from sliceworks.twin.nodes.runtime.descriptor import Descriptor, open_input, open_pipe, open_terminal
from sliceworks.twin.nodes.runtime.process import Files, exit_code, kill_group, spawn, terminal_command

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.streaming.remote_command import StreamOptions
    from sliceworks.twin.nodes.runtime.envvars import Command
    from sliceworks.twin.nodes.runtime.process import Process

_MAX_BUFFERED = 4 << 20


class ExecSession:
    """A command that runs in the file system and environment of a container; it ends with the session."""

    def __init__(self, inner: asyncio.subprocess.Process, stdin: Descriptor | None, outputs: dict[int, Descriptor]) -> None:
        self._inner, self._stdin, self._outputs = inner, stdin, outputs

    @classmethod
    async def start(cls, command: Command, options: StreamOptions) -> ExecSession:
        """Start a command; raises OSError."""
        stdin: Descriptor | None = None
        if options.tty:
            control, terminal = open_terminal()
            stdin, outputs, ends = control, {STDOUT: control}, [terminal]
            files = Files(terminal, terminal, terminal)
            arguments = terminal_command(command.arguments)
        else:
            stdout, out = open_pipe()
            stderr, error = open_pipe()
            outputs, ends, arguments = {STDOUT: stdout, STDERR: stderr}, [out, error], command.arguments
            source = asyncio.subprocess.DEVNULL
            if options.stdin:
                stdin, source = open_input()
                ends.append(source)
            files = Files(out, source, error)
        try:
            inner = await spawn(arguments, command.view, command.environment, files)
        except BaseException as error:
            for descriptor in {*outputs.values(), *([stdin] if stdin else [])}:
                descriptor.close()
            if isinstance(error, OSError):
                raise OSError(error.errno, f'exec: "{command.arguments[0]}": {error.strerror or error}') from error
            raise
        finally:
            for end in ends:
                os.close(end)
        return cls(inner, stdin, outputs)

    async def write_input(self, data: bytes) -> None:
        """Write to stdin; no data closes it (a terminal gets an end-of-file character)."""
        if self._stdin is None:
            return
        if data:
            await self._stdin.write(data)
        elif self._stdin in self._outputs.values():
            await self._stdin.write(b"\x04")
        else:
            self._stdin.close()

    async def read_output(self, channel: int) -> bytes:
        """The next output; empty at the end."""
        output = self._outputs.get(channel)
        return b"" if output is None else await output.read()

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal."""
        self._outputs[STDOUT].resize(columns, rows)

    async def wait(self) -> int:
        """Wait for the command; its exit code. Its children end with it, so that its output ends too."""
        code = await self._inner.wait()
        await kill_group(self._inner)
        return exit_code(code)

    async def close(self) -> None:
        """Kill the command and close its files."""
        for descriptor in {*self._outputs.values(), *([self._stdin] if self._stdin else [])}:
            descriptor.close()
        await kill_group(self._inner)


class AttachSession:
    """The input of a container's process, and its output from now on (stdout and stderr are one stream, as in its log)."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._parts: list[bytes] = []
        self._size = 0
        self._changed = asyncio.Event()
        process.listeners.add(self._receive)

    def _receive(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > _MAX_BUFFERED:  # the client does not read
            self._process.listeners.discard(self._receive)
        self._changed.set()

    async def write_input(self, data: bytes) -> None:
        """Write to the stdin of the container, if it has one."""
        await self._process.write_input(data)

    async def read_output(self, channel: int) -> bytes:
        """The next output; empty when the process has ended."""
        if channel != STDOUT:
            return b""
        while not self._parts and self._receive in self._process.listeners and not self._process.ended.is_set():
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            ended = asyncio.ensure_future(self._process.ended.wait())
            try:
                await asyncio.wait({changed, ended}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                ended.cancel()
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return data

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the container's terminal."""
        self._process.resize(columns, rows)

    async def wait(self) -> int:
        """Wait for the end of the process; attaching itself succeeded."""
        await self._process.ended.wait()
        return 0

    async def close(self) -> None:
        """Detach; the process continues."""
        self._process.listeners.discard(self._receive)
