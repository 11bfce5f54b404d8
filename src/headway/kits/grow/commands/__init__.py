"""The commands of the kit: `headway grow`."""
