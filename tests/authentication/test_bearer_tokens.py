import hashlib

import pytest

from vramgate.authentication.bearer_tokens import (
    SecretKey,
    hash_of_secret,
    is_hash_of,
    is_made_with_first,
    key_of_hash,
    new_bearer_token,
    parse_bearer_token,
)

OLD = SecretKey(key_id="2026-05", key=b"o" * 32)
NEW = SecretKey(key_id="2026-11", key=b"n" * 32)


def test_a_new_token_has_our_form_and_256_random_bits() -> None:
    made = [new_bearer_token() for _ in range(50)]
    assert len({one.secret for one in made}) == len({one.token_id for one in made}) == 50
    # 52 characters of 32 letters: 5 bits each, the last one 1 bit (256 = 51 x 5 + 1).
    assert all(len(one.secret) == 52 for one in made)
    assert all(parse_bearer_token(one.text()) == one for one in made)


@pytest.mark.parametrize(
    "text",
    ["", "vg", "vg__", "vg_abc_def", "xx_{id}_{secret}", "vg_{id}_{secret}x", "vg_{id}_{secret}\n",
     "VG_{id}_{secret}", "vg_{id}_", " vg_{id}_{secret}", "vg_{id}-{secret}"],
)  # fmt: skip
def test_what_has_another_form_is_no_token_of_ours(text: str) -> None:
    one = new_bearer_token()
    assert parse_bearer_token(text.format(id=one.token_id, secret=one.secret)) is None


def test_the_secret_does_not_show() -> None:
    one = new_bearer_token()
    assert one.secret not in repr(one)
    assert "nnnn" not in repr(NEW)


def test_without_keys_the_plain_hash_is_stored() -> None:
    stored = hash_of_secret("secret", [])
    assert stored == f"sha256:{hashlib.sha256(b'secret').hexdigest()}"
    assert is_hash_of(stored, "secret", [])
    assert not is_hash_of(stored, "Secret", [])


def test_with_keys_the_hash_is_the_hmac_of_rfc_4231() -> None:
    key = SecretKey(key_id="k", key=b"Jefe")
    # RFC 4231, test case 2.
    assert hash_of_secret("what do ya want for nothing?", [key]) == (
        "hmac-sha256:k:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )


def test_the_first_key_makes_hashes_and_all_of_them_check() -> None:
    stored = hash_of_secret("secret", [OLD])
    assert is_hash_of(stored, "secret", [NEW, OLD])
    assert not is_hash_of(stored, "other", [NEW, OLD])
    assert not is_made_with_first(stored, [NEW, OLD])
    again = hash_of_secret("secret", [NEW, OLD])
    assert key_of_hash(again) == "2026-11"
    assert is_made_with_first(again, [NEW, OLD])


def test_a_plain_hash_still_fits_once_there_are_keys_and_is_to_be_made_anew() -> None:
    stored = hash_of_secret("secret", [])
    assert is_hash_of(stored, "secret", [NEW])
    assert not is_made_with_first(stored, [NEW])


@pytest.mark.parametrize("stored", ["", "hmac-sha256:2026-05:00", "md5:00", "sha256", "sha256:"])
def test_a_hash_of_a_key_that_is_gone_or_of_no_known_kind_fits_nothing(stored: str) -> None:
    assert not is_hash_of(stored, "secret", [NEW])
    assert not is_hash_of(hash_of_secret("secret", [OLD]), "secret", [NEW])
