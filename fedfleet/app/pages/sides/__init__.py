"""Pages of several runs: comparisons, studies, searches and the demo.

A page is a list of sections over one `PageFacts` (`sections`): the conclusion, then figures and tables of its sides.

- `page_runs`: `PageRun` (one run as pages show it), `Side` (runs that differ in seeds only, with colour and line), `sides_of(arms)`.
- `accuracy_figures`, `run_rows`, `analysis_sections`, and `time_chart` and `hardness_section` of the folder above: what sections show.
- `verdicts`, `comparison_words`: sentences, all of them computed.
"""
