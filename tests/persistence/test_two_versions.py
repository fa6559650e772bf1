"""An upgrade without a pause: this version and the next one on one database."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.processes import free_port
from tests.databases import Databases
from tests.reports import a_report, measured
from vramgate.persistence.migrate import newest_revision

ROOT = Path(__file__).parents[2]
PROGRAM = "from vramgate.cli.main import main; main()"
REVISION = '''\
"""What a next version could bring: a column with a default, a table."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{before}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("reports", sa.Column("site", sa.Text, server_default="here"))
    op.create_table("sites", sa.Column("name", sa.Text, primary_key=True))


def downgrade() -> None:
    op.drop_table("sites")
    op.drop_column("reports", "site")
'''
TABLES = """

reports.append_column(sa.Column("site", sa.Text, server_default="here"))
sites = sa.Table("sites", metadata, sa.Column("name", sa.Text, primary_key=True))
"""


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of this version with one revision more, and tables to match."""
    root = tmp_path_factory.mktemp("next")
    no_caches = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("service", "migrations"):
        shutil.copytree(ROOT / folder, root / folder, ignore=no_caches)
    planted = root / "migrations" / "versions" / "9999_next.py"
    planted.write_text(REVISION.format(before=newest_revision()))
    with (root / "service" / "vramgate" / "persistence" / "tables.py").open("a") as tables:
        tables.write(TABLES)
    return root


@pytest.fixture
def database_url(postgres: Databases) -> str:
    """Return a database at this version; SQLite is one process's own, so it has no such moment."""
    return postgres.fresh()


def _start(root: Path, url: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 our own program
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"VRAMGATE_DATABASE_URL": url, "PATH": "", "PYTHONPATH": str(root / "service")},
    )


def _run(root: Path, url: str, *arguments: str) -> str:
    process = _start(root, url, *arguments)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    return out


@contextmanager
def _serving(root: Path, url: str) -> Iterator[httpx.Client]:
    port = free_port()
    process = _start(root, url, "serve", "--port", str(port))
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20)
    try:
        _await_ready(process, client)
        yield client
    finally:
        client.close()
        process.terminate()
        process.communicate(timeout=30)


def _await_ready(process: subprocess.Popen[str], client: httpx.Client) -> None:
    transport = httpx.HTTPTransport(retries=8)  # waits 0.5, 1, 2 ... seconds between
    with httpx.Client(base_url=client.base_url, transport=transport, timeout=20) as patient:
        answer = patient.get("/readyz")
    assert process.poll() is None
    assert answer.status_code == 200, answer.text


def _post(client: httpx.Client, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 whatever a report holds
    answer = client.post("/v1/reports", json={"reports": [a_report(**fields)]})
    assert answer.status_code == 202, answer.text
    item: dict[str, Any] = answer.json()["items"][0]
    return item


def _runs(client: httpx.Client) -> list[str]:
    return [one["run_id"] for one in client.get("/v1/reports").json()["items"]]


def test_both_versions_serve_while_the_database_is_already_at_the_next(
    next_version: Path, database_url: str
) -> None:
    low, high = measured(20_000_000_000), measured(21_000_000_000)
    with _serving(ROOT, database_url) as this:
        assert _post(this, run_id="before")["status"] == "accepted"
        assert _run(next_version, database_url, "migrate").endswith("→ 9999\n")
        # The running one goes on, over connections and statements it made before.
        assert _post(this, run_id="during", outcome="running", measured=low)["status"] == "accepted"
        with _serving(next_version, database_url) as following:
            assert _post(following, run_id="next")["status"] == "accepted"
            assert _post(following, run_id="during", measured=high)["status"] == "raised"
            assert _post(this, run_id="next")["status"] == "duplicate"
            expected = ["before", "next", "during"]
            assert _runs(this) == _runs(following) == expected
            assert this.get("/readyz").status_code == 200
    # Rolled back: this version starts on the newer schema, and writes to it.
    assert "nothing to do" in _run(ROOT, database_url, "migrate")
    with _serving(ROOT, database_url) as this:
        assert _post(this, run_id="after")["status"] == "accepted"
        assert _runs(this) == [*expected, "after"]


def test_the_next_version_does_not_start_before_its_migration(
    next_version: Path, database_url: str
) -> None:
    process = _start(next_version, database_url, "serve", "--port", str(free_port()))
    out, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "vramgate migrate" in out
    assert "Traceback" not in out


@pytest.mark.slow
def test_an_installed_wheel_has_its_migrations(tmp_path: Path, databases: Databases) -> None:
    tree = tmp_path / "tree"
    no_caches = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("service", "migrations"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=no_caches)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree / file)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    installed = tmp_path / "installed"
    done = subprocess.run(  # noqa: S603 pip, on our own tree
        [*pip, "install", "--no-deps", "--ignore-installed", "--prefix", str(installed), str(tree)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PIP_NO_CACHE_DIR": "0"},
    )
    if "Could not find a version that satisfies" in done.stderr:
        pytest.skip("the build needs setuptools from PyPI, which cannot be reached")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tree)
    (package,) = installed.glob("lib/*/site-packages")
    process = subprocess.run(  # noqa: S603 our own program
        [sys.executable, "-c", f"import vramgate; print(vramgate.__file__); {PROGRAM}", "migrate"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"VRAMGATE_DATABASE_URL": databases.empty(), "PATH": "", "PYTHONPATH": str(package)},
    )
    assert process.returncode == 0, process.stderr
    file, migrated = process.stdout.splitlines()
    assert Path(file).is_relative_to(installed)
    assert migrated == f"no schema → {newest_revision()}"
