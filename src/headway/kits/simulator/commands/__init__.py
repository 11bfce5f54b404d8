"""The commands of the kit: `headway sim`."""
