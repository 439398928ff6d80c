"""Fleets as .csv: what is written reads back; what is malformed is refused by line and column, with the cure."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateTable, client_ids, device_table, take_devices, take_states, unshared_states
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.canonical_files import write_devices, write_states
from tests.world.bases.test_canonical_files import DEVICES, STATES, equal
from tests.worlds import traces_of

law = settings(deadline=None, derandomize=True, max_examples=40)
names = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=8)
speeds = st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=4)
maybe = st.one_of(st.just(np.nan), st.integers(1, 64).map(float))
device = st.tuples(speeds, st.one_of(st.just([]), speeds), st.floats(0, 1e3), maybe, maybe, st.floats(0, 10))


@st.composite
def fleets(draw):
    """Devices with any names and speeds, and clients that may share them."""
    ids = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    rows = [draw(device) for _ in ids]
    down, up, per_sample, cores, memory, per_batch = zip(*rows, strict=True)
    latency = np.array([sorted(draw(st.tuples(*[st.integers(0, 900)] * 2))) for _ in ids]) / 1000.0
    table = device_table(ids, down, per_sample, up, latency, np.array(cores), np.array(memory), np.array(per_batch))
    clients = draw(st.lists(st.integers(0, len(ids) - 1), min_size=1, max_size=6))
    return take_devices(table, np.array(clients))


@st.composite
def reaches(draw):
    """States of whole and broken seconds, likewise."""
    ids = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    gaps = [draw(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), min_size=1, max_size=4)) for _ in ids]
    spans = [tuple(zip(*np.cumsum(np.array(own).ravel()).reshape(-1, 2).T.astype(float), strict=True)) for own in gaps]
    starts = [float(draw(st.integers(-1000, 1000))) for _ in ids]
    table = StateTable(np.array(ids), traces_of(spans, [own[-1][1] + 7.5 for own in spans], starts))
    return take_states(table, np.array(draw(st.lists(st.integers(0, len(ids) - 1), min_size=1, max_size=6))))


@law
@given(fleets())
def test_devices_read_back_as_they_are(tmp_path_factory, fleet):
    path = str(tmp_path_factory.mktemp("sheet") / "d.csv")
    write_devices(path, fleet)
    back, whole = load_devices(path), take_devices(fleet, np.arange(len(fleet)))
    assert client_ids(back).tolist() == client_ids(whole).tolist()
    again = str(tmp_path_factory.mktemp("sheet") / "d.json")
    write_devices(again, fleet)
    assert equal(back, load_devices(again))


@law
@given(reaches())
def test_states_read_back_as_they_are(tmp_path_factory, fleet):
    path = str(tmp_path_factory.mktemp("sheet") / "s.csv")
    write_states(path, fleet)
    back, whole = load_states(path), unshared_states(fleet)
    assert equal(back, whole) and equal(back.traces, whole.traces)


def test_a_sheet_is_what_people_write(tmp_path):
    sheet = tmp_path / "D.CSV"
    sheet.write_bytes(
        "\ufeffid;down_kbps;seconds_per_sample;up_kbps\r\na;21000;0.05;900\r\na;35000;;\r\n\r\nb;5000;0.1;\r\n".encode()
    )
    result = load_devices(str(sheet))
    assert result.ids.tolist() == ["a", "b"] and result.down.tolist() == [21000, 35000, 5000]
    assert result.up.tolist() == [900] and result.seconds_per_sample.tolist() == [0.05, 0.1]


def test_only_columns_that_somebody_fills_are_written(tmp_path):
    write_devices(str(tmp_path / "d.csv"), take_devices(device_table(["a", "b"], [[1e4], [5e3]], [0.1, 0.25]), np.array([0, 1])))
    assert (tmp_path / "d.csv").read_text() == "id,down_kbps,seconds_per_sample\na,10000,0.1\nb,5000,0.25\n"
    write_states(str(tmp_path / "s.csv"), take_states(STATES, np.array([1, 1])))
    assert (tmp_path / "s.csv").read_text().splitlines()[:2] == [
        "client,id,start,end,ready_from,ready_to",
        "0,y,-7,43,-2,-2",
    ]
    write_devices(str(tmp_path / "all.csv"), DEVICES)
    assert equal(load_devices(str(tmp_path / "all.csv")), DEVICES)


D, S = "id,down_kbps,seconds_per_sample", "id,start,end,ready_from,ready_to"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "its first line names the columns"),
        (D, "no rows below it"),
        ("id,down_kbps\na,1", "the column seconds_per_sample is missing"),
        ("id,down_kpbs,seconds_per_sample\na,1,1", "did you mean 'down_kbps'"),
        ("id,id,down_kbps,seconds_per_sample\na,a,1,1", "id appears twice"),
        (f"{D}\na,1000,0.1\nb,fast,0.1", "line 3, column down_kbps: 'fast' is not a number"),
        (f"{D}\na,1000,0,1", "line 2 has 4 cells and the first line has 3 names"),
        (f"{D}\na,-1,0.1", "line 2, column down_kbps: -1.0 is not positive"),
        (f"{D}\na,nan,0.1", "line 2, column down_kbps"),
        (f"{D}\na,1000,", "column seconds_per_sample: is empty"),
        (f"{D}\na,,0.1", "column down_kbps: is empty"),
        (f"{D}\n,1000,0.1", "line 2, column id: is empty"),
        (f"{D}\na,1000,0.1\na,2000,0.2", "line 3, column seconds_per_sample: is 0.2 here and 0.1 in line 2"),
        (f"client,{D}\n0,a,1000,0.1\n0,b,1000,0.1", "line 3, column id: 'b' is not the id 'a'"),
        (f"client,{D}\n0,a,1000,0.1\n1,a,2000,0.1", "give one of them another id"),
        (f"{D},latency_ms_low\na,1000,0.1,5", "column latency_ms_high: is empty"),
        (f"{D},latency_ms_low,latency_ms_high\na,1000,0.1,5,4", "5 lies above latency_ms_high 4; swap the two values"),
        (f'{D}\n"a,1000,0.1', "close its quotes"),
    ],
)
def test_devices_are_refused_by_line_and_column(tmp_path, text, says):
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(BadInput, match=r"d\.csv") as wrong:
        load_devices(str(tmp_path / "d.csv"))
    assert says in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{S}\na,0,100,,9", "line 2, column ready_from: is empty"),
        (f"{S}\na,0,,1,9", "column end: is empty"),
        (f"{S}\na,9,9,1,9", "column end: 9 is not after start 9"),
        (f"{S}\na,0,100,9,1", "column ready_to: 1 lies before ready_from 9; swap the two values"),
        (f"{S}\na,0,100,-5,1", "column ready_from: -5 lies outside start 0 to end 100"),
        (f"{S}\na,0,100,5,101", "column ready_to: 101 lies after end 100; cut it there"),
        (f"{S}\na,0,100,5,20\na,,,20,30", "line 3, column ready_from: 20 lies in the interval of line 2"),
    ],
)
def test_states_are_refused_by_line_and_column(tmp_path, text, says):
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(BadInput, match=r"s\.csv") as wrong:
        load_states(str(tmp_path / "s.csv"))
    assert says in str(wrong.value)


def test_a_sheet_that_is_no_text_or_not_there(tmp_path):
    (tmp_path / "d.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="in UTF-8"):
        load_devices(str(tmp_path / "d.csv"))
    with pytest.raises(BadInput, match="there is no file"):
        load_devices(str(tmp_path / "none.csv"))
