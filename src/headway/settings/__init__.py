"""settings — what the user wrote down: headway.toml and HEADWAY_*, checked and frozen.

    from headway import settings
    project = settings.load(Path("."))
    project.task("route").actions

Takes: a directory, an environment, the catalogue of kits.   Gives: Settings, or an error that names file, key and fix.
Never: writes a file, runs the code of a kit that is not in use, lets an unknown key pass.
May import: decide, reward, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.settings.configuration import config as config
    from headway.settings.edit import with_weight as with_weight
    from headway.settings.environment import cache_folder as cache_folder, project_directory as project_directory
    from headway.settings.file import (
        FILE as FILE,
        example as example,
        settings_lines as settings_lines,
        settings_text as settings_text,
    )
    from headway.settings.kits import kits_in_use as kits_in_use
    from headway.settings.read import load as load, parse as parse
    from headway.settings.schema import (
        ServerSettings as ServerSettings,
        Settings as Settings,
        TaskSettings as TaskSettings,
        Upstream as Upstream,
        WatchSettings as WatchSettings,
    )
    from headway.settings.strict import Setting as Setting, Url as Url, Variable as Variable
    from headway.settings.table import SettingsTable as SettingsTable, quoted as quoted
else:
    __all__, __getattr__ = door(__name__)
