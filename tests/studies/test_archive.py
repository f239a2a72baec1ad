"""A run becomes a small file and comes back with the same numbers, byte for byte."""

from __future__ import annotations

import gzip
import json
import shutil

import pytest
from support import write_run

from fedvls.callbacks import Callback
from fedvls.errors import RunError, UsageError
from fedvls.report.tables import summarise
from fedvls.runs.store import RunDirectory, find_runs
from fedvls.studies.archive import archived_files, pack, take_from_archive, unpack
from fedvls.studies.execute import here
from fedvls.studies.plan import Scale
from fedvls.studies.reproduce import archived_selections, choose_cells, reproduce
from made_runs import made

FILES = ("config.yaml", "header.json", "metrics.jsonl", "timing.jsonl", "result.json")


def content(file):
    return json.loads(gzip.decompress(file.read_bytes()))


def rewritten(file, **changes):
    """The file with other values in it."""
    file.write_bytes(gzip.compress(json.dumps({**content(file), **changes}).encode()))


def test_a_run_comes_back_with_the_same_bytes(tmp_path):
    run = write_run(tmp_path / "runs" / "one", "fedvls", seed=1)
    file, _, is_new = pack(run, tmp_path / "results")
    assert (file, is_new) == (tmp_path / "results" / "one.json.gz", True)
    assert content(file).keys() == {"format", "config", "header", "metrics", "timing", "result"}
    folder, _, _ = unpack(file, tmp_path / "back")
    assert {name: (folder / name).read_bytes() for name in FILES} == {
        name: (run.path / name).read_bytes() for name in FILES
    }
    before, after = (summarise(find_runs([tmp_path / place]))[0] for place in ("runs", "back"))
    assert after.scores == before.scores
    assert after.complete


def test_equal_runs_give_equal_bytes(tmp_path):
    for place in ("here", "there"):
        run = write_run(tmp_path / place / "one", data={"name": "digits", "data_dir": str(tmp_path / place)})
        pack(run, tmp_path / f"results-{place}")
    first, second = (tmp_path / f"results-{place}" / "one.json.gz" for place in ("here", "there"))
    assert first.read_bytes() == second.read_bytes()


def test_nothing_of_the_machine_is_archived(tmp_path):
    run = write_run(
        tmp_path / "one",
        data={"name": str(tmp_path / "scans.npz"), "data_dir": str(tmp_path)},
        start=str(tmp_path / "w.safetensors"),
        imports=[str(tmp_path / "own.py")],
    )
    header = run.header()
    run.write_header({**header, "model": {"start": str(tmp_path / "w.safetensors")}})
    file, _, _ = pack(run, tmp_path / "results")
    told = content(file)
    assert str(tmp_path) not in json.dumps(told)
    assert (told["config"]["data"], told["config"]["start"]) == ({"name": "scans.npz"}, "w.safetensors")
    assert told["header"]["model"] == {"start": "w.safetensors"}
    folder, _, _ = unpack(file, tmp_path / "back")
    assert len(summarise([RunDirectory(folder)])) == 1  # although own.py is not there
    assert not unpack(file, tmp_path)[2]  # the run it was made of is known again


def test_a_run_that_went_on_replaces_its_shorter_file_and_is_never_replaced_by_it(tmp_path):
    long, short = write_run(tmp_path / "long" / "one"), write_run(tmp_path / "short" / "one", complete=False)
    file, held, _ = pack(short, tmp_path / "results")
    assert (content(file)["result"], str(held)) == (None, "3 of 4 rounds")
    folder, _, _ = unpack(file, tmp_path / "back")
    assert not RunDirectory(folder).is_complete
    assert pack(long, tmp_path / "results")[2]
    assert str(pack(long, tmp_path / "results")[1]) == "4 rounds"
    before = file.read_bytes()
    _, held, is_new = pack(short, tmp_path / "results")
    assert (is_new, held.progress, file.read_bytes()) == (False, (4, True), before)
    assert unpack(file, tmp_path / "back")[2]
    assert (folder / "metrics.jsonl").read_bytes() == (long.path / "metrics.jsonl").read_bytes()
    assert not unpack(file, tmp_path / "back")[2]


