from tests.reporter.standin import StandIn
from tests.reporter.test_disclosure import FakeArguments, FakeModel
from tests.reporter.test_session import Meter
from vramgate.reporter import report_peaks
from vramgate.reporter.callbacks.transformers import TransformersHooks

NOTHING = object()


def _began(service: StandIn) -> TransformersHooks:
    hooks = TransformersHooks(run_id="r", url=service.url, memory=Meter(5))
    hooks.on_train_begin(FakeArguments(), NOTHING, NOTHING, model=FakeModel())
    return hooks


def test_a_training_that_begins_again_without_an_end_did_not_complete(service: StandIn) -> None:
    # As auto_find_batch_size does it: the error is caught, and a smaller batch is tried.
    hooks = _began(service)
    hooks.on_train_begin(FakeArguments(), NOTHING, NOTHING, model=FakeModel())
    hooks.on_train_end(FakeArguments(), NOTHING, NOTHING)
    told = [(report["run_id"], report["outcome"]) for report in service.wait_for(2)]
    assert told == [("r", "killed"), ("r-2", "completed")]


def test_a_callback_leaves_the_end_to_the_block_it_joined(service: StandIn) -> None:
    with report_peaks("block", url=service.url, memory=Meter(9)) as peaks:
        hooks = _began(service)
        assert hooks.reporter is peaks
        hooks.on_train_end(FakeArguments(), NOTHING, NOTHING)
        assert service.requests == 0
    (report,) = service.wait_for(1)
    assert report["run_id"] == "block"
    assert report["launch"]["config"]["per_device_train_batch_size"] == 4


def test_a_job_that_somebody_described_is_not_described_again(service: StandIn) -> None:
    job = {"model": {"name": "gpt2"}}
    with report_peaks("block", job=job, url=service.url, memory=Meter(9)):
        _began(service)
    (report,) = service.wait_for(1)
    assert report["job"] == job
    assert "launch" not in report
