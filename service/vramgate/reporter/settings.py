"""What the reporter is told by its caller and by the environment, read once per run."""

import ipaddress
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

EXIT_SECONDS = 2.0
"""The longest a training process waits at its end for the last report to be acknowledged."""
MAX_RANK = 2**20
VARIABLES = frozenset(
    {
        "VRAMGATE_URL", "VRAMGATE_TOKEN", "VRAMGATE_RUN_ID", "VRAMGATE_DECISION_ID",
        "VRAMGATE_SPOOL", "VRAMGATE_USE_PROXY", "VRAMGATE_CA_FILE",
    }
)  # fmt: skip
"""What the reporter reads besides the launchers' own variables; the service reads none of them."""
_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK")
# torchrun's own default of --rdzv-id: the same for everybody.
_NO_ELASTIC_ID = frozenset({"", "none"})
# An admission's answer hands it out; the decision stands in it as it is.
_REPORT_TOKEN = re.compile(r"vgr_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})_.+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where reports go, and how."""

    url: str
    """The service's address, without user information and without a trailing slash."""
    token: str | None = None
    uses_proxy: bool = False
    """Honour HTTP_PROXY and the like; never for a service on this machine."""
    ca_file: str | None = None
    """Certificates to trust instead of the public ones."""

    @property
    def decision_id(self) -> str | None:
        """The one decision that the token is for; None where it is for whatever its tenant reports."""
        found = _REPORT_TOKEN.fullmatch(self.token or "")
        return None if found is None else found[1]

    def __repr__(self) -> str:
        return f"Destination(url={self.url!r})"


def destination(
    url: str | None, token: str | None, environment: Mapping[str, str] = os.environ
) -> Destination | None:
    """Return where to send reports; None where nobody named a service.

    Raises:
        ValueError: the address is not http:// or https:// with a host.
    """
    given = (url or environment.get("VRAMGATE_URL", "")).strip()
    if not given:
        return None
    parts = urlsplit(given)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("VRAMGATE_URL is no http:// or https:// address of a service")
    place = parts.netloc.rpartition("@")[2]
    return Destination(
        url=f"{parts.scheme}://{place}{parts.path.rstrip('/')}",
        token=(token or environment.get("VRAMGATE_TOKEN", "")).strip() or None,
        uses_proxy=_is_on(environment.get("VRAMGATE_USE_PROXY", ""))
        and not is_loopback(parts.hostname),
        ca_file=environment.get("VRAMGATE_CA_FILE") or None,
    )


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("vramgate.example")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def spool_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """Return where reports wait for the service, without making the folder."""
    named = given or os.environ.get("VRAMGATE_SPOOL")
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME", "")
    root = Path(state) if Path(state).is_absolute() else Path.home() / ".local/state"
    return root / "vramgate" / "spool"


def rank_of(environment: Mapping[str, str] = os.environ) -> int:
    """Return this process's rank among all of the job.

    >>> rank_of({"SLURM_PROCID": "3", "LOCAL_RANK": "1"}), rank_of({})
    (3, 0)
    """
    for name in _RANK_VARIABLES:
        value = environment.get(name, "")
        if value.isascii() and value.isdigit() and int(value) <= MAX_RANK:
            return int(value)
    return 0


def run_id_of(environment: Mapping[str, str] = os.environ) -> str:
    """Return one identifier for all ranks of this run.

    A requeued Slurm job and a restarted elastic worker group are runs of their own.

    >>> run_id_of({"SLURM_JOB_ID": "812", "SLURM_STEP_ID": "0", "SLURM_RESTART_COUNT": "1"})
    'slurm-812.0-restart1'
    >>> run_id_of({"TORCHELASTIC_RUN_ID": "night-run", "TORCHELASTIC_RESTART_COUNT": "0"})
    'elastic-night-run'
    """
    if named := environment.get("VRAMGATE_RUN_ID"):
        return named
    if "SLURM_JOB_ID" in environment:
        return _slurm_run_id(environment)
    elastic = environment.get("TORCHELASTIC_RUN_ID", "")
    restarts = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
    suffix = "" if restarts in {"", "0"} else f"-restart{restarts}"
    if elastic not in _NO_ELASTIC_ID:
        return f"elastic-{elastic}{suffix}"
    if environment.get("WORLD_SIZE", "1") == environment.get("LOCAL_WORLD_SIZE"):
        return f"launch-{_parent_mark()}{suffix}"
    return str(uuid.uuid4())


def _slurm_run_id(environment: Mapping[str, str]) -> str:
    array = environment.get("SLURM_ARRAY_JOB_ID")
    task = environment.get("SLURM_ARRAY_TASK_ID", "")
    job = f"{array}_{task}" if array else environment["SLURM_JOB_ID"]
    step = environment.get("SLURM_STEP_ID", environment.get("SLURM_STEPID", ""))
    restarts = environment.get("SLURM_RESTART_COUNT", "0")
    suffix = "" if restarts in {"", "0"} else f"-restart{restarts}"
    return f"slurm-{job}{f'.{step}' if step else ''}{suffix}"


def _parent_mark() -> str:
    """Return what the ranks under one launcher share and no other launch has."""
    parent = os.getppid()
    try:
        # Field 22 of proc(5)'s stat, counted from behind the name: when the launcher started.
        started = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        started = "0"
    host = os.uname().nodename.partition(".")[0]
    return f"{host}-{parent}-{started}"


def _is_on(value: str) -> bool:
    return value.strip().lower() in {"1", "true", "yes", "on"}
