"""What an expression of MNN gives for values, and the gradient of each of them."""

import numpy as np

from fedfleet.executors.mnn.library import constant, gradient_graphs, mnn, placeholder, read, write


def value_and_gradients(make, direction, *values):
    """The value of make(variables ..), and the gradients of its sum weighted by a direction."""
    variables = [placeholder(np.shape(v)) for v in values]
    for number, (var, value) in enumerate(zip(variables, values, strict=True)):
        var.name = f"v{number}"
        write(var, np.asarray(value))
    y = make(*variables)
    direction = np.broadcast_to(np.asarray(direction, np.float32), tuple(y.shape))
    _, gradients = gradient_graphs().grad([y], [constant(direction)], variables)
    lib = mnn()
    plain = [lib.convert(g, lib.NCHW) if g.data_format != lib.NCHW else g for g in gradients]
    return read(y).reshape(y.shape), [read(g).reshape(np.shape(v)) for g, v in zip(plain, values, strict=True)]
