"""A model the catalog does not know, from the Hugging Face Hub, where a site allows it."""

from vramgate.catalog.models import ModelCatalog
from vramgate.errors import UnknownNameError
from vramgate.hub import HubConfig, HubLookup


async def look_up_model(name: str | None, models: ModelCatalog, hub: HubLookup) -> HubConfig | None:
    """Return the hub's config for a model's name; None where the catalog has the name.

    Also None where the hub does not have it either: the catalog's own refusal, with its
    suggestions, says more.

    Raises:
        HubError: the hub did not answer usably.
    """
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
