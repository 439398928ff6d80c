"""Networks for sequences: the LSTM reads in order, windows may have any length."""

import torch

from fedfleet.tasks.nets.sequence import CharLstm, WindowCnn


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
