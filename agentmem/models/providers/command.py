"""Language models behind a program: `command:PROGRAM ARGS...`, whatever it may be that answers.

The command line may hold secrets, and what the program writes to standard error may hold the user's words. So errors
name the program's file alone, and say how it ended and how much it wrote.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from agentmem.core.redaction import failure_reason
from agentmem.errors import Closed, ConfigError, InvalidModelOutput, ModelUnavailable
from agentmem.models.protocols import LLM, LOG_HINT, MAX_REPLY_BYTES, LLMOptions, LLMReply, LLMRequest, log_model_error
from agentmem.text.tokenizer import estimate_tokens

"""Bytes of standard output that are taken; a program that writes more is stopped."""

MAX_ERROR_BYTES = 4_096
"""Bytes of standard error that are kept, for the log of those who switched it on."""

_FALLBACK_DIR = Path("/")
_STDOUT_FD, _STDERR_FD = 1, 2


def llm(model: str, options: LLMOptions) -> LLM:
    """Take a command line as a model. Raises ConfigError when it is empty or its quotes do not match."""
    try:
        words = shlex.split(model)
    except ValueError as error:  # in words of its own: "No closing quotation"
        raise ConfigError(f"llm command: the command line cannot be read ({error})") from None
    if not words:
        raise ConfigError("llm command: name the program, as in 'command:python3 /path/to/answer.py'")
    return CommandLLM(words, options)


def find_program(name: str) -> str | None:
    """The absolute path of a program: `name` itself, or found in the absolute folders of PATH. None for no such file.

    Relative names and folders are passed over, because the working directory may be somebody else's.
    """
    expanded = os.path.expanduser(name)
    if "/" in expanded:
        return shutil.which(expanded) if expanded.startswith("/") else None
    return shutil.which(expanded, path=os.pathsep.join(filter(os.path.isabs, os.get_exec_path())))


class CommandLLM:
    """See `LLM`. The program is started anew for each request, without a shell, and asked once.

    It gets one JSON object on standard input, with the fields of `LLMRequest`, and writes the text of the reply to
    standard output. It works in the folder of the memory. Its tokens are estimated, four characters each.
    """

    def __init__(self, command: list[str], options: LLMOptions) -> None:
        self._program = find_program(command[0])
        self._arguments = command[1:]
        self._options = options
        self._closed = False

    @property
    def identity(self) -> str:
        """`command:` with the name of the program's file, without its arguments."""
        return f"command:{Path(self._program).name}" if self._program else "command"

    def __repr__(self) -> str:
        return f"CommandLLM({self.identity!r})"

    async def complete(self, request: LLMRequest) -> LLMReply:
        """See `LLM.complete`. Raises ModelUnavailable for a program that fails or is too slow, ConfigError for none.

        At the time limit, and when the caller gives up, the program is killed with all that it started in its group.
        """
        if self._closed:
            raise Closed("the language model was closed")
        text = self._parse_reply(*await self._run(_encode_request(request)), request)
        return LLMReply(
            text=text,
            input_tokens=estimate_tokens(request.system + request.content),
            cached_tokens=0,
            output_tokens=estimate_tokens(text),
            model=self.identity.partition(":")[2],
        )

    async def close(self) -> None:
        """Take no more requests; those under way are finished."""
        self._closed = True

    async def _start(self) -> tuple[asyncio.SubprocessTransport, _ProcessOutput]:
        if self._program is None:
            raise ConfigError(
                "llm command: the program cannot be started: there is no such executable file; "
                "name it by its absolute path, or as it stands in an absolute folder of PATH"
            )
        folder = self._options.work_dir
        try:
            # A group of its own, so that what the program starts can be stopped with it.
            return await asyncio.get_running_loop().subprocess_exec(
                _ProcessOutput,
                self._program,
                *self._arguments,
                start_new_session=True,
                cwd=folder if folder is not None and folder.is_dir() else _FALLBACK_DIR,
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            raise ConfigError(f"{self.identity}: cannot be started ({failure_reason(error)})") from None
        except (OSError, ValueError) as error:
            raise ModelUnavailable(f"{self.identity}: cannot be started ({failure_reason(error)})") from None

    async def _run(self, stdin: bytes) -> tuple[int, bytes, _ProcessOutput]:
        """The program's exit code, standard output, and what else is known of its run."""
        transport, talk = await self._start()
        try:
            talk.write_stdin(transport, stdin)
            async with asyncio.timeout(self._options.timeout):
                await talk.finished.wait()
        except TimeoutError:
            raise ModelUnavailable(
                f"{self.identity}: no answer within {self._options.timeout:g} s; the setting llm_timeout allows more"
            ) from None
        finally:
            if not talk.is_closed:
                with suppress(ProcessLookupError):
                    os.killpg(transport.get_pid(), signal.SIGKILL)
            try:
                await talk.exited.wait()
            finally:
                transport.close()  # not before: it would take the exit code that the loop waits for
        return transport.get_returncode() or 0, bytes(talk.stdout), talk

    def _parse_reply(self, exit_code: int, stdout: bytes, process_output: _ProcessOutput, request: LLMRequest) -> str:
        what = f"{self.identity}: {request.purpose}:"
        if len(stdout) > MAX_REPLY_BYTES:
            raise InvalidModelOutput(f"{what} the reply is longer than {MAX_REPLY_BYTES:,} bytes")
        if exit_code:
            log_model_error(self._options, self.identity, process_output.stderr.decode("utf-8", "replace"))
            ended = f"ended with code {exit_code}" if exit_code > 0 else f"was ended by signal {-exit_code}"
            hint = (
                f"; {LOG_HINT} its {process_output.stderr_bytes:,} bytes of standard error"
                if process_output.stderr_bytes
                else ""
            )
            raise ModelUnavailable(f"{self.identity} {ended}{hint}")
        try:
            text = stdout.decode()
        except UnicodeDecodeError as error:
            raise InvalidModelOutput(f"{what} the reply is not UTF-8 (byte {error.start})") from None
        if not text.strip():
            raise InvalidModelOutput(f"{what} the reply was empty")
        return text


class _ProcessOutput(asyncio.SubprocessProtocol):
    """Takes what a program writes, up to the bounds. `is_closed` once it has exited and its pipes are closed."""

    def __init__(self) -> None:
        self.stdout, self.stderr, self.stderr_bytes = bytearray(), bytearray(), 0
        self.is_closed = False
        self.exited = asyncio.Event()
        self.finished = asyncio.Event()  # over, or the rest of a long output is not needed

    def write_stdin(self, transport: asyncio.SubprocessTransport, data: bytes) -> None:
        pipe = transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        pipe.write(data)
        pipe.close()  # after what is still to be written

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, bytes)
        if fd == _STDOUT_FD:
            self.stdout += data
            if len(self.stdout) > MAX_REPLY_BYTES:
                self.finished.set()
        elif fd == _STDERR_FD:
            self.stderr_bytes += len(data)
            self.stderr += data[: MAX_ERROR_BYTES - len(self.stderr)]

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, _: Exception | None) -> None:
        self.is_closed = True
        self.finished.set()


def _encode_request(request: LLMRequest) -> bytes:
    names = ("purpose", "system", "content", "max_tokens", "temperature")
    schema = None if request.schema is None else dict(request.schema)
    return json.dumps({**{name: getattr(request, name) for name in names}, "schema": schema}).encode()
