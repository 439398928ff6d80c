"""Journals that were changed and sealed anew: whoever reads them ends right or with one sentence, in little memory and time.

`make soak` tries ten thousand more.
"""

import pytest

from tests.mutations.journals import READERS, complaints_about

CASES, SEED = 60, 1


@pytest.mark.slow
def test_readers_of_mutated_journals_end_right_or_with_one_sentence(tmp_path):
    wrong, endings = complaints_about(SEED, range(CASES), tmp_path)
    assert not wrong, f"{len(wrong)}:\n" + "\n\n".join(wrong[:10])
    assert sum(endings.values()) == CASES * len(READERS)
    assert min(endings["right"], endings["refused"]) > CASES
