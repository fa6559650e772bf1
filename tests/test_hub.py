"""Look-ups at a hub, against a real HTTP server on this machine."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from vramgate.errors import UnknownNameError
from vramgate.hub import MAX_CONFIG_BYTES, HubError, HubLookup

CONFIG = {"model_type": "llama", "hidden_size": 64}
COMMIT = "0e9e39f249a16976918f6564b8830bc894c89659"


@dataclass
class Hub:
    """What the server shall say, and what it was asked."""

    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    held: bool = False
    url: str = ""

    def serve(
        self, name: str, body: object, *, status: int = 200, etag: str = '"v1"', **headers: str
    ) -> None:
        """Answer for one repository's config."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        said = {"etag": etag, "x-repo-commit": COMMIT, **headers}
        self.answers[f"/{name}/resolve/main/config.json"] = (status, said, content)


@pytest.fixture
def hub() -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {key.lower(): value for key, value in self.headers.items()}
            state.requests.append((self.path, headers))
            if state.held:
                state.hold.wait(10)
            status, said, body = state.answers.get(self.path, (404, {}, b""))
            if status == 200 and headers.get("if-none-match", "") == said.get("etag"):
                status, body = 304, b""
            self.send_response(status)
            for key, value in said.items():
                self.send_header(key, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                return  # the caller hung up, as it may

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield state
    state.hold.set()
    server.shutdown()
    thread.join()
    server.server_close()


def _kept_files(cache: Path) -> list[Path]:
    return list(cache.iterdir())


@dataclass
class Clock:
    """A time that tests move."""

    seconds: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds


async def test_a_config_is_fetched_with_its_commit(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", CONFIG)

    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        found = await lookup.model_config("acme/titan")

    assert (found.config, found.commit, found.stale) == (CONFIG, COMMIT, False)


async def test_a_second_look_up_asks_nobody(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", CONFIG)

    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        await lookup.model_config("acme/titan")
    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        found = await lookup.model_config("acme/titan")

    assert found.config == CONFIG
    assert len(hub.requests) == 1


async def test_an_expired_config_is_confirmed_by_its_etag(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", CONFIG)
    clock = Clock()

    async with HubLookup(base_url=hub.url, cache=tmp_path, expiry_seconds=60, now=clock) as lookup:
        await lookup.model_config("acme/titan")
        clock.seconds += 61
        found = await lookup.model_config("acme/titan")
        again = await lookup.model_config("acme/titan")

    assert hub.requests[1][1]["if-none-match"] == '"v1"'
    assert (found.config, found.fetched_at, again) == (CONFIG, clock.seconds, found)
    assert len(hub.requests) == 2


async def test_a_changed_config_replaces_the_old_one(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", CONFIG)
    clock = Clock()

    async with HubLookup(base_url=hub.url, cache=tmp_path, expiry_seconds=60, now=clock) as lookup:
        await lookup.model_config("acme/titan")
        hub.serve("acme/titan", {**CONFIG, "hidden_size": 128}, etag='"v2"')
        clock.seconds += 61
        found = await lookup.model_config("acme/titan")

    assert found.config["hidden_size"] == 128


async def test_an_old_config_is_better_than_none_and_says_so(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", CONFIG)
    clock = Clock()

    async with HubLookup(base_url=hub.url, cache=tmp_path, expiry_seconds=60, now=clock) as lookup:
        await lookup.model_config("acme/titan")
        hub.serve("acme/titan", b"", status=503)
        clock.seconds += 61
        found = await lookup.model_config("acme/titan")

    assert (found.config, found.stale) == (CONFIG, True)


async def test_a_hub_that_hangs_is_given_up_in_time(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", CONFIG)
    hub.held = True

    async with HubLookup(base_url=hub.url, cache=tmp_path, timeout_seconds=0.2) as lookup:
        with pytest.raises(HubError, match="did not answer in time"):
            await lookup.model_config("acme/titan")


async def test_a_hub_that_is_not_there_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    async with HubLookup(base_url="http://127.0.0.1:9", cache=tmp_path) as lookup:
        with pytest.raises(HubError, match="did not answer at all") as caught:
            await lookup.model_config("acme/titan")

    assert "model.config" in caught.value.hint


@pytest.mark.parametrize(
    ("status", "code", "error", "message"),
    [
        (404, "EntryNotFound", UnknownNameError, "has no config.json"),
        (404, "", UnknownNameError, "has no config.json"),
        (401, "RepoNotFound", UnknownNameError, "has no config.json"),
        (401, "GatedRepo", HubError, "gated, private or does not exist"),
        (403, "GatedRepo", HubError, "gated, private or does not exist"),
        (429, "", HubError, "answered 429"),
        (304, "", HubError, "answered 304"),
    ],
)
async def test_a_refusal_is_told_as_what_it_is(
    hub: Hub, tmp_path: Path, status: int, code: str, error: type[Exception], message: str
) -> None:
    hub.serve("acme/titan", b"", status=status, **{"x-error-code": code})

    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        with pytest.raises(error, match=message):
            await lookup.model_config("acme/titan")


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"[" * 100_000, b"\xff"])
async def test_what_is_no_config_is_refused(hub: Hub, tmp_path: Path, body: bytes) -> None:
    hub.serve("acme/titan", body)

    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        with pytest.raises(HubError, match="no JSON object"):
            await lookup.model_config("acme/titan")

    assert _kept_files(tmp_path) == []


async def test_an_endless_answer_is_cut_off(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", b" " * (MAX_CONFIG_BYTES + 1))

    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        with pytest.raises(HubError, match="larger than"):
            await lookup.model_config("acme/titan")


async def test_a_renamed_repository_is_followed(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", CONFIG)
    hub.serve("old/titan", b"", status=307, location="/acme/titan/resolve/main/config.json")

    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        found = await lookup.model_config("old/titan")

    assert found.config == CONFIG


async def test_a_redirect_to_another_host_is_not_followed(hub: Hub, tmp_path: Path) -> None:
    elsewhere = hub.url.replace("127.0.0.1", "localhost")
    hub.serve("acme/titan", b"", status=302, location=f"{elsewhere}/config.json")

    async with HubLookup(base_url=hub.url, cache=tmp_path, token="hf_secret") as lookup:  # noqa: S106
        with pytest.raises(HubError, match="another host, localhost"):
            await lookup.model_config("acme/titan")

    assert len(hub.requests) == 1


async def test_redirects_in_a_circle_end(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", b"", status=302, location="/acme/titan/resolve/main/config.json")

    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        with pytest.raises(HubError, match="in circles"):
            await lookup.model_config("acme/titan")


async def test_the_token_reaches_the_hub_and_no_log_or_message(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub.serve("acme/titan", b"", status=401)
    caplog.set_level("DEBUG")

    async with HubLookup(base_url=hub.url, cache=tmp_path, token="hf_secret") as lookup:  # noqa: S106
        with pytest.raises(HubError) as caught:
            await lookup.model_config("acme/titan")

    assert hub.requests[0][1]["authorization"] == "Bearer hf_secret"
    assert "hf_secret" not in caplog.text + caught.value.message + caught.value.hint


def test_the_token_does_not_travel_unencrypted(tmp_path: Path) -> None:
    with pytest.raises(HubError, match="unencrypted"):
        HubLookup(base_url="http://hub.example", cache=tmp_path, token="hf_secret")  # noqa: S106


@pytest.mark.parametrize(
    ("name", "revision"),
    [
        ("../../etc/passwd", "main"),
        ("acme/titan/../x", "main"),
        ("a b", "main"),
        ("", "main"),
        ("acme/titan?x", "main"),
        ("acme/titan", "../main"),
        ("acme/titan", "a b"),
    ],
)
async def test_what_is_no_repository_is_never_asked_for(
    hub: Hub, tmp_path: Path, name: str, revision: str
) -> None:
    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        with pytest.raises(UnknownNameError):
            await lookup.model_config(name, revision=revision)

    assert hub.requests == []


async def test_a_revision_with_slashes_stays_one_segment(hub: Hub, tmp_path: Path) -> None:
    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        with pytest.raises(UnknownNameError):
            await lookup.model_config("acme/titan", revision="refs/pr/../1")

    assert hub.requests[0][0] == "/acme/titan/resolve/refs%2Fpr%2F..%2F1/config.json"


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"config": 3}', '{"config": {}}'])
async def test_a_torn_cache_file_is_fetched_again(hub: Hub, tmp_path: Path, torn: str) -> None:
    hub.serve("acme/titan", CONFIG)
    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        await lookup.model_config("acme/titan")
        _kept_files(tmp_path)[0].write_text(torn)

        found = await lookup.model_config("acme/titan")

    assert found.config == CONFIG
    assert len(hub.requests) == 2


async def test_a_cache_that_cannot_be_written_is_no_failure(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", CONFIG)
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")

    async with HubLookup(base_url=hub.url, cache=blocked) as lookup:
        found = await lookup.model_config("acme/titan")

    assert found.config == CONFIG


async def test_nothing_is_left_of_a_write_that_failed(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", CONFIG)
    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        await lookup.model_config("acme/titan")
        kept = _kept_files(tmp_path)[0]
        _replace_by_folder(kept)

        found = await lookup.model_config("acme/titan")

    assert found.config == CONFIG
    assert _kept_files(tmp_path) == [kept]


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


async def test_two_hubs_share_no_cache_entry(hub: Hub, tmp_path: Path) -> None:
    hub.serve("acme/titan", CONFIG)
    hub.answers["/mirror/acme/titan/resolve/main/config.json"] = (200, {}, b'{"model_type": "x"}')

    async with HubLookup(base_url=hub.url, cache=tmp_path) as lookup:
        await lookup.model_config("acme/titan")
    async with HubLookup(base_url=f"{hub.url}/mirror", cache=tmp_path) as lookup:
        found = await lookup.model_config("acme/titan")

    assert found.config == {"model_type": "x"}
