"""Questions, and what the tests of this folder do with them again and again."""

from typing import Any

import httpx

from tests.factories import a_job
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import decisions
from vramgate.wire.admissions import AdmitResponse

TOO_LARGE = a_job(
    method="full",
    optimizer="adamw",
    micro_batch_size=8,
    sequence_length=8192,
    activation_checkpointing="none",
)
"""8B parameters in bf16 with gradients and two moments take 64 GB before the first activation."""
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
}
PATHS = ("/admit", "/v1/admit")


async def ask(client: httpx.AsyncClient, **question: Any) -> dict[str, Any]:  # noqa: ANN401 a request's own fields
    answer = await client.post("/admit", json=question)
    assert answer.status_code == httpx.codes.OK, answer.text
    shown: dict[str, Any] = answer.json()
    AdmitResponse.model_validate(shown)
    return shown


async def activate(client: httpx.AsyncClient, **policy: Any) -> str:  # noqa: ANN401 a policy's own fields
    """Make a policy the tenant's, and return its version."""
    made = await client.post("/v1/policies", json={"policy": policy, "note": "for a test"})
    assert made.status_code in {httpx.codes.OK, httpx.codes.CREATED}, made.text
    version = made.json()["version"]
    path = f"/v1/policies/{version}/activate"
    done = await client.post(path, headers={"If-Match": made.headers["etag"]})
    assert done.status_code == httpx.codes.OK, done.text
    return str(version)


async def all_texts(database: Database) -> str:
    """Return everything that is stored; a row's own text would be cut where it is long."""
    async with database.reading() as connection:
        tables = decisions.metadata.sorted_tables
        rows = [(await connection.execute(table.select())).all() for table in tables]
    return "\n".join(str(value) for found in rows for row in found for value in row)
