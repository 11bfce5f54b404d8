"""`Project`: an open folder that decides and accepts signals (`folder`), with the verbs of the loop (`verbs`)."""

from headway.project.project.folder import Opened
from headway.project.project.verbs import Project

__all__ = ["Opened", "Project"]
