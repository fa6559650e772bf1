"""Which calibration answers, and calibrations as documents."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.calibration.cluster import all_jobs, reports
from vramgate.calibration.calibrate import calibrate
from vramgate.calibration.calibration import FOLK_MARGIN, Calibration, Remark
from vramgate.calibration.distribution import FOLK
from vramgate.calibration.documents import calibration_document, read_calibration
from vramgate.calibration.labels import Label
from vramgate.calibration.versions import factory_calibration, factory_text, find_calibration
from vramgate.cli.main import cli
from vramgate.costmodel.terms import Term
from vramgate.errors import UnknownNameError


@pytest.mark.parametrize("name", ["active", "none"])
def test_none_is_active_yet(name: str) -> None:
    assert find_calibration(name) is None


def test_the_factory_calibration_is_found_by_its_name() -> None:
    factory = factory_calibration()
    assert find_calibration(factory.version) is factory
    assert factory.version.startswith("factory-")


def test_an_unknown_calibration_is_refused_and_the_known_are_named() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_calibration("2026-11-29")
    assert caught.value.fields[0].pointer == "/calibration"
    assert caught.value.data["suggestions"] == ("active", "none", factory_calibration().version)
    assert factory_calibration().version in caught.value.hint


def test_a_calibration_survives_its_document() -> None:
    made = calibrate(reports(400, np.random.default_rng(7)), version="v")
    assert made.remarks
    document = json.loads(json.dumps(calibration_document(made)))
    assert read_calibration(document, version="v") == made


def test_a_document_is_read_as_its_text_says() -> None:
    factory = factory_calibration()
    document = calibration_document(factory)
    assert json.loads(factory_text(document)) == document
    assert read_calibration(document, version=factory.version) == factory


def test_the_factory_file_is_one_effect_a_line() -> None:
    lines = factory_text(calibration_document(factory_calibration())).splitlines()
    assert sum(line.startswith('{"term"') for line in lines) == len(factory_calibration().effects)


def test_factors_are_products_of_effects() -> None:
    factory = factory_calibration()
    labels = {**dict.fromkeys(Label, "nothing like it"), Label.FRAMEWORK: "transformers"}
    logs = [
        one.log
        for one in factory.effects
        if one.key.term is Term.ACTIVATIONS
        and all(
            labels[label] == said for label, said in zip(one.key.level, one.key.values, strict=True)
        )
    ]
    assert len(logs) >= 2
    assert factory.factors_for(labels).get(Term.ACTIVATIONS, 1.0) == pytest.approx(
        float(np.exp(sum(logs))), abs=1e-6
    )


def test_a_framework_that_nobody_measured_keeps_the_folk_margin_at_least() -> None:
    labels = dict.fromkeys(Label, "nothing like it")
    margin = factory_calibration().margin_for(labels)
    assert margin.segment.endswith("and the folk rule")
    for risk in (0.2, 0.05, 0.01, 0.001):
        assert margin.distribution.quantile(risk) >= FOLK.quantile(risk)


def test_without_margins_the_folk_rule_holds() -> None:
    bare = Calibration(
        version="v",
        model_version="m",
        runs=1,
        effects=(),
        margins=(),
        remarks=(Remark(code="no_margin", message="None."),),
    )
    labels = all_jobs()[0].configuration.labels
    assert bare.margin_for(labels) is FOLK_MARGIN
    assert bare.factors_for(labels) == {}


def test_margins_are_of_the_narrowest_segment_with_reports_enough() -> None:
    made = calibrate(reports(3_000, np.random.default_rng(7)), version="v")
    names = {one.name for one in made.margins}
    for job in all_jobs()[::50]:
        margin = made.margin_for(job.configuration.labels)
        assert margin.segment in names
        assert margin.reports >= 99


@pytest.mark.slow
def test_the_factory_calibration_is_made_again_to_the_digit(tmp_path: Path) -> None:
    again = CliRunner().invoke(cli, ["calibrate", "--factory", "--check"])
    assert again.exit_code == 0, again.output
    file = tmp_path / "factory.json"
    assert CliRunner().invoke(cli, ["calibrate", "--factory", "--output", str(file)]).exit_code == 0
    shipped = factory_text(calibration_document(factory_calibration()))
    assert file.read_text("utf-8") == shipped


def test_what_to_fit_must_be_said() -> None:
    refused = CliRunner().invoke(cli, ["calibrate"])
    assert refused.exit_code != 0
