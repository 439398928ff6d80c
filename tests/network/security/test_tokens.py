"""Tokens: unguessable, stored as hashes only, good for so many uses and so long, revocable."""

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.security.enrolment_store import open_store, transaction
from fedfleet.network.security.tokens import (
    TokenRequest,
    all_tokens,
    make_token,
    revoke_token,
    token_of,
    token_refusal,
    use_token,
)


@pytest.fixture
def db(tmp_path):
    db = open_store(tmp_path / "devices.db")
    yield db
    db.close()


def test_a_token_is_found_by_what_it_says_and_by_nothing_else(db):
    text, token = make_token(db, TokenRequest(uses=3, seconds=60.0, note="shelf\n2"), 100.0)
    assert token_of(db, text) == token
    assert (token.uses, token.used, token.expires, token.note) == (3, 0, 160.0, "shelf\\n2")
    for wrong in ("", token.id, text[:-1], text + "x", text.upper(), " " + text, "x" * 10**6, "\ud800"):
        assert token_of(db, wrong) is None


def test_tokens_are_long_and_never_the_same(db):
    made = [make_token(db, TokenRequest(), float(i))[0] for i in range(50)]
    assert len(set(made)) == 50 and min(map(len, made)) >= 36
    assert [t.made for t in all_tokens(db)] == [float(i) for i in range(50)]


def test_what_a_token_says_is_nowhere_on_the_disk(tmp_path, db):
    text, token = make_token(db, TokenRequest(), 1.0)
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token.id.encode() in written and text.encode() not in written and text[4:].encode() not in written
    assert text not in repr(token)


def test_a_token_is_good_until_it_is_used_up_expired_or_revoked(db):
    text, token = make_token(db, TokenRequest(uses=2, seconds=10.0), 0.0)
    assert token_refusal(token, 9.999) is None
    assert "expired" in token_refusal(token, 10.0)
    for left in (1, 0):
        with transaction(db):
            use_token(db, token)
        now = token_of(db, text)
        assert now.uses - now.used == left
        assert (token_refusal(now, 1.0) is None) == (left > 0)
    assert "used up" in token_refusal(now, 1.0)
    assert "revoked" in token_refusal(revoke_token(db, token.id, 5.0), 1.0)
    assert revoke_token(db, token.id, 7.0).revoked == 5.0
    assert "not one of this run" in token_refusal(None, 1.0)


def test_a_token_without_an_end_stays_good(db):
    assert token_refusal(make_token(db, TokenRequest(), 0.0)[1], 1e12) is None


@pytest.mark.parametrize(
    "wanted",
    [
        TokenRequest(uses=0),
        TokenRequest(seconds=0.0),
        TokenRequest(seconds=-1.0),
        TokenRequest(seconds=float("nan")),
        TokenRequest(2, client=1),
    ],
)
def test_tokens_that_make_no_sense_are_refused(db, wanted):
    with pytest.raises(BadInput):
        make_token(db, wanted, 0.0)
    assert all_tokens(db) == []


def test_revoking_what_is_not_there_is_refused_in_words(db):
    with pytest.raises(BadInput, match=r"no token with the id 'x\\\\n'"):
        revoke_token(db, "x\n", 0.0)
