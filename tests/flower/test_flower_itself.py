"""What Flower's LocalDpMod does, so that what docs/flower.md says about it stays true."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp.mod import LocalDpMod


def through(after, context, *, before=None, seed=None):
    before = [np.zeros_like(x) for x in after] if before is None else before

    def app(message, context):
        if seed is not None:
            np.random.seed(seed)
        arrays = ArrayRecord({str(i): Array(x) for i, x in enumerate(after)})
        content = {"arrays": arrays, "metrics": MetricRecord({"secret": 9.7})}
        return Message(RecordDict(content), reply_to=message)

    arrays = ArrayRecord({str(i): Array(x) for i, x in enumerate(before)})
    asked = Message(RecordDict({"arrays": arrays}), 1, "train")
    mod = LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=1.0, delta=1e-5)
    return mod(asked, context, app).content


def test_it_leaves_single_numbers_as_they_are(context):
    sent = through([np.ones(3, np.float32), np.array(1234.5, np.float32)], context)
    assert sent["arrays"]["1"].numpy() == 1234.5


def test_it_leaves_metrics_as_they_are(context):
    assert through([np.ones(3, np.float32)], context)["metrics"]["secret"] == 9.7


def test_its_noise_can_be_predicted_by_an_app_that_seeds_numpy(context):
    once, again = (through([np.ones(3, np.float32)], context, seed=1) for _ in range(2))
    assert np.array_equal(once["arrays"]["0"].numpy(), again["arrays"]["0"].numpy())


def test_it_raises_when_nothing_changed(context):
    with pytest.raises(ZeroDivisionError):
        through([np.zeros(3, np.float32)], context)


def test_it_clips_nothing_where_one_number_is_not_a_number(context):
    sent = through([np.array([np.nan, 1e6, 0], np.float32)], context)
    assert sent["arrays"]["0"].numpy()[1] == pytest.approx(1e6, abs=50)


def test_its_noise_is_that_of_a_sensitivity_c_and_two_updates_differ_by_2c(context):
    updates = [np.array([sign * 10.0, 0, 0], np.float32) for sign in (1, -1)]
    sent = [
        np.mean([through([x], context, seed=s)["arrays"]["0"].numpy() for s in range(50)], axis=0)
        for x in updates
    ]
    assert np.linalg.norm(sent[0] - sent[1]) == pytest.approx(2.0, abs=1e-4)
