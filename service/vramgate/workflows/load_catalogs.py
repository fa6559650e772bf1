"""The catalogs that answers are made from: what ships with the package, and the site's own."""

from pathlib import Path

from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.catalog.site import Catalogs, load_site_catalog


def load_catalogs(site_file: Path | None = None) -> Catalogs:
    """Return the catalogs, a site's entries before the built-in ones of the same names.

    Raises:
        InvalidSiteCatalogError: the site's file cannot be read, or an entry in it is wrong.
    """
    models, accelerators = builtin_models(), builtin_accelerators()
    if site_file is None:
        return Catalogs(models=models, accelerators=accelerators)
    return load_site_catalog(site_file, accelerators).merged(models, accelerators)
