import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded_on_one_thread():
    """The same weights every time; small batches gain nothing from threads and lose much where others use the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)
