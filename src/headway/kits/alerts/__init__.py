"""alerts — tells people about alarms and outages: a webhook, a command, or both.

Takes: alarms and outages that have begun or ended.   Gives: one message each, and how it went.
Never: holds up the loop; sends a text of a decision.
May import: project, settings, observe, client, nouns.
"""

from headway.nouns import Kit

KIT = Kit(
    name="alerts",
    summary="Tell a webhook or a command about alarms.",
    needs=("models", "proxy"),
    tables={"alerts": "headway.kits.alerts.alerts:AlertSettings"},
    tellers={"alerts": "headway.kits.alerts.alerts:Alerts"},
)
