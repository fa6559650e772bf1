"""Report tokens: what their text is, and that nothing but our own, whole and in time, is taken."""

import base64
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramgate.authentication.bearer_tokens import SecretKey, hash_of_secret, parse_bearer_token
from vramgate.authentication.report_tokens import (
    MAX_CHARACTERS,
    ExpiredReportTokenError,
    RejectedReportTokenError,
    ReportToken,
    is_report_token,
    new_report_token,
    read_report_token,
)

KEY = SecretKey(key_id="a", key=b"\x0b" * 32)
OTHER_KEY = SecretKey(key_id="b", key=b"\x0c" * 32)
DECISION = "01900000-0000-7000-8000-000000000001"
EXPIRES = datetime(2026, 12, 1, tzinfo=UTC)
NOW = EXPIRES - timedelta(days=1)
# Made with OpenSSL: `openssl dgst -sha256 -mac HMAC -macopt hexkey:0b0b…`, over "vramgate report token
# v1", NUL, the decision, 1796083200 as 8 bytes, "team-a"; then `basenc --base64url` of the last two
# and the digest.
KNOWN = f"vgr_{DECISION}_AAAAAGsODgB0ZWFtLWH1aZQsEocvcVbCK9LhEGxm7qjNbdm13d_jPBLqOPrfQQ"
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def a_report_token(
    *,
    tenant: str = "team-a",
    decision_id: str = DECISION,
    expires_at: datetime = EXPIRES,
    key: SecretKey = KEY,
) -> str:
    return new_report_token(tenant=tenant, decision_id=decision_id, expires_at=expires_at, key=key)


def _assert_rejected(text: str, *keys: SecretKey) -> None:
    """Hold the reader to one kind of refusal; that a token expired is told of whole ones alone."""
    with pytest.raises(RejectedReportTokenError) as refused:
        read_report_token(text, keys or (KEY,), NOW)
    assert not isinstance(refused.value, ExpiredReportTokenError)


def test_a_token_is_what_openssl_makes_of_the_same_words() -> None:
    assert a_report_token() == KNOWN


def test_a_token_says_tenant_decision_and_end() -> None:
    said = read_report_token(KNOWN, (KEY,), NOW)
    assert said == ReportToken(tenant="team-a", decision_id=DECISION, expires_at=EXPIRES)


@given(
    tenant=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@:/+-]{0,127}", fullmatch=True),
    decision_id=st.uuids().map(str),
    seconds=st.integers(1, 2**31),
)
def test_every_token_is_read_back_and_is_safe_wherever_tokens_stand(
    tenant: str, decision_id: str, seconds: int
) -> None:
    end = NOW + timedelta(seconds=seconds)
    text = a_report_token(tenant=tenant, decision_id=decision_id, expires_at=end)
    assert read_report_token(text, (KEY,), NOW) == ReportToken(
        tenant=tenant, decision_id=decision_id, expires_at=end
    )
    assert set(text) <= set(ALPHABET)
    # 300: it travels in headers, environments and job scripts.
    assert len(text) <= MAX_CHARACTERS == 300
    # Neither a token of the other kind nor a JWT, which has dots.
    assert is_report_token(text)
    assert parse_bearer_token(text) is None


def test_no_character_can_be_another_one() -> None:
    for place, right in enumerate(KNOWN):
        for wrong in ALPHABET.replace(right, "") + " .=+/\n\0é":
            _assert_rejected(KNOWN[:place] + wrong + KNOWN[place + 1 :])


def test_no_bit_can_be_turned() -> None:
    raw = KNOWN.encode()
    for place in range(len(raw)):
        for bit in range(8):
            turned = bytearray(raw)
            turned[place] ^= 1 << bit
            _assert_rejected(turned.decode("latin-1"))


def test_nothing_can_be_cut_off_or_added() -> None:
    for length in range(len(KNOWN)):
        _assert_rejected(KNOWN[:length])
    for more in ("A", "=", "==", " ", "\n", "_", KNOWN):
        _assert_rejected(KNOWN + more)
    _assert_rejected(f" {KNOWN}")


@given(st.one_of(st.text(), st.from_regex(r"vgr_[0-9a-f-]{36}_[A-Za-z0-9_-]*", fullmatch=True)))
def test_whatever_is_shown_is_refused_and_breaks_nothing(text: str) -> None:
    _assert_rejected(text)


def test_a_text_of_megabytes_is_refused_by_its_length() -> None:
    _assert_rejected(f"vgr_{DECISION}_{'A' * 10_000_000}")


@pytest.mark.parametrize(
    ("tenant", "decision_id", "later"),
    [
        ("team-b", DECISION, 0),
        ("team-a", DECISION.replace("1", "2"), 0),
        ("team-a", DECISION, 1),
    ],
    ids=["tenant", "decision", "end"],
)
def test_a_signature_holds_for_no_other_words(tenant: str, decision_id: str, later: int) -> None:
    end = EXPIRES + timedelta(days=later)
    other = a_report_token(tenant=tenant, decision_id=decision_id, expires_at=end)
    signature = _bytes_of(KNOWN)[-32:]
    mixed = base64.urlsafe_b64encode(_bytes_of(other)[:-32] + signature).rstrip(b"=").decode()
    _assert_rejected(f"{other[:41]}{mixed}")


def _bytes_of(text: str) -> bytes:
    rest = text[41:]
    return base64.urlsafe_b64decode(rest + "=" * (-len(rest) % 4))


def test_a_signature_of_the_same_words_for_another_purpose_is_none() -> None:
    signed = _bytes_of(KNOWN)[:-32]
    for words in (signed, DECISION.encode() + signed, KNOWN.encode()):
        mac = hmac.digest(KEY.key, words, "sha256")
        rest = base64.urlsafe_b64encode(signed + mac).rstrip(b"=").decode()
        _assert_rejected(f"vgr_{DECISION}_{rest}")
    # The same key hashes the secrets of the other tokens.
    digest = hash_of_secret(DECISION, (KEY,)).rpartition(":")[2]
    rest = base64.urlsafe_b64encode(signed + bytes.fromhex(digest)).rstrip(b"=").decode()
    _assert_rejected(f"vgr_{DECISION}_{rest}")


def test_both_keys_are_taken_while_they_rotate_and_a_retired_one_no_longer() -> None:
    assert read_report_token(KNOWN, (OTHER_KEY, KEY), NOW).tenant == "team-a"
    assert read_report_token(a_report_token(key=OTHER_KEY), (OTHER_KEY, KEY), NOW)
    _assert_rejected(KNOWN, OTHER_KEY)
    with pytest.raises(RejectedReportTokenError):
        read_report_token(KNOWN, (), NOW)


def test_a_token_ends_at_its_moment_and_only_its_holder_is_told() -> None:
    assert read_report_token(KNOWN, (KEY,), EXPIRES - timedelta(microseconds=1))
    with pytest.raises(ExpiredReportTokenError):
        read_report_token(KNOWN, (KEY,), EXPIRES)
    with pytest.raises(RejectedReportTokenError) as refused:
        read_report_token(KNOWN[:-1] + "A", (KEY,), EXPIRES)
    assert not isinstance(refused.value, ExpiredReportTokenError)


@pytest.mark.parametrize(
    ("tenant", "decision_id"),
    [
        ("team-a", "17"),
        ("team-a", "01900000-0000-7000-8000-00000000000A"),
        ("Team A", DECISION),
    ],
)
def test_no_token_is_made_that_could_not_be_read(tenant: str, decision_id: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        a_report_token(tenant=tenant, decision_id=decision_id)
