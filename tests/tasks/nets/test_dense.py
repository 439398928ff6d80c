"""Networks of linear layers, by hand."""

import torch

from fedfleet.tasks.nets.dense import logistic_regression, perceptron


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
