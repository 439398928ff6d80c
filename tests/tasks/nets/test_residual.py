"""ResNet-18: shortcuts where shapes change, and blocks that can do nothing."""

import torch
from torch import nn

from fedfleet.tasks.nets.residual import BasicBlock, ResNet18, group_norm


def test_a_block_that_adds_nothing_is_its_shortcut():
    block = BasicBlock(4, 4, 1, group_norm)
    nn.init.zeros_(block.norm2.weight)
    x = torch.rand(2, 4, 6, 6)
    torch.testing.assert_close(block(x), x)


def test_shortcuts_are_fitted_only_where_the_shape_changes():
    assert isinstance(BasicBlock(4, 4, 1, group_norm).shortcut, nn.Identity)
    for block in (BasicBlock(4, 8, 1, group_norm), BasicBlock(4, 4, 2, group_norm)):
        assert not isinstance(block.shortcut, nn.Identity)
    assert BasicBlock(4, 8, 2, group_norm)(torch.rand(1, 4, 6, 6)).shape == (1, 8, 3, 3)


def test_images_of_other_sizes_and_channels_fit():
    net = ResNet18(1, 7).eval()
    with torch.no_grad():
        assert net(torch.rand(2, 1, 16, 16)).shape == (2, 7)
    assert len(net.blocks) == 8 and not any(isinstance(m, nn.BatchNorm2d) for m in net.modules())
