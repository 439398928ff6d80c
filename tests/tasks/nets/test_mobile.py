"""EfficientNet-Lite0: its padding, its shapes, its shortcuts."""

import pytest
import torch

from fedfleet.tasks.nets.mobile import EfficientNetLite0, InvertedBottleneck, SameConv


@pytest.mark.parametrize(("side", "size", "stride"), [(224, 3, 2), (7, 5, 2), (8, 5, 1), (9, 3, 2), (5, 1, 1)])
def test_padding_keeps_the_size_that_tensorflow_gives(side, size, stride):
    assert SameConv(1, 2, size, stride)(torch.zeros(1, 1, side, side)).shape[2:] == (-(-side // stride),) * 2


def test_an_odd_pad_goes_to_the_right_and_below():
    conv = SameConv(1, 1, 3, 2)
    torch.nn.init.ones_(conv.conv.weight)
    x = torch.zeros(1, 1, 4, 4)
    x[..., 0, 0] = 1.0
    assert conv(x)[0, 0].tolist() == [[1.0, 0.0], [0.0, 0.0]], "the first window begins at the corner"


def test_a_block_that_keeps_its_shape_adds_to_what_it_got():
    block = InvertedBottleneck(4, 4, size=3, stride=1, widening=6).eval()
    torch.nn.init.zeros_(block.norm2.weight)
    torch.nn.init.zeros_(block.norm2.bias)
    x = torch.rand(2, 4, 5, 5)
    assert torch.equal(block(x), x)
    assert not InvertedBottleneck(4, 4, size=3, stride=2, widening=1).skips


def test_the_whole_network():
    net = EfficientNetLite0(7).eval()
    assert len(net.blocks) == 16
    with torch.no_grad():
        assert net(torch.zeros(1, 3, 32, 32)).shape == (1, 7)
