from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from vramgate.settings import Settings, SettingsError, check_settings, is_loopback


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "Localhost.", "::ffff:127.0.0.1"],
)
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "gpu01", "127.0.0.1.nip.io", ""])  # noqa: S104 refused
def test_what_others_can_reach_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_the_service_does_not_listen_to_others_without_tokens() -> None:
    with pytest.raises(SettingsError, match=r"VRAMGATE_HOST=127\.0\.0\.1"):
        check_settings(Settings(host="0.0.0.0"))  # noqa: S104 refused


def test_the_service_listens_to_others_where_every_request_needs_a_token() -> None:
    check_settings(Settings(host="0.0.0.0", loopback_without_token=False))  # noqa: S104 allowed


def test_the_refusal_says_how_to_configure_tokens() -> None:
    with pytest.raises(SettingsError) as refused:
        check_settings(Settings(host="0.0.0.0"))  # noqa: S104 refused
    for words in (
        "VRAMGATE_LOOPBACK_WITHOUT_TOKEN=false",
        "vramgate token create",
        "VRAMGATE_OIDC_ISSUER",
    ):
        assert words in str(refused.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"oidc_issuer": "https://idp.example"}, "VRAMGATE_OIDC_AUDIENCE is not"),
        ({"oidc_audience": "vramgate"}, "VRAMGATE_OIDC_ISSUER is not"),
        ({"oidc_jwks_url": "https://idp.example/keys"}, "VRAMGATE_OIDC_ISSUER is not"),
        ({"oidc_issuer": "http://idp.example", "oidc_audience": "v"}, "https://"),
        ({"oidc_issuer": "idp.example", "oidc_audience": "v"}, "https://"),
        (
            {
                "oidc_issuer": "https://idp.example",
                "oidc_audience": "v",
                "oidc_jwks_url": "http://idp.example/keys",
            },
            "VRAMGATE_OIDC_JWKS_URL is http://idp.example/keys",
        ),
    ],
)
def test_an_issuer_is_named_completely_and_safely_or_not_at_all(
    given: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        check_settings(Settings.model_validate(given))


def test_an_issuer_with_its_audience_is_taken() -> None:
    check_settings(Settings(oidc_issuer="https://idp.example/realm", oidc_audience="vramgate"))


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256,HS512", ""])
def test_an_issuer_signs_with_a_private_key_only(algorithm: str) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"oidc_algorithms": algorithm})


def test_lists_come_from_the_environment_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAMGATE_TRUSTED_PROXIES", "10.0.0.0/8, 192.0.2.7")
    monkeypatch.setenv("VRAMGATE_OIDC_ALGORITHMS", "ES256,EdDSA")
    settings = Settings()
    assert [str(one) for one in settings.trusted_proxies] == ["10.0.0.0/8", "192.0.2.7/32"]
    assert settings.oidc_algorithms == ("ES256", "EdDSA")


@pytest.mark.parametrize("proxies", ["*", "proxy.example", "10.0.0.1/8"])
def test_proxies_are_trusted_by_their_addresses(proxies: str) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"trusted_proxies": proxies})


def test_several_processes_do_not_share_one_sqlite_file() -> None:
    with pytest.raises(SettingsError, match="VRAMGATE_WORKERS=1"):
        check_settings(Settings(workers=2))
    check_settings(Settings(workers=2, database_url=SecretStr("postgresql+asyncpg://db/vramgate")))


def test_a_missing_site_catalog_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not a file"):
        check_settings(Settings(site_catalog=tmp_path / "nothing.json"))


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAMGATE_PORT", "9001")
    assert Settings().port == 9001


def test_the_database_lies_in_the_state_folder_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    url = Settings().database_url.get_secret_value()
    assert url == f"sqlite:///{tmp_path}/vramgate/vramgate.db"
    assert not (tmp_path / "vramgate").exists()


def test_the_journal_lies_in_the_state_folder_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert Settings().journal_folder == tmp_path / "vramgate" / "journal"
    assert not (tmp_path / "vramgate").exists()


@pytest.mark.parametrize("size", [2**20 - 1, 64 * 2**30 + 1])
def test_the_journals_size_has_bounds(size: int) -> None:
    with pytest.raises(ValidationError):
        Settings(journal_max_bytes=size)


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAMGATE_HUB_TOKEN", "hf_abc")
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", "postgresql://u:hunter2@db/v")
    shown = repr(Settings())
    assert "hf_abc" not in shown
    assert "hunter2" not in shown
