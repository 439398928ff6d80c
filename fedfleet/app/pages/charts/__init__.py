"""Charts of pages as inline SVG, each in two drawings: `WIDE` (880 px), or `HALF` of it, and `SLIM` (350 px) for phones.

A chart is a function of data and a `Sheet` that gives a `Drawing`; `figure` puts two of them on a page:

    wide, slim = both(lambda sheet: steps([Line("mild", seconds, accuracy, colour=1)], sheet))
    figure("Accuracy", "Steps: nothing is learnt between rounds.", wide, slim, "It rises to 94 % within 3.9 h.")

- `drawing`: `Sheet`, `WIDE`, `HALF`, `SLIM`, `Drawing`, `figure`, `pictures`, `both`, `key` (for stacked parts), `switch` (up to three
  pictures, no script), `svg`; marks: `text`, `line`, `box`, `dot`.
- `steps`: `Line` (band of seeds in low and high), `Plot`, `steps`. `bars`: `Part`, `Bar`, `bars`. `columns`: `Column`, `Group`, `Panel`,
  `columns` (small multiples on one scale), `ranks`. `dots`: `Point`, `Along`, `dots`. `histogram`: `histogram`.
- `axes`: `Scale`, `ticks`, `numbers`, `shares`, `time_scale`, `time_ticks`, `left_axis`, `foot_axis`, `reference`. `labels`: `width_of`,
  `apart`, `flags`: no two texts overlap.

Paints are the classes of style.css: a1 to a6 fill, s1 to s6 stroke, t1 to t5 words in a series' colour, `late-area` is hatched (too late
or thrown away, on all pages), `aw` is wash. 1 to 3: series (mild, middle, severe; 3 also alarm), 4: moving the model, work that was used,
5: training, 6: nothing happens (never text).
"""
