"""One device of a served run: it pulls work, trains on its own data, and hands in what it learnt."""
