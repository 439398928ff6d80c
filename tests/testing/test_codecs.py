"""Every registered codec passes its check, alone and in chains; codecs that break a rule do not."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet import testing
from fedfleet.core.errors import BadInput
from fedfleet.core.registry import builder, names
from fedfleet.learn.codecs.chain import chain
from fedfleet.learn.codecs.quantisation import fp16, int8
from tests.learn.codecs.codecs import CHAINS, SETTINGS, codec

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=str)
def test_codecs(name, settings):
    made = codec(name, settings)
    assert made == codec(name, settings), "equal settings must give equal codecs"
    testing.check_codec(made, quiet=True)


def test_every_registered_codec_is_walked():
    assert {name for name, _ in SETTINGS} == set(names("codecs"))


@pytest.mark.parametrize("parts", CHAINS, ids="+".join)
def test_chains(parts):
    made = chain([codec(name) for name in parts])
    assert made is not None and made == chain([codec(name) for name in parts])
    testing.check_codec(made, quiet=True)


def test_codecs_with_other_settings_are_others():
    assert builder("codecs", "topk")(share=0.1) != builder("codecs", "topk")(share=0.2)
    assert builder("codecs", "int4")() != builder("codecs", "int5")()


# ---- codecs that break a rule -------------------------------------------------------------------------------------

# Without the forms for one message with numpy, so that each fault below is the only one.
HALF = replace(fp16(), squeeze_tree=None, expand_tree=None)


def drops_a_leaf(stack, like):
    result = dict(HALF.expand(stack, like))
    result.pop("bias")
    return result


def twice(tree, address):
    return fp16().squeeze_tree({n: 2 * v for n, v in tree.items()}, address)


def keeps_the_finite(stack, where):
    return {n: v.nan_to_num(0.0, 0.0, 0.0) for n, v in HALF.squeeze(stack, where).items()}


def by_neighbour(stack, where):
    return {n: v.roll(1, 0) for n, v in HALF.through(stack, where).items()}


BAD = {
    "loses more than it promises": (replace(HALF, within=lambda t: {n: np.zeros(v.shape) for n, v in t.items()}), "promise"),
    "says another size": (replace(HALF, name="other", pack=lambda t: {**t, "time": np.zeros(int(t["dense"][0, 0] != 0))}), "bytes"),
    "mixes clients": (replace(HALF, through=by_neighbour), "bit for bit"),
    "is another code with numpy": (replace(fp16(), squeeze_tree=twice), "bit for bit|promise"),
    "hides what is not finite": (replace(HALF, squeeze=keeps_the_finite, through=None), "not finite"),
    "has a size and says none": (replace(HALF, sized=True, expand=drops_a_leaf), None),
    "believes any bytes": (replace(int8(), unpack=lambda tree, like: like), None),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_codec_that_breaks_a_rule_is_caught(name):
    bad, why = BAD[name]
    with pytest.raises(Exception, match=why) as caught:
        testing.check_codec(bad)
    assert not isinstance(caught.value, BadInput)
