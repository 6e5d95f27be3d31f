"""pgc in NVIDIA FLARE: what a site's own privacy.json lets out, through FLARE's own code, and a run of its simulator."""

import json
import logging
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare")
from nvflare.apis.controller_spec import TaskCompletionStatus
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.executor import Executor
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FilterKey, ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import ReservedHeaderKey, Shareable
from nvflare.apis.signal import Signal
from nvflare.apis.workspace import Workspace
from nvflare.private.event import fire_event
from nvflare.private.fed.app.fl_conf import create_privacy_manager
from nvflare.private.fed.client.client_engine_executor_spec import TaskAssignment
from nvflare.private.fed.client.client_runner import ClientRunner, ClientRunnerConfig, TaskRouter
from nvflare.private.fed.utils.fed_utils import create_job_processing_context_properties
from nvflare.private.privacy_manager import PrivacyService
from pgc.mechanisms import make_mechanism

import pgc
from pgc.flare.site import DEVICE, OFFER, REFUSED, REPORT
from pgc.flare.workflow import OfferWorkflow
from tests.waiting import LIMIT

EXAMPLE = Path(__file__).parents[2] / "examples" / "flare" / "simulate.py"
write_site = runpy.run_path(str(EXAMPLE))["write_site"]
DIM, SECRET = 6, 0.123456789


@pytest.fixture(autouse=True)
def quiet():
    """A site's device keeps pgc's log lines to itself; other tests want to read them."""
    yield
    logging.getLogger("pgc").propagate = True


class Engine:
    """What filters and executors ask of FLARE's engine."""

    def __init__(self, components):
        self.components = components

    def get_component(self, name):
        return self.components.get(name)

    def register_aux_message_handler(self, **_):
        pass

    def fire_event(self, event_type, fl_ctx):
        fire_event(event_type, self.handlers, fl_ctx)


class Trains(Executor):
    """A job's executor, which returns all it knows, and does `more` to what it can reach."""

    def __init__(self, made=None, more=lambda shareable, fl_ctx: None):
        super().__init__()
        self.made, self.more, self.calls = made, more, 0

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        self.calls += 1
        self.seen = dict(shareable)
        self.more(shareable, fl_ctx)
        if self.made is not None:
            return self.made
        dxo = DXO(
            DataKind.WEIGHT_DIFF,
            {"gradient": np.full(DIM, SECRET), "loss": SECRET},
            {"secret": SECRET},
        )
        result = dxo.to_shareable()
        result["more"] = SECRET
        result.set_header("header", SECRET)
        return result


class Site:
    """A site as FLARE sets one up: privacy.json on disk, and the runner that applies it."""

    def __init__(
        self, folder, epsilon=1.0, reserve=True, executor=None, job=None, scope="", handlers=()
    ):
        self.workspace_dir = folder / "site"
        ledger = folder / "ledger.db"
        if not ledger.exists():
            pgc.Device.create(ledger, epsilon)
        write_site(self.workspace_dir / "local", ledger=str(ledger), player=None, reserve=reserve)
        (self.workspace_dir / "startup").mkdir(exist_ok=True)
        self.workspace = Workspace(str(self.workspace_dir), "site-1")
        run = self.workspace.get_run_dir("job")
        os.makedirs(run, exist_ok=True)
        with open(self.workspace.get_job_meta_path("job"), "w") as file:
            json.dump({"scope": scope}, file)
        manager = create_privacy_manager(self.workspace, names_only=False)
        PrivacyService.initialize(manager)
        self.executor = executor or Trains()
        router = TaskRouter()
        router.add_executor(["pgc"], self.executor)
        config = ClientRunnerConfig(router, {}, job or {}, handlers=list(handlers))
        for name, component in manager.components.items():  # as ClientAppRunner does
            config.add_component(name, component)
        self.engine = Engine(config.components)
        self.device = config.components[DEVICE]
        self.engine.handlers = config.handlers
        self.runner = ClientRunner({}, config, "job", self.engine)

    def context(self):
        made = FLContextManager(
            engine=self.engine, identity_name="site-1", job_id="job"
        ).new_context()
        for key, value in create_job_processing_context_properties(self.workspace, "job").items():
            made.set_prop(key, value, private=True, sticky=False)
        peer = FLContext()
        peer.set_prop(ReservedKey.RUN_NUM, "job", private=False)
        made.set_peer_context(peer)
        return made

    def does(self, offer, **more):
        data = Shareable()
        data[OFFER] = offer
        data.update(more)
        return self.runner._process_task(TaskAssignment("pgc", "task", data), self.context())


