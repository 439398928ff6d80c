"""A model of your own: a class or function that takes the size of one sample and the number of classes."""

import torch


class Net(torch.nn.Module):
    """A perceptron with a shortcut."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = torch.nn.Linear(inputs, 32)
        self.second = torch.nn.Linear(32, 32)
        self.last = torch.nn.Linear(32, outputs)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        return self.last(x + torch.tanh(self.second(x)))
