"""The report of one run, part by part: facts first, then sentences and figures that are functions of them."""