def offer(number=1, epsilon=1.0):
    mechanism = make_mechanism("index", dim=DIM, epsilon=epsilon, clip=1.0)
    return pgc.Offer(
        offer_id=number,
        policy_version=1,
        query=pgc.Query.of(mechanism),
        theta=np.zeros(DIM, np.float32),
    ).encode()


def flat(value):
    """Everything in a result, as FLARE would send it."""
    return value.to_bytes()


FRAMEWORK = {ReservedHeaderKey.TASK_NAME, ReservedHeaderKey.TASK_ID, ReservedKey.AUDIT_EVENT_ID}


def test_nothing_leaves_but_the_report(tmp_path):
    site, asked = Site(tmp_path), offer()
    result = site.does(asked)
    assert set(result) == {REPORT, "__headers__"} and set(result["__headers__"]) <= FRAMEWORK
    assert len(result[REPORT]) == 14
    pgc.Report.decode(result[REPORT], pgc.Offer.decode(asked))
    assert site.device.device(site.context()).balance.left == 0


def test_the_same_offer_gets_the_same_bytes_also_from_another_process(tmp_path):
    asked = offer()
    first = Site(tmp_path).does(asked)[REPORT]
    again = Site(tmp_path, executor=Trains(made=Shareable())).does(
        asked
    )  # a new runner: the process was restarted
    assert again[REPORT] == first


def test_a_site_that_is_spent_refuses_and_says_so(tmp_path):
    site = Site(tmp_path)
    site.does(offer(1))
    result = site.does(offer(2))
    assert set(result) == {REFUSED, "__headers__"} and "left" in result[REFUSED]


@pytest.mark.parametrize(
    "made",
    [
        Shareable(),
        DXO(DataKind.METRICS, {"loss": SECRET}).to_shareable(),
        Shareable({"DXO": SECRET}),
        DXO(DataKind.WEIGHT_DIFF, {"gradient": "no"}).to_shareable(),
    ],
)
def test_a_result_without_a_gradient_is_answered_and_paid_for_all_the_same(tmp_path, made):
    made.set_return_code(ReturnCode.EXECUTION_EXCEPTION)
    site = Site(tmp_path, executor=Trains(made=made))
    result = site.does(offer())
    assert set(result) == {REPORT, "__headers__"} and set(result["__headers__"]) <= FRAMEWORK
    assert site.device.device(site.context()).balance.left == 0


def test_a_task_without_an_offer_never_reaches_the_executor(tmp_path):
    site = Site(tmp_path)
    for wrong in (None, "text", 7):
        result = site.does(wrong, weights=np.ones(3))
        assert result.get_return_code() == ReturnCode.TASK_DATA_FILTER_ERROR and set(result) == {
            "__headers__"
        }
    assert not site.executor.calls
    assert (
        site.does(b"nonsense")[REFUSED] and site.executor.calls
    )  # bytes that are no offer are refused by the device


def test_the_executor_sees_the_offer_alone(tmp_path):
    site = Site(tmp_path)
    site.does(offer(), hint="which home to look at")
    assert set(site.executor.seen) == {OFFER, "__headers__"}


def test_what_is_reserved_is_paid_for_even_if_training_raises(tmp_path):
    """FLARE applies no result filter then: a return code leaves, which is why AnswerOffers, which never raises, is better."""

    def fails(*_):
        raise ValueError("a home on fire")

    site = Site(tmp_path, executor=Trains(more=fails))
    result = site.does(offer())
    assert result.get_return_code() == ReturnCode.EXECUTION_EXCEPTION and set(result) == {
        "__headers__"
    }
    assert b"fire" not in flat(result)
    assert site.device.device(site.context()).balance.left == 0


def test_the_owner_s_scope_is_applied_whatever_the_job_s_filters_are_but_before_them(tmp_path):
    """A trap of FLARE: a job's own filters come after the owner's. So the owner must not run a job's code."""
    seen = []

    class Adds(Filter):
        def process(self, shareable, fl_ctx):
            seen.append(set(shareable))
            shareable["smuggled"] = SECRET
            return shareable

    result = Site(tmp_path, job={"pgc" + FilterKey.DELIMITER + FilterKey.OUT: [Adds()]}).does(
        offer()
    )
    assert seen == [{REPORT, "__headers__"}] and result["smuggled"] == SECRET


