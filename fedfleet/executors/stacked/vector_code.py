"""Vectors of 16 single-precision numbers in compiled loops: what numba's own loops cannot say, as instructions for its compiler.

Addresses are integers, in bytes. A mask says which lanes are really there: others are read as 0, and never written.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

LANES = 16
WORD, FLOAT, _INDEX, _BIT = ir.IntType(64), ir.FloatType(), ir.IntType(32), ir.IntType(1)
VECTOR = ir.VectorType(FLOAT, LANES)
_INTEGERS, _MASK, _POINTER = ir.VectorType(_INDEX, LANES), ir.VectorType(_BIT, LANES), ir.PointerType(FLOAT)
# 2^f as a polynomial: its Taylor coefficients ln(2)^i / i!, exact to the last bit for |f| <= 1/2.
_POWERS = (1.0, 0.6931471805599453, 0.2402265069591007, 0.05550410866482158, 0.009618129107628477, 0.0013333558146428443,
           0.00015403530393381608, 0.00001525273380405984)  # fmt: skip
_LOG2_E, _LARGEST = 1.4426950408889634, 126.0


class VectorCode:
    """Writes instructions at the place where a builder stands."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.zeros = ir.Constant(VECTOR, [0.0] * LANES)
        self._four = ir.Constant(_INDEX, 4)

    def constant(self, value: float) -> Any:
        """The same number in all lanes."""
        return ir.Constant(VECTOR, [float(value)] * LANES)

    def splat(self, value: Any, kind: Any = VECTOR) -> Any:
        """One value, known when the code runs, in all lanes."""
        b, empty = self.builder, ir.Constant(kind, ir.Undefined)
        one = b.insert_element(empty, value, ir.Constant(_INDEX, 0))
        return b.shuffle_vector(one, empty, ir.Constant(_INTEGERS, [0] * LANES))

    def mask(self, columns: Any) -> Any:
        """The first so many lanes."""
        words = ir.VectorType(WORD, LANES)
        return self.builder.icmp_signed("<", ir.Constant(words, list(range(LANES))), self.splat(columns, words))

    def at(self, base: Any, *offsets: Any) -> Any:
        """An address, so many elements further on."""
        b = self.builder
        for offset in offsets:
            elements = ir.Constant(WORD, offset) if isinstance(offset, int) else offset
            base = b.add(base, b.shl(elements, ir.Constant(WORD, 2)))
        return base

    def load(self, address: Any, mask: Any) -> Any:
        """What lies there."""
        kind = ir.FunctionType(VECTOR, [_POINTER, _INDEX, _MASK, VECTOR])
        function = self._function(kind, "llvm.masked.load.v16f32.p0")
        return self.builder.call(function, [self.builder.inttoptr(address, _POINTER), self._four, mask, self.zeros])

    def store(self, value: Any, address: Any, mask: Any) -> None:
        """Write it there."""
        kind = ir.FunctionType(ir.VoidType(), [VECTOR, _POINTER, _INDEX, _MASK])
        function = self._function(kind, "llvm.masked.store.v16f32.p0")
        self.builder.call(function, [value, self.builder.inttoptr(address, _POINTER), self._four, mask])

    def number(self, address: Any) -> Any:
        """The one number that lies there, in all lanes."""
        return self.splat(self.builder.load(self.builder.inttoptr(address, _POINTER), align=4))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, rounded once."""
        return self.builder.call(self._function(ir.FunctionType(VECTOR, [VECTOR] * 3), "llvm.fma.v16f32"), [a, b, c])

    def exp(self, x: Any) -> Any:
        """e^x, to about the last bit; at most 2^126, at least 2^-126; what is not a number stays so."""
        b = self.builder
        power = b.fmul(x, self.constant(_LOG2_E))
        power = self._two(
            "llvm.maxnum.v16f32", self._two("llvm.minnum.v16f32", power, self.constant(_LARGEST)), self.constant(-_LARGEST)
        )
        whole = b.call(self._function(ir.FunctionType(VECTOR, [VECTOR]), "llvm.rint.v16f32"), [power])
        rest, result = b.fsub(power, whole), self.constant(_POWERS[-1])
        for coefficient in _POWERS[-2::-1]:
            result = self.fma(result, rest, self.constant(coefficient))
        exponent = b.add(b.fptosi(whole, _INTEGERS), ir.Constant(_INTEGERS, [127] * LANES))
        scale = b.bitcast(b.shl(exponent, ir.Constant(_INTEGERS, [23] * LANES)), VECTOR)
        return b.select(b.fcmp_unordered("uno", x, x), x, b.fmul(result, scale))

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + e^-x)."""
        b, one = self.builder, self.constant(1.0)
        return b.fdiv(one, b.fadd(one, self.exp(b.fsub(self.zeros, x))))

    def tanh(self, x: Any) -> Any:
        """2 sigmoid(2x) - 1."""
        return self.fma(self.constant(2.0), self.sigmoid(self.builder.fadd(x, x)), self.constant(-1.0))

    def largest(self, x: Any, y: Any) -> Any:
        """The larger one in every lane."""
        return self._two("llvm.maxnum.v16f32", x, y)

    def _two(self, name: str, x: Any, y: Any) -> Any:
        return self.builder.call(self._function(ir.FunctionType(VECTOR, [VECTOR] * 2), name), [x, y])

    def _function(self, kind: Any, name: str) -> Any:
        return cgutils.get_or_insert_function(self.builder.module, kind, name)
