"""The owner's process beside a SuperNode: answers its tasks, and runs nothing that it was sent.

    flower-supernode --superlink HOST:PORT --isolation process --port 9094 …   # Flower's
    python owner.py                                                            # calls `serve`

A SuperNode talks to the SuperLink; an *executor* process runs the app. Flower's executor unpacks
the app that the aggregator shipped (the FAB) and imports it, so that app decides what is sent.
`serve` takes its place: it fetches each message, gives it to the owner's app, and drops the FAB
unread. So the aggregator decides what is asked, and the owner's code alone decides what is
answered.

It uses functions of Flower that are not documented (flwr 1.41); tests/flower holds it to a real
SuperNode.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing

from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

log = logging.getLogger("pgc.device")
App = Callable[[Message, Context], Message]
ANSWERED = (TaskType.CLIENT_APP, TaskType.AGENT_APP)
"""Also what is meant for an agent is answered: the SuperNode waits for it without end."""
FAILED = "this node could not answer"
"""The text of every error that leaves: an exception's own text could hold private data."""


def serve(
    address: str,
    app: App,
    *,
    secret: bytes | None = None,
    pause: float = 0.2,
    running: Callable[[], bool] = lambda: True,
) -> None:
    """Answers the tasks of the SuperNode whose Runtime API has this address (host:port).

    The connection is not encrypted: SuperNode and this process are on one machine, on loopback.
    `secret` is that of the SuperNode's `--superexec-auth-secret-file`, so that no other process
    of the machine can take tasks. It asks again after `pause` seconds, while `running()`.
    """
    with closing(_connect(address, *_signed(secret))) as executor:
        while running():
            found = executor.AcquireTask(AcquireTaskRequest(supported_task_types=ANSWERED))
            if not found.HasField("task") or not found.token:
                time.sleep(pause)
                continue
            try:
                answer_task(address, found.token, app)
            except Exception:  # the run may have ended meanwhile; the next task is another matter
                log.exception("a task could not be answered")


def answer_task(address: str, token: str, app: App) -> None:
    """Answers one task of the SuperNode, which gave this token for it."""
    with closing(_connect(address, RuntimeTokenHttpInterceptor(token))) as client:
        beat = HeartbeatSender(make_task_heartbeat_fn_http(client))
        beat.start()
        try:
            message, context, _, _ = pull_task_input(client)  # the last one is the FAB
            try:
                answer = app(message, context)
            except Exception:
                log.exception("the owner's app failed")
                error = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, FAILED)
                answer = Message(error, reply_to=message)
            push_message(client, answer, context)
            push_task_output(client, None, SubStatus.COMPLETED, "")
        finally:
            beat.stop()


def _connect(address: str, *interceptors: ProtobufClientInterceptor) -> RuntimeHttpClient:
    version = RuntimeVersionHttpInterceptor(component_name="flwr-clientapp")
    return RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,
        root_certificates=None,
        interceptors=[version, *interceptors],
        retry_invoker=make_simple_http_retry_invoker(),
    )


def _signed(secret: bytes | None) -> list[ProtobufClientInterceptor]:
    if secret is None:
        return []
    protected = {"/flwr.proto.Runtime/AcquireTask"}
    return [SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=protected)]
