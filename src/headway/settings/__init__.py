"""settings — what the user wrote down: headway.toml and HEADWAY_*, checked and frozen.

    from headway import settings
    found = settings.load(Path("."))
    found.task("route").actions

Takes: a directory and an environment.   Gives: Settings, or an error that names file, key and cure.
Never: writes a file, runs a user's code, lets an unknown key pass.
May import: decide, reward, nouns.
"""

from headway.settings.example import example
from headway.settings.read import (
    FILE,
    KEYS,
    VARIABLES,
    cache_folder,
    config,
    config_hash,
    load,
    parse,
    project_directory,
)
from headway.settings.schema import (
    MUTATIONS,
    STATE,
    EncoderEndpoint,
    Explore,
    GuardSettings,
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
    "MUTATIONS",
    "STATE",
    "VARIABLES",
    "EncoderEndpoint",
    "Explore",
    "GuardSettings",
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
    "load",
    "parse",
    "project_directory",
]
