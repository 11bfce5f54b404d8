"""loop — the background loop: learns, proves, promotes or waits when it is due; keeps the processes of `up` alive.

Takes: a project's folder.   Gives: rows in ledger and jobs, one page per cycle, living processes.
Never: changes the live policy without evidence, asks the server for more than its health and a link to the page.
May import: project, settings, promote, prove, decide, observe, encode, client, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.loop import service as service
    from headway.loop.address import page_link as page_link, running_url as running_url
    from headway.loop.cycle import CycleResult as CycleResult
    from headway.loop.lock import held as held
    from headway.loop.supervisor import Supervisor as Supervisor, note_of_up as note_of_up
    from headway.loop.watch import TaskCheck as TaskCheck, Watch as Watch
    from headway.loop.when import machine as machine
else:
    __all__, __getattr__ = door(__name__)
