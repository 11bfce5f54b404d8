"""`python -m headway.loop.health FOLDER`: exit status 0 while the project's server answers; for a container's check.

It sends the project's token to a server of this project alone, so it works at any address the server listens on.
Standard library only.
"""

from __future__ import annotations

import http.client
import sys
from pathlib import Path

from headway.files import read_regular
from headway.loop.address import running_address

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def healthy(folder: Path) -> bool:
    """Whether the server of this project answers."""
    home = folder / ".headway"
    try:
        address = running_address(home)
        if address is None:
            return False
        token = read_regular(home / "token").decode("ascii").strip()
        host = _EVERYWHERE.get(address["host"], address["host"])
        connection = http.client.HTTPConnection(host, int(address["port"]), timeout=5)
        try:
            connection.request("GET", "/health", headers={"authorization": f"Bearer {token}"})
            return connection.getresponse().status == 200
        finally:
            connection.close()
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return False


def main() -> int:
    return 0 if healthy(Path(sys.argv[1] if len(sys.argv) > 1 else ".")) else 1


if __name__ == "__main__":
    sys.exit(main())
