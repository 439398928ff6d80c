"""Ten thousand journals that were changed and sealed anew, under everything that reads a run folder."""

import pytest

from tests.mutations.journals import READERS, complaints_about

CASES, PART, SEED = 10_000, 1000, 7


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_readers_of_mutated_journals_end_right_or_with_one_sentence(first, tmp_path):
    wrong, endings = complaints_about(SEED, range(first, first + PART), tmp_path)
    assert not wrong, f"{len(wrong)}:\n" + "\n\n".join(wrong[:10])
    assert sum(endings.values()) == PART * len(READERS)