def test_another_run_of_the_same_name_is_refused(tmp_path):
    first = write_run(tmp_path / "a" / "one")
    file, _, _ = pack(first, tmp_path / "results")
    before = file.read_bytes()
    with pytest.raises(RunError, match=r"one\.json\.gz holds another run than .*: seed \(0 there, 1 here\); remove it"):
        pack(write_run(tmp_path / "b" / "one", seed=1), tmp_path / "results")
    other = write_run(tmp_path / "c" / "one")
    log = other.path / "metrics.jsonl"
    log.write_text(log.read_text().replace('"train_loss": 0.5', '"train_loss": 0.25'))
    with pytest.raises(RunError, match="round 2 has other numbers"):
        pack(other, tmp_path / "results")
    with pytest.raises(RunError, match="round 2 has other numbers; choose another --out"):
        unpack(file, tmp_path / "c")
    assert file.read_bytes() == before


def test_a_torn_last_line_is_left_out(tmp_path):
    run = write_run(tmp_path / "one", complete=False)
    log = run.path / "metrics.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"round": 4, "acc')
    file, held, _ = pack(run, tmp_path / "results")
    assert len(held.metrics) == 3
    assert (unpack(file, tmp_path / "back")[0] / "metrics.jsonl").read_bytes() == whole


def test_numbers_that_would_not_come_back_are_refused(tmp_path):
    run = write_run(tmp_path / "one")
    log = run.path / "metrics.jsonl"
    log.write_text(log.read_text().replace('"loss": ', '"loss":  '))
    with pytest.raises(RunError, match="was not written by this program"):
        pack(run, tmp_path / "results")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-30]), "end-of-stream"),
        (lambda file: file.write_bytes(b"not gzip"), "Not a gzipped file"),
        (lambda file: file.write_bytes(gzip.compress(b"{")), "Expecting property name"),
        (lambda file: file.write_bytes(gzip.compress(b"[1]")), "it does not say format 1"),
        (lambda file: rewritten(file, format=2), "it does not say format 1"),
        (lambda file: rewritten(file, weights=[1]), "unexpected keyword argument 'weights'"),
        (lambda file: rewritten(file, config={"epoch": 1}), "unknown key in its config: 'epoch'"),
        (lambda file: rewritten(file, config=1), "is not a mapping"),
        (lambda file: rewritten(file, metrics=[{"round": 2}]), "its rounds are not 1, 2, 3"),
        (lambda file: rewritten(file, metrics=[1]), "is not a mapping"),
    ],
)
def test_a_torn_or_foreign_file_is_one_line(tmp_path, harm, words):
    file, _, _ = pack(write_run(tmp_path / "one"), tmp_path / "results")
    harm(file)
    with pytest.raises(RunError, match=r"one\.json\.gz is not an archived run: ") as error:
        unpack(file, tmp_path / "back")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "back").exists()


def test_an_empty_or_missing_archive_is_said(tmp_path):
    with pytest.raises(UsageError, match="holds no archived run"):
        archived_files([tmp_path])
    with pytest.raises(UsageError, match="there is no archive at"):
        archived_files([tmp_path / "nowhere"])
    with pytest.raises(UsageError, match="there is no archive at"):
        take_from_archive([], tmp_path / "nowhere", tmp_path)


@pytest.fixture(scope="module")
def study(tmp_path_factory, data_dir):
    """A study's folder, its selection and its table from the runs themselves."""
    root = tmp_path_factory.mktemp("archived")
    changes = ("model={name: mlp, width: 8}", "epochs=1")
    place = {"data_dir": str(data_dir), "device": "cpu", "engine": "sequential"}
    scale = Scale(2, 0.9, changes, place)
    asked = {"dataset": ["mnist"], "beta": ["0.1", "0.05"], "method": ["fedavg", "fedvls"]}
    selection = choose_cells("dirichlet", asked, [0, 1], scale)
    _, files = reproduce(selection, root, here(lambda job: Callback()))
    for run in find_runs([root / "runs"]):
        pack(run, root / "results")
    return root, selection, scale, {file.name: file.read_bytes() for file in files}


def test_a_study_rebuilt_from_its_archive_has_the_same_bytes(study):
    root, selection, _, expected = study
    shutil.rmtree(root / "runs")
    assert take_from_archive(selection.jobs, root / "results", root / "runs") == 8
    _, files = reproduce(selection, root, None)
    assert {file.name: file.read_bytes() for file in files} == expected
    assert json.loads(expected["table.json"])["cells"][0]["measured"] is not None


