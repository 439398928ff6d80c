"""What the metrics are asked with."""

from fedfleet.measure.montecarlo.settings import Settings


def test_grids_of_costs():
    assert Settings(semantics="released").costs(by_deadline=True).tolist() == list(range(10, 121, 10))
    assert Settings(semantics="released", deadline=98.0).costs(by_deadline=True).tolist() == list(range(10, 101, 10))
    assert Settings(semantics="released").costs(by_deadline=False).tolist() == list(range(0, 241, 10))
    assert Settings().costs(by_deadline=True).tolist() == [5.0 + 10 * i for i in range(12)]
    assert Settings(t_cost="deadline").costs(by_deadline=True).tolist() == [120.0]
    assert Settings(t_cost=33.0).costs(by_deadline=False).tolist() == [33.0]
