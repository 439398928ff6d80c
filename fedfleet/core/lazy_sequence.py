"""A sequence whose length is known and whose items are made when somebody looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast, overload

T = TypeVar("T")


class LazySequence(Sequence[T], Generic[T]):
    """So many items, made together by `make` at the first look, and kept.

    A commit of a thousand reports has a context and a job for each; an executor that trains nothing looks at none of them.

    >>> numbers = LazySequence(2, lambda: [4, 5])
    >>> len(numbers), numbers[1], numbers == (4, 5)
    (2, 5, True)
    """

    __slots__ = ("_count", "_items", "_make")

    def __init__(self, count: int, make: Callable[[], list[T]]) -> None:
        self._count = count
        self._make = make
        self._items: list[T] | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def items(self) -> list[T]:
        """All of them."""
        if self._items is None:
            self._items = self._make()
        return self._items

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self.items[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __eq__(self, other: object) -> bool:
        return [*cast(Sequence[Any], other)] == self.items if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # pyright: ignore[reportAssignmentType]
