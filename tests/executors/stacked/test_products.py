"""Products of all clients: the numbers of torch, whatever lies where, and each client's by itself."""

import pytest
import torch

from fedfleet.executors.stacked import products
from fedfleet.executors.stacked.products import is_worth_compiling, kernel_for, panels_of, product, product_of_panels

CLIENTS, ROWS, WIDTH, COLUMNS = 3, 40, 70, 50
COMPILED = products._kernel()


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def turned(*shape, seed=0):
    """The same shape, lying the other way round."""
    return drawn(shape[0], shape[2], shape[1], seed=seed).transpose(1, 2)


LAYOUTS = {
    "rows": (drawn(CLIENTS, ROWS, WIDTH), drawn(CLIENTS, WIDTH, COLUMNS, seed=1)),
    "columns of a": (turned(CLIENTS, ROWS, WIDTH), drawn(CLIENTS, WIDTH, COLUMNS, seed=1)),
    "columns of b": (drawn(CLIENTS, ROWS, WIDTH), turned(CLIENTS, WIDTH, COLUMNS, seed=1)),
    "part of more": (drawn(CLIENTS, ROWS, 2 * WIDTH)[:, :, :WIDTH], drawn(CLIENTS, WIDTH, 2 * COLUMNS)[:, :, COLUMNS:]),
    "one b for all": (drawn(CLIENTS, ROWS, WIDTH), drawn(1, WIDTH, COLUMNS).expand(CLIENTS, -1, -1)),
    "one b for all, turned": (drawn(CLIENTS, ROWS, WIDTH), turned(1, WIDTH, COLUMNS).expand(CLIENTS, -1, -1)),
    "rows a page apart": (drawn(CLIENTS, ROWS, WIDTH), drawn(CLIENTS, WIDTH, 1024)[:, :, :COLUMNS]),
}


@pytest.fixture(params=["compiled", "torch"])
def way(request, monkeypatch):
    """With the kernel and without; says which."""
    if request.param == "torch":
        monkeypatch.setattr(products, "_kernel", lambda: None)
    elif COMPILED is None:
        pytest.skip("this processor has no vectors of 512 bits, or numba is missing")
    return request.param


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_is_the_product_whatever_lies_where(layout, way):
    a, b = LAYOUTS[layout]
    assert is_worth_compiling(ROWS, WIDTH, COLUMNS)
    assert (kernel_for(a, b) is not None) == (way == "compiled")
    wanted = torch.bmm(a.double(), b.double())
    assert torch.allclose(product(a, b).double(), wanted, atol=1e-4)
    start = drawn(CLIENTS, 1, COLUMNS, seed=2)
    assert torch.allclose(product(a, b, init=start, alpha=-0.5).double(), start.double() - 0.5 * wanted, atol=1e-4)


def test_it_adds_to_what_is_there(way):
    a, b = LAYOUTS["columns of a"]
    out = drawn(CLIENTS, ROWS, COLUMNS, seed=3)
    wanted = out.double() - 0.1 * torch.bmm(a.double(), b.double())
    assert product(a, b, init=out, alpha=-0.1, out=out) is out
    assert torch.allclose(out.double(), wanted, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_clients_bits_do_not_depend_on_its_neighbours(layout):
    a, b = LAYOUTS[layout]
    if kernel_for(a, b) is None:
        pytest.skip("torch promises no such thing")
    together = product(a, b)
    alone = [product(a[c : c + 1], b[c : c + 1])[0] for c in range(CLIENTS)]
    assert all(map(torch.equal, together, alone))


def test_panels_give_the_same_product():
    a, b = LAYOUTS["columns of b"]
    if kernel_for(a, b) is None:
        pytest.skip("there are no panels without the kernel")
    assert torch.equal(product_of_panels(a, panels_of(b), COLUMNS), product(a, b))
    with pytest.raises(ValueError, match="does not fit"):
        product_of_panels(a[:, :, :-1], panels_of(b), COLUMNS)


@pytest.mark.parametrize(
    ("a", "b", "more"),
    [
        ((3, 40, 70), (2, 70, 50), {}),
        ((3, 40, 70), (3, 71, 50), {}),
        ((3, 40, 70), (3, 70, 50), {"out": (3, 40, 51)}),
        ((3, 40, 70), (3, 70, 50), {"init": (3, 39, 50)}),
        ((3, 40, 70), (3, 70, 50), {"init": (2, 40, 50)}),
        ((3, 40, 70), (3, 70, 50), {"init": (3, 40, 49)}),
    ],
)
def test_what_does_not_fit_is_refused(a, b, more, way):
    with pytest.raises(ValueError, match="does not fit"):
        product(torch.zeros(a), torch.zeros(b), **{name: torch.zeros(shape) for name, shape in more.items()})


def test_gradients_go_through_torch():
    a, b = (v.clone().requires_grad_() for v in LAYOUTS["rows"])
    product(a, b).sum().backward()
    assert torch.allclose(a.grad, b.detach().sum(2).unsqueeze(1).expand_as(a), atol=1e-4)


def test_small_products_and_double_precision_stay_with_torch():
    assert not is_worth_compiling(10, 64, 10)
    assert not is_worth_compiling(10_000, 10_000, 1)
    assert kernel_for(torch.zeros(1, dtype=torch.float64)) is None


def test_one_clients_nan_stays_its_own(way):
    a, b = (v.clone() for v in LAYOUTS["rows"])
    a[1, 2, 3] = torch.nan
    finite = product(a, b).isfinite().all(2)
    assert not finite[1, 2]
    assert finite.sum() == CLIENTS * ROWS - 1
