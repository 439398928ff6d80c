"""The checks on pages can fail: each fault of a bad page is seen, and a good page has none."""

import pytest

pytestmark = pytest.mark.slow

GOOD = "<!doctype html><meta charset=utf-8><title>t</title><body style='background:#fff;color:#222'><p>words</p><svg role=img aria-label=a viewBox='0 0 100 20' style='width:100px'><rect width=100 height=20 fill='#222'/><text x=5 y=15 font-size=12 fill='#fff'>in</text></svg>"
BAD = {
    "contrast": "<p style='color:#bbb'>pale</p>",
    "px": "<p style='font-size:9px'>small</p>",
    "overflow": "<div style='width:2000px'>wide</div>",
    "console": "<script>throw new Error('x')</script>",
    "outside": "<img alt=a src='http://127.0.0.1:9/none.png'>",
    "no words": "<svg role=img width=10 height=10></svg>",
    "contrast 1": "<svg role=img aria-label=a viewBox='0 0 100 20' style='width:100px'><rect width=100 height=20 fill='#222'/><text x=5 y=15 font-size=12 fill='#333'>in</text></svg>",
}


def test_a_good_page_has_no_faults(look, tmp_path):
    (tmp_path / "good.html").write_text(GOOD)
    assert look(tmp_path / "good.html").faults() == []


@pytest.mark.parametrize("fault", BAD)
def test_each_fault_is_seen(look, tmp_path, fault):
    (tmp_path / "bad.html").write_text(GOOD + BAD[fault])
    result = look(tmp_path / "bad.html").faults()
    assert any(fault in said for said in result), result
