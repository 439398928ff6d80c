"""Networks of linear layers, by hand."""

import numpy as np
import torch

from fedfleet.tasks.dropout import AddressedDropout
from fedfleet.tasks.nets.small import CharLstm, CifarCnn, TwoConvNet, WindowCnn, logistic_regression, perceptron


def test_logistic_regression_is_one_product():
    net = logistic_regression(6, 3)
    x = torch.randn(2, 1, 2, 3)
    torch.testing.assert_close(net(x), x.flatten(1) @ net[1].weight.T + net[1].bias)


def test_a_perceptron_rectifies_between_its_layers():
    net = perceptron(4, [5, 3], 2)
    assert [tuple(p.shape) for p in net.parameters()] == [(5, 4), (5,), (3, 5), (3,), (2, 3), (2,)]
    x = torch.randn(7, 4)
    hidden = torch.relu(torch.relu(net[1](x)).matmul(net[3].weight.T) + net[3].bias)
    torch.testing.assert_close(net(x), net[5](hidden))
    assert len(list(perceptron(4, [], 2).parameters())) == 2, "without hidden layers it is logistic regression"


def test_the_femnist_model_is_convnet2():
    shapes = {n: tuple(p.shape) for n, p in TwoConvNet((1, 28, 28), 1024, 62).named_parameters()}
    assert shapes["conv1.weight"] == (32, 1, 5, 5) and shapes["conv2.weight"] == (64, 32, 5, 5)
    assert shapes["hidden.weight"] == (1024, 7 * 7 * 64) and shapes["head.weight"] == (62, 1024)


def test_the_cifar_model_starts_as_pfls():
    module = CifarCnn((3, 32, 32), 10)
    assert module.hidden.weight.shape == (128, 14 * 14 * 64)
    bound = np.sqrt(6 / (14 * 14 * 64 + 128))
    assert bound * 0.99 < module.hidden.weight.abs().max() <= bound
    assert [(d.p, d.layer) for d in module.modules() if isinstance(d, AddressedDropout)] == [(0.25, 0), (0.5, 1)]


def test_the_lstm_reads_to_the_end_and_in_order():
    net = CharLstm(11, hidden=6, layers=1).eval()
    text = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        assert net(text).shape == (1, 11)
        assert not torch.allclose(net(text), net(text.flip(1)))
        assert net(torch.tensor([[1, 2, 3, 4, 5, 6]])).shape == (1, 11), "any length will do"
        out, _ = net.lstm(net.embedding(text))
        torch.testing.assert_close(net(text), net.head(out[:, -1]))


def test_windows_are_halved_twice():
    net = WindowCnn((3, 50), 8, 4).eval()
    assert net.hidden.in_features == 64 * 12
    x = torch.randn(2, 3, 50)
    with torch.no_grad():
        assert net(x).shape == (2, 4)
        late = x.clone()
        late[..., 48:] += 1.0  # what pooling leaves over at the end is seen through the convolutions only
        assert not torch.allclose(net(x), net(late))
