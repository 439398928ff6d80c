"""How to check a report."""

from fedfleet.app.pages.report.report_checks import checking_section, privacy_section
from fedfleet.app.pages.report.report_facts import collect_facts
from fedfleet.measure.summary import summary
from tests.app.pages.report.logs import facts_of, journal

LOG = journal([([0], [])])


def test_spec_measures_digest_and_remarks_are_folded_and_escaped():
    metrics = {**summary(LOG), "digest": "ab12", "out": "runs/<x>", "curve": list(range(5000))}
    text = "".join(checking_section(collect_facts("x", "a = '<i>'", metrics, LOG), ["by <a> loop"]))
    assert text.count("<details>") == 4 and "&lt;i&gt;" in text and "by &lt;a&gt; loop" in text and "ab12" in text
    assert "fedfleet replay runs/&lt;x&gt;" in text and "5,000 values, in metrics.json" in text
    assert "How it was computed" not in "".join(checking_section(facts_of(LOG), []))


def test_privacy_is_claimed_only_where_it_is():
    claim = {"epsilon": 1.234567, "delta": 1e-5, "mechanism": "gauss", "noise_from": "seed", "claim": "of <clients>"}
    text = "".join(privacy_section(collect_facts("x", "seed = 1", {**summary(LOG), "privacy": claim}, LOG)))
    assert "Epsilon 1.235 at delta 1e-05 (gauss; a study: its noise comes from the seed): of &lt;clients&gt;." in text
    unbounded = {**claim, "epsilon": None, "noise_from": "system"}
    text = "".join(privacy_section(collect_facts("x", "seed = 1", {**summary(LOG), "privacy": unbounded}, LOG)))
    assert "Epsilon without a bound" in text and "from a secret" in text and privacy_section(facts_of(LOG)) == []
