from pathlib import Path

import pytest
from pydantic import SecretStr

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


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAMGATE_HUB_TOKEN", "hf_abc")
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", "postgresql://u:hunter2@db/v")
    shown = repr(Settings())
    assert "hf_abc" not in shown
    assert "hunter2" not in shown
