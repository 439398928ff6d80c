"""A lazy sequence makes its items once, and only for whoever looks at them."""

from fedfleet.core.lazy_sequence import LazySequence


def test_items_are_made_at_the_first_look_and_kept():
    looks = []

    def make():
        looks.append(1)
        return [3, 4, 5]

    numbers = LazySequence(3, make)
    assert len(numbers) == 3
    assert not looks
    assert (numbers[0], numbers[-1], list(numbers), numbers[1:]) == (3, 5, [3, 4, 5], [4, 5])
    assert numbers == (3, 4, 5) == numbers
    assert numbers != [3, 4]
    assert len(looks) == 1