def test_every_study_with_an_archived_run_is_found_with_the_rows_and_columns_that_have_one(study):
    root, _, scale, _ = study
    found = {selection.study.name: selection for selection in archived_selections(root / "results", scale)}
    assert [row.label for row in found["dirichlet"].rows] == ["fedavg", "fedvls"]
    assert [column.label for column in found["dirichlet"].columns] == ["mnist, beta 0.1", "mnist, beta 0.05"]
    assert {seed for cell in found["dirichlet"].cells for seed in cell.jobs} == {0, 1}  # of the study's 0, 1, 2
    assert "quantity" not in found
    assert "client-distribution" not in found  # nothing is run for it


def test_runs_of_other_dtypes_are_found_too_and_get_a_folder_of_their_own(tmp_path):
    asked = {"dataset": ["mnist"], "beta": ["0.1"], "method": ["fedavg"]}
    for changes in ((), ("dtype=bf16",)):
        (job,) = choose_cells("dirichlet", asked, [0], Scale(changes=changes)).jobs
        records = [{"round": n, "accuracy": 0.5} for n in range(1, job.config.rounds + 1)]
        pack(made(job, tmp_path / "runs", records, finished=True), tmp_path / "results")

    def folders(scale):
        found = [s for s in archived_selections(tmp_path / "results", scale) if s.study.name == "dirichlet"]
        return [reproduce(selection, tmp_path, None)[1][0].parent.name for selection in found]

    assert folders(Scale()) == ["dirichlet", "dirichlet-bf16-scaled-down"]
    assert folders(Scale(changes=("dtype=bf16",))) == ["dirichlet-bf16-scaled-down"]
    assert folders(Scale(changes=("dtype=tf32",))) == []


def test_runs_with_fewer_rounds_are_found_too_and_get_a_folder_of_their_own(tmp_path):
    asked = {"dataset": ["mnist"], "beta": ["0.1"], "method": ["fedavg"]}
    for rounds in (None, 7):
        (job,) = choose_cells("dirichlet", asked, [0], Scale(rounds=rounds)).jobs
        records = [{"round": n, "accuracy": 0.01 * n} for n in range(1, job.config.rounds + 1)]
        pack(made(job, tmp_path / "runs", records, finished=True), tmp_path / "results")

    def tables(scale):
        found = [s for s in archived_selections(tmp_path / "results", scale) if s.study.name == "dirichlet"]
        made_of = [(selection, *reproduce(selection, tmp_path, None)) for selection in found]
        return {files[0].parent.name: table.entry(s.rows[0], s.columns[0]).mean for s, table, files in made_of}

    whole, cut = {"dirichlet": pytest.approx(50)}, {"dirichlet-7-rounds-scaled-down": pytest.approx(7)}
    assert tables(Scale()) == whole | cut
    assert tables(Scale(rounds=7)) == cut
    assert tables(Scale(rounds=8)) == {}


def test_runs_with_less_data_are_found_too_and_get_a_folder_of_their_own(tmp_path):
    asked = {"dataset": ["mnist"], "beta": ["0.1"], "method": ["fedavg"]}
    for fraction, rounds in ((None, None), (0.1, None), (0.25, 7)):
        (job,) = choose_cells("dirichlet", asked, [0], Scale(rounds, fraction, ("dtype=bf16",))).jobs
        records = [{"round": n, "accuracy": 0.5} for n in range(1, job.config.rounds + 1)]
        pack(made(job, tmp_path / "runs", records, finished=True), tmp_path / "results")

    def folders(scale):
        found = [s for s in archived_selections(tmp_path / "results", scale) if s.study.name == "dirichlet"]
        return [reproduce(selection, tmp_path, None)[1][0].parent.name for selection in found]

    tenth, quarter = (f"dirichlet-bf16-{cut}-percent-scaled-down" for cut in ("10", "7-rounds-25"))
    assert folders(Scale()) == ["dirichlet-bf16-scaled-down", quarter, tenth]
    assert folders(Scale(fraction=0.1)) == [tenth]
    assert folders(Scale(rounds=7)) == [quarter]
    assert folders(Scale(fraction=0.5)) == []
