"""The stage of a run after its training: the model that is kept is calibrated."""

from __future__ import annotations

from ttf.errors import StorageError
from ttf.machine.memory.allocator import give_back
from ttf.rundir.calibration_facts import CalibrationFacts
from ttf.rundir.confined import found_json
from ttf.rundir.disk_retry import StorageRetry
from ttf.rundir.documents import MODEL_CONFIG, ModelFacts
from ttf.rundir.flight_record import Phase
from ttf.rundir.typed_json import typed
from ttf.training.auto_device_options import SETTLED
from ttf.training.calibration import stored
from ttf.training.calibration.calibrate import Subject, calibrate, store
from ttf.training.documents import Corrected
from ttf.training.evaluation import evaluate
from ttf.training.session import Session
from ttf.training.team import OthersFailed
from ttf.training.towers import load_model

ENABLED = "calibrate.enabled"


def calibrate_kept_model(session: Session, step: int) -> None:
    """Writes the calibration beside the model that the run ends with, or why there is none. A
    resumed run goes on with it."""
    weights = _weights(session)
    if not session.config.calibrate.enabled:
        origin = session.decided.resolved.origins.get(ENABLED, "")
        if origin.startswith(SETTLED):
            _write(session, _off(weights, origin.removeprefix(SETTLED)))
        return
    session.link.flight.enter(Phase.CALIBRATE, step)
    session.data.check_unchanged()
    retry = StorageRetry(
        session.config.checkpoint.retry_s,
        say=session.reporter.note,
        check_stop=session.link.check_stop,
        title="THE MODEL CANNOT BE CALIBRATED YET",
    )
    while True:
        try:
            return _calibrated(session, weights)
        except OthersFailed as error:
            session.reporter.note(str(error))
        except StorageError as error:
            retry.wait_or_raise(error)


def _weights(session: Session) -> str:
    found = typed(found_json(session.folder.model / MODEL_CONFIG, session.folder.path), ModelFacts)
    return found.get("weights_sha256", "")


def _off(weights: str, why: str) -> CalibrationFacts:
    return {"on": False, "why": why, "weights_sha256": weights}


def _write(session: Session, facts: CalibrationFacts) -> None:
    stored.save_facts(session.folder.model, facts)
    if facts["on"]:
        session.reporter.note(
            f"The model is calibrated for hubs, with a = {facts['a']:g}: on {facts['held_out']:,} "
            f"held-out training pairs the discounted gain rises by {facts['gain']:.4f}."
        )
    else:
        session.reporter.note(f"The model is not calibrated for hubs: {facts['why']}.")


def _calibrated(session: Session, weights: str) -> None:
    policy, decided, data = session.policy, session.decided, session.data
    # The parts hold the last weights; the model that is kept may be an earlier one.
    model = load_model(session.folder.model).to(policy.torch_device())
    session.parts.tables.attach(model)
    documents = session.parts.documents.seen_by(model, policy)
    subject = Subject(
        folder=session.folder,
        model=model,
        weights_sha256=weights,
        documents=documents,
        bank=data.bank,
        policy=policy,
        precision=decided.precision,
        micro_batch=decided.plan.micro_batch,
        seed=decided.config.train.seed,
        settings=decided.config.calibrate,
        keeps=session.link.flight.keeps,
        team=session.team,
    )
    result, work = calibrate(subject, data.train, session.reporter, session.advance)
    facts = result.facts
    if result.found is not None:
        session.team.stage("calibration to store", lambda: store(subject, result))
        corrected = Corrected(documents, result.found.column)
        del result  # the sampled queries
        give_back()
        session.reporter.stage("evaluate", documents.rows)
        facts["metrics"] = evaluate(
            model,
            data.val,
            corrected,
            policy,
            decided.precision,
            decided.plan.micro_batch,
            decided.config.evaluate.k,
            progress=session.advance,
            team=session.team,
        )
        give_back()
    data.check_unchanged()
    session.team.stage("calibration facts", lambda: _write(session, facts))
    work.clear()
    session.link.flight.keeps(0)
