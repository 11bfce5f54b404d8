"""settings — what the user wrote down: headway.toml and HEADWAY_*, checked and frozen.

    from headway import settings
    project = settings.load(Path("."))
    project.task("route").actions

Takes: a directory, an environment, the catalogue of kits.   Gives: Settings, or an error that names file, key and fix.
Never: writes a file, runs the code of a kit that is not in use, lets an unknown key pass.
May import: decide, reward, files, nouns.
"""

from headway.settings.configuration import config, config_hash
from headway.settings.edit import with_weight
from headway.settings.environment import VARIABLES, cache_folder, project_directory
from headway.settings.file import FILE, example, settings_lines
from headway.settings.file import text_of as settings_text
from headway.settings.kits import kits_in_use
from headway.settings.read import KEYS, load, parse
from headway.settings.schema import (
    STATE,
    EncoderEndpoint,
    Explore,
    GuardSettings,
    KitSettings,
    Role,
    RuleSettings,
    ServerSettings,
    Settings,
    StoreSettings,
    TaskSettings,
    Upstream,
    WatchSettings,
    is_task_name,
)

__all__ = [
    "FILE",
    "KEYS",
    "STATE",
    "VARIABLES",
    "EncoderEndpoint",
    "Explore",
    "GuardSettings",
    "KitSettings",
    "Role",
    "RuleSettings",
    "ServerSettings",
    "Settings",
    "StoreSettings",
    "TaskSettings",
    "Upstream",
    "WatchSettings",
    "cache_folder",
    "config",
    "config_hash",
    "example",
    "is_task_name",
    "kits_in_use",
    "load",
    "parse",
    "project_directory",
    "settings_lines",
    "settings_text",
    "with_weight",
]
