"""backup — a project in one file, and back.

Takes: a project, while servers decide; any file.   Gives: one file with checksums; a project, whole or none.
Never: overwrites anything; restores a byte that was not compared with its hash.
May import: cli, observe, files, nouns.
"""

from headway.nouns import Command, Kit

KIT = Kit(
    name="backup",
    summary="A project in one file, with checksums.",
    commands={
        "backup": Command("headway.kits.backup.commands:backup", "Copy the project into one file, with checksums."),
        "restore": Command(
            "headway.kits.backup.commands:restore",
            "Make a folder the project of a backup, after every byte is checked.",
        ),
    },
)
