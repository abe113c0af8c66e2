"""Requests at a steady rate through the proxy of a booted machine, each of which must be answered.

    with SteadyLoad(machine) as load:       begins to ask, and to answer as the origin
        load.wait_for_answers(500)          so many more answers
        machine("systemctl restart …")
    load.check()

Half of the requests have a connection of their own, half go over kept connections. They are due at fixed times,
whatever became of those before: while the daemon is away they pile up and wait.

A kept connection may be closed between two requests (RFC 9112, 9.3), and its client then makes another one:
`reconnected`. If the request was on its way already and not a byte of an answer has come, a client may ask again
(9.3.1): `crossed`. Whatever else goes wrong is a lost request.
"""

import asyncio
import itertools
import re
import socket
import threading
import time

from booted import DEADLINE_SECONDS, Machine

RATE = 500
# Of the rate, what a machine that has other things to do must have come to.
LEAST_SHARE = 0.8
KEPT_CLIENTS = 20
ADDRESSES = (("127.0.0.1", 3128), ("::1", 3128))


class SteadyLoad:
    def __init__(self, machine: Machine, field: str = "X-Policy"):
        self.machine = machine
        self.field = field.lower()
        # By the number of the request: what the origin read in `field` of it.
        self.arrived: dict[int, str] = {}
        self.sent = self.answered = self.reconnected = self.crossed = 0
        # Why, by the number of the request.
        self.lost: dict[int, str] = {}
        self.seconds = 0.0
        self.authority = ""
        self.changed = threading.Condition()
        self.finished = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "SteadyLoad":
        self.thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self.finished.set()
        self.thread.join()

    def wait_for_answers(self, more: int) -> None:
        with self.changed:
            wanted = self.answered + more
            self.changed.wait_for(lambda: self.answered >= wanted or self.failure, DEADLINE_SECONDS)
            assert self.answered >= wanted, f"{self.answered} of {wanted} answers; {self.failure}, {self._some_lost}"

    def check(self) -> None:
        """Every request was answered, by its own answer, and there were as many as there should be."""
        assert self.failure is None, self.failure
        assert self.lost == {}, f"{len(self.lost)} of {self.sent} are lost: {self._some_lost}"
        assert self.answered == self.sent == len(self.arrived)
        assert self.sent >= LEAST_SHARE * RATE * self.seconds, f"{self.sent} in {self.seconds} s"

    @property
    def _some_lost(self) -> list[str]:
        return [f"{number}: {reason}" for number, reason in list(self.lost.items())[:5]]

    def _run(self) -> None:
        try:
            with self.machine.network():
                asyncio.run(self._ask_and_answer())
        except BaseException as failure:
            self.failure = failure
        with self.changed:
            self.changed.notify_all()

    async def _ask_and_answer(self) -> None:
        origin = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.authority = "127.0.0.1:%d" % origin.sockets[0].getsockname()[1]
        for_kept: asyncio.Queue[int | None] = asyncio.Queue()
        asking = {
            asyncio.create_task(self._ask_over_kept(for_kept, ADDRESSES[index % 2])) for index in range(KEPT_CLIENTS)
        }
        await self._begin_requests(for_kept, asking)
        for _ in range(KEPT_CLIENTS):
            for_kept.put_nowait(None)
        done, late = await asyncio.wait(asking, timeout=DEADLINE_SECONDS)
        for task in late:
            task.cancel()
        for task in done:
            task.result()
        origin.close()
        assert not late, f"{len(late)} clients wait for an answer long after the end"

    async def _begin_requests(self, for_kept: asyncio.Queue, asking: set[asyncio.Task]) -> None:
        begun = time.monotonic()
        for number in itertools.count():
            # The pace, which is what this is about; nothing is waited for.
            if (early := begun + number / RATE - time.monotonic()) > 0:
                await asyncio.sleep(early)
            if self.finished.is_set():
                break
            self.sent = number + 1
            if number % 2:
                for_kept.put_nowait(number)
            else:
                asking.add(asyncio.create_task(self._ask_once(number, ADDRESSES[number // 2 % 2])))
        self.seconds = time.monotonic() - begun

    # Clients

    async def _ask_once(self, number: int, address: tuple[str, int]) -> None:
        connection = Connection(address)
        try:
            await connection.open()
            self._judge(number, *await connection.exchange(self._request(number, "Connection: close\r\n")))
        except (OSError, Broken) as error:
            self.lost[number] = f"on a connection of its own, {error!r}"
        connection.close()

    async def _ask_over_kept(self, numbers: asyncio.Queue, address: tuple[str, int]) -> None:
        connection = Connection(address)
        while (number := await numbers.get()) is not None:
            if connection.is_used and connection.has_ended:
                self.reconnected += 1
                connection.close()
                connection = Connection(address)
            try:
                while not await self._ask_over(connection, number):
                    self.crossed += 1
                    connection.close()
                    connection = Connection(address)
            except (OSError, Broken) as error:
                self.lost[number] = f"on a kept connection, {error!r}"
                connection.close()
                connection = Connection(address)
        connection.close()

    async def _ask_over(self, connection: "Connection", number: int) -> bool:
        """False where the request and the end of a kept connection have crossed."""
        was_used = connection.is_used
        if not was_used:
            await connection.open()
        try:
            head, body = await connection.exchange(self._request(number))
        except Broken as error:
            if was_used and not error.received:
                return False
            raise
        self._judge(number, head, body)
        return True

    def _request(self, number: int, fields: str = "") -> bytes:
        return f"GET http://{self.authority}/{number} HTTP/1.1\r\nHost: {self.authority}\r\n{fields}\r\n".encode()

    def _judge(self, number: int, head: str, body: bytes) -> None:
        if head.startswith("HTTP/1.1 200 ") and body == b"%d" % number:
            with self.changed:
                self.answered += 1
                self.changed.notify_all()
        else:
            self.lost[number] = f"{head!r} {body!r}"

    # The origin

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Each request is answered with its own number."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                number = int(re.match(r"GET /(\d+) HTTP/1.1\r\n", head)[1])
                field = re.search(rf"^{self.field}: (.*)\r$", head, re.MULTILINE | re.IGNORECASE)
                self.arrived[number] = field[1] if field else ""
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%d" % (len(str(number)), number))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            # The last is the end of the whole load: a task that ends as cancelled would be logged as an error.
            writer.close()


class Broken(Exception):
    """The connection ended before a whole answer had come."""

    def __init__(self, received: bytes, how: str):
        super().__init__(f"{how} after {received!r}")
        self.received = received


class Connection:
    """One connection to the proxy."""

    def __init__(self, address: tuple[str, int]):
        self.address = address
        self.is_used = False
        # The proxy has said that it closes.
        self.is_last = False
        self.socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        self.socket.setblocking(False)

    async def open(self) -> None:
        await asyncio.get_running_loop().sock_connect(self.socket, self.address)
        self.is_used = True

    @property
    def has_ended(self) -> bool:
        if self.is_last:
            return True
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    async def exchange(self, request: bytes) -> tuple[str, bytes]:
        """The head and the body of the answer."""
        loop, received, whole = asyncio.get_running_loop(), b"", None
        try:
            await loop.sock_sendall(self.socket, request)
            while not (whole := whole_answer(received)):
                part = await loop.sock_recv(self.socket, 65536)
                if not part:
                    raise Broken(received, "closed")
                received += part
        except ConnectionError as error:
            raise Broken(received, repr(error)) from None
        self.is_last = "\r\nconnection: close\r\n" in whole[0].lower()
        return whole

    def close(self) -> None:
        self.socket.close()


def whole_answer(received: bytes) -> tuple[str, bytes] | None:
    """Head and body, once they are there. Every answer that this origin and the proxy make has a length."""
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        return None
    length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
    assert length, head
    return ((head + found).decode(), body) if len(body) >= int(length[1]) else None
