"""Charts of pages as inline SVG.

A chart is a function from a `Sheet` to a `Drawing`: its series, axes and marks are declared once. `figure` draws it for screens (`WIDE`,
880 px, or `HALF` of it) and for phones (`SLIM`, 350 px), and a page shows the one that fits:

    figure("Accuracy", "Steps: no change between evaluations.", lambda sheet: steps([Line("mild", seconds, accuracy)], sheet), "94 % in 3.9 h.")

- `marks`: `Sheet`, `Drawing`, `figure`, `pictures`, `paint_legend` (for stacked parts), `switch` (up to three pictures, no script), `svg`;
  `text`, `line`, `box`, `dot`; `stack_below`, `side_by_side`.
- `steps`: `Line` (band of seeds in low and high), `Plot`, `steps`. `bars`: `Part`, `Bar`, `bars`. `column_chart`: `Column`, `Group`,
  `Panel`, `columns` (small multiples on one scale), `rank_edges`, `histogram`. `dots`: `Point`, `Axis`, `dots`. `parallel`: `Rail`,
  `Thread`, `parallel`.
- `axes`: `Scale`, `ticks` and those of numbers, shares and time, `left_axis`, `foot_axis`, `reference`. `labels`: `width_of`, `separate`,
  `place_flags`: no two texts overlap.

Paints are the classes of style.css: a1 to a6 fill, s1 to s6 stroke, t1 to t5 words in a series' colour, `late-area` is hatched (too late
or wasted, on all pages), `aw` is wash. 1 to 3: series (mild, middle, severe; 3 also alarm), 4: moving the model, work that was used,
5: training, 6: nothing happens (never text).
"""
