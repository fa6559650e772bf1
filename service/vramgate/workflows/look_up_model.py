"""A model the catalog does not know, from the Hugging Face Hub, where a site allows it."""

from vramgate.catalog.models import ModelCatalog
from vramgate.errors import UnknownNameError
from vramgate.hub import HubConfig, HubLookup
from vramgate.wire.estimates import EstimateRequest


async def look_up_model(
    request: EstimateRequest, models: ModelCatalog, hub: HubLookup
) -> HubConfig | None:
    """Return the hub's config for the request's model; None where the catalog has the name.

    Also None where the hub does not have it either: the catalog's own refusal, with its
    suggestions, says more.

    Raises:
        HubError: the hub did not answer usably.
    """
    name = request.job.model.name if request.job is not None else None
    if name is None:
        return None
    try:
        models.resolve(name)
    except UnknownNameError:
        try:
            return await hub.model_config(name)
        except UnknownNameError:
            return None
    return None
