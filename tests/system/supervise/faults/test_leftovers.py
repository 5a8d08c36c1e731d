"""What a disk that lies or fails once leaves in a run's folder is mended, by the run or by resume."""

from __future__ import annotations

import shutil

import pytest
from tests.kit.faulty_run import MINED, FaultyPlace
from tests.kit.live_run import Ended
from tests.kit.widely import CHAOS, wide


@pytest.mark.parametrize("number", [1, *([3] if CHAOS else [])])
@wide
def test_a_table_that_does_not_read_back_is_mined_again(
    place: FaultyPlace, mined_reference: Ended, number: int
) -> None:
    lie = {"TTF_FAILPOINT": f"candidates.write:{number}:lie"}
    done = place.train(env=lie, settings=MINED).wait()
    done.assert_clean()
    assert done.code == 0, done.err
    assert "read it again" in done.err
    assert done.digest == mined_reference.digest


def test_a_folder_that_could_not_be_deleted_at_first_is_gone_at_the_end(
    place: FaultyPlace, reference: Ended
) -> None:
    done = place.train(env={"TTF_FAILPOINT": "checkpoint.unlink:1:eio"}).wait()
    done.assert_clean()
    assert (done.code, done.digest) == (0, reference.digest), done.err
    assert not list((done.run / "checkpoints").glob(".tmp-*"))


def test_what_a_process_left_of_an_incident_it_was_writing_is_removed(
    place: FaultyPlace, reference: Ended
) -> None:
    run = place.root / "run"
    shutil.copytree(reference.run, run)
    begun = run / "incidents" / "001"
    begun.mkdir()
    (begun / ".tmp-incident.json-1-1").write_text("{")
    (run / "summary.json").unlink()
    again = place.resume(run).wait()
    assert again.code == 0, again.err
    assert not list(begun.glob(".tmp-*"))
