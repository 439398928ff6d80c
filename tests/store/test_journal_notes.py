"""Notes that programs read are found again, in the words of today and of earlier versions."""

from fedfleet.store.journal_notes import devices_note, evaluated_by_devices


def test_versions_that_devices_evaluated_are_found():
    notes = [
        devices_note("evaluated", 12, 1, 4, 1, 2),
        devices_note("probed", 13, 1, 4, 1, 2),
        "version 7 was judged by 2 of 6 devices: 0 declined, 4 were silent",
        "patience ended",
    ]
    assert evaluated_by_devices(notes) == {12, 7}
