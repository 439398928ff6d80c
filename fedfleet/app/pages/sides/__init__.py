"""Parts of pages that show several runs beside each other: comparisons, studies, the demo.

- `looking`: `Look` (one run as pages show it), `look(folder, page)`; `Side` (runs that differ in seeds only, with colour and line).
- `curves`: `accuracy_figure(sides)`. `standings`: `standings_figure(sides, at)`. `rows`: `runs_table(sides)`.
- `participation`: `who_took_part(sides)`. `timing`: `where_time_went(sides)`. `costing`: `what_it_cost(sides)`.
- `words`: sentences that are computed. `checking`: differing keys, digests, commands.
"""