def test_an_executor_can_send_a_cookie_past_every_filter(tmp_path):
    """A trap of FLARE: the cookie jar of the task's data is copied into the result after the filters."""

    def cookie(shareable, fl_ctx):
        shareable.add_cookie("secret", SECRET)

    result = Site(tmp_path, executor=Trains(more=cookie)).does(offer())
    assert result.get_cookie("secret") == SECRET


@pytest.mark.parametrize(("scope", "gated"), [("", True), ("pgc", True), ("elsewhere", False)])
def test_a_scope_that_the_owner_does_not_have_is_refused_when_a_job_is_deployed(
    tmp_path, scope, gated
):
    site = Site(tmp_path, scope=scope)
    assert PrivacyService.is_scope_allowed(scope) == gated
    result = site.does(offer())
    assert (
        set(result) == {REPORT, "__headers__"}
    ) == gated  # deployed by force, it would have no filter at all


def test_a_job_that_brings_a_device_of_its_own_does_not_start(tmp_path):
    config = ClientRunnerConfig(TaskRouter(), {}, {}, components={DEVICE: object()})
    with pytest.raises(ValueError, match="duplicate component id"):
        config.add_component(DEVICE, object())


def test_what_pgc_logs_on_a_site_does_not_reach_the_jobs_log(tmp_path, caplog):
    """FLARE can stream it to the server, and the words of a world that raises are private."""
    site = Site(tmp_path)
    site.does(offer())
    assert not logging.getLogger("pgc").propagate
    logging.getLogger("pgc.device").error("a home on fire")
    assert "fire" not in caplog.text


class Taker:
    """FLARE's engine and tasks, as far as OfferWorkflow uses them: one site, whose answers are given."""

    def __init__(self, workflow, answers):
        self.offers, self._answers, self.client = [], answers, type("C", (), {"name": "site-1"})()
        workflow.send = self.send
        workflow.cancel_all_tasks = workflow.log_info = lambda *_, **__: None

    def get_engine(self):
        return self

    def get_clients(self):
        return [self.client]

    def send(self, task, fl_ctx, targets):
        self.offers.append(task.data[OFFER])
        answer = self._answers(task.data[OFFER])
        if answer is None:  # a site that vanished: FLARE ends the task after its timeout
            assert task.timeout == 60
            task.completion_status = TaskCompletionStatus.TIMEOUT
        else:
            result = Shareable()
            result[REPORT] = answer
            task.completion_status = TaskCompletionStatus.OK
            task.result_received_cb(type("T", (), {"result": result})(), fl_ctx)
        task.task_done_cb(task, fl_ctx)


def workflow(folder, answers, reports):
    """Runs a workflow, and returns the offers that it sent."""
    settings = dict(own_policy=DIM, mechanism="index", epsilon=1.0, buffer_size=2)
    made = OfferWorkflow(settings, reports, str(folder / "policy.safetensors"), patience=60)
    made.start_controller(FLContext())
    taker = Taker(made, answers)
    made.control_flow(Signal(), taker)
    assert (folder / "policy.safetensors").exists()
    return taker.offers


def test_two_jobs_never_use_the_same_number_for_an_offer(tmp_path):
    """A site's ledger outlives a job: it refuses another offer of a number that it has answered."""
    device = pgc.Device.create(tmp_path / "ledger.db", 4.0)

    def answers(asked):
        made = device.release(asked, np.ones(DIM))
        assert isinstance(made, bytes), made
        return made

    sent = [
        pgc.Offer.decode(one) for _ in range(2) for one in workflow(tmp_path, answers, reports=2)
    ]
    assert len({offer.offer_id for offer in sent}) == 4 and device.balance.left == 0
    assert all(offer.expires_at > 0 for offer in sent)


def test_a_site_that_vanishes_does_not_keep_the_workflow(tmp_path):
    assert len(workflow(tmp_path, lambda asked: None, reports=2)) == 1


@pytest.mark.more
def test_a_policy_is_learnt_in_flares_simulator(tmp_path):
    run = [sys.executable, EXAMPLE, tmp_path / "sim", "--sites", "2", "--reports", "40"]
    made = subprocess.run(run, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert made.returncode == 0, made.stderr[-3000:]
    done = json.loads((tmp_path / "sim" / "done.json").read_text())
    assert sum(done["spent"]) == 40.0 and done["score"] > 100
