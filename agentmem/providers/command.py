"""Language models behind a program: `command:PROGRAM ARGS...`, whatever it may be that answers."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from contextlib import suppress

from agentmem.errors import BadReply, Closed, ConfigError, ModelUnavailable
from agentmem.providers import LLM, LLMOptions, LLMReply, LLMRequest, estimated_tokens

LONGEST_REPLY = 1_000_000
"""Bytes of standard output that are taken; a program that writes more is stopped."""

COMPLAINT = 200
"""Characters shown of the first line that a failing program wrote to standard error."""

_KEPT_COMPLAINT = 4_096
_OUTPUT, _ERRORS = 1, 2


def llm(model: str, options: LLMOptions) -> LLM:
    """Take a command line as a model. Raises ConfigError when it is empty or its quotes do not match."""
    try:
        words = shlex.split(model)
    except ValueError as error:
        raise ConfigError(f"llm command: the command line cannot be read ({error})") from error
    if not words:
        raise ConfigError("llm command: name the program, as in 'command:python3 answer.py'")
    return CommandLLM(model, words, options)


class CommandLLM:
    """See `LLM`. The program is started anew for each request, without a shell, and asked once.

    It gets one JSON object on standard input, with the fields of `LLMRequest`, and writes the text of the reply to
    standard output. Its tokens are not counted but estimated, four characters each.
    """

    def __init__(self, line: str, words: list[str], options: LLMOptions) -> None:
        self.identity = f"command:{line}"
        self._words = words
        self._timeout = options.timeout
        self._closed = False

    def __repr__(self) -> str:
        return f"CommandLLM({self.identity!r})"

    async def complete(self, request: LLMRequest) -> LLMReply:
        """See `LLM.complete`. Raises ModelUnavailable for a program that fails or is too slow, ConfigError for none.

        At the time limit, and when the caller gives up, the program is killed with all that it started in its group.
        """
        if self._closed:
            raise Closed("the language model was closed")
        text = self._read(*await self._run(_written(request)), request)
        return LLMReply(
            text=text,
            input_tokens=estimated_tokens(request.system + request.content),
            cached_tokens=0,
            output_tokens=estimated_tokens(text),
            model=self.identity.partition(":")[2],
        )

    async def close(self) -> None:
        """Take no more requests; those under way are finished."""
        self._closed = True

    async def _run(self, written: bytes) -> tuple[int, bytes, bytes]:
        """The program's exit code, standard output and the beginning of standard error."""
        loop = asyncio.get_running_loop()
        try:
            # A group of its own, so that what the program starts can be stopped with it.
            transport, talk = await loop.subprocess_exec(_Talk, *self._words, start_new_session=True)
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            raise ConfigError(f"{self.identity}: cannot be started ({error.strerror})") from error
        except (OSError, ValueError) as error:
            raise ModelUnavailable(f"{self.identity}: cannot be started ({error})") from error
        try:
            talk.say(transport, written)
            async with asyncio.timeout(self._timeout):
                await talk.finished.wait()
        except TimeoutError:
            raise ModelUnavailable(f"{self.identity}: no answer within {self._timeout:g} s") from None
        finally:
            if not talk.over:
                with suppress(ProcessLookupError):
                    os.killpg(transport.get_pid(), signal.SIGKILL)
            try:
                await talk.exited.wait()
            finally:
                transport.close()  # not before: it would take the exit code that the loop waits for
        return transport.get_returncode() or 0, bytes(talk.output), bytes(talk.errors)

    def _read(self, code: int, output: bytes, errors: bytes, request: LLMRequest) -> str:
        what = f"{self.identity}: {request.purpose}:"
        if len(output) > LONGEST_REPLY:
            raise BadReply(f"{what} the reply is longer than {LONGEST_REPLY:,} bytes")
        if code:
            lines = errors.decode("utf-8", "replace").strip().splitlines()
            ended = f"ended with code {code}" if code > 0 else f"was ended by signal {-code}"
            raise ModelUnavailable(": ".join([f"{self.identity} {ended}", *(line[:COMPLAINT] for line in lines[:1])]))
        try:
            text = output.decode()
        except UnicodeDecodeError as error:
            raise BadReply(f"{what} the reply is not UTF-8 (byte {error.start})") from None
        if not text.strip():
            raise BadReply(f"{what} the reply was empty")
        return text


class _Talk(asyncio.SubprocessProtocol):
    """Takes what a program writes, up to the bounds. `over` once it has exited and its pipes are closed."""

    def __init__(self) -> None:
        self.output, self.errors = bytearray(), bytearray()
        self.over = False
        self.exited = asyncio.Event()
        self.finished = asyncio.Event()  # over, or so much was written that nobody needs the rest

    def say(self, transport: asyncio.SubprocessTransport, written: bytes) -> None:
        pipe = transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        pipe.write(written)
        pipe.close()  # after what is still to be written

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, bytes)
        if fd == _OUTPUT:
            self.output += data
            if len(self.output) > LONGEST_REPLY:
                self.finished.set()
        elif fd == _ERRORS and len(self.errors) < _KEPT_COMPLAINT:
            self.errors += data

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, _: Exception | None) -> None:
        self.over = True
        self.finished.set()


def _written(request: LLMRequest) -> bytes:
    names = ("purpose", "system", "content", "max_tokens", "temperature")
    schema = None if request.schema is None else dict(request.schema)
    return json.dumps({**{name: getattr(request, name) for name in names}, "schema": schema}).encode()
