"""Alarms of a task: rows of the ledger of kind `alarm`.

No single key raises one that acts: where the others' outcomes do not show the change at half of its strength, the alarm
names the key, nothing follows from it, and the others' outcomes are watched on. Not covered: keys that collude, keys
after the eighth by outcomes. A key in `trust_keys` counts like everybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING, NotRequired, TypedDict

from headway.nouns import Alarm, Outage, is_own, sentence
from headway.observe import dumps, loads
from headway.project.prove.subject import current_policy
from headway.project.publish import record_change

if TYPE_CHECKING:
    from headway.observe import MatureRows, ServedRows
    from headway.project.project.folder import Opened
    from headway.promote import Entry
    from headway.prove import Known, StreamRows

EXPLORE = 0.5  # the share of random choices while an alarm is open
_MOST_KEYS = 8
_BY_THE_LOOP = ("canary", "experiment", "alarm")  # parts of a configuration that are not settings


class AlarmDetail(TypedDict):
    """The `detail` of the ledger row that raises an alarm; see `Alarm`. The row that ends it has only `ended`."""

    stream: str
    action: str
    segment: str
    since: float
    from_decision: int
    before: float
    after: float
    rows: list[int]
    explore: float
    key: NotRequired[str]


def check_alarm(project: Opened, task: str, *, who: str = "") -> Entry | None:
    """The ledger row of a new alarm if the outcomes of what is served have changed.

    Reads only what was decided and settled since the last check.
    """
    from headway.observe import ServedRows
    from headway.project.inspect.outages import outages
    from headway.prove import LIMIT, find

    if task in project.servings.compared:
        return None  # a vote between two policies is not an outcome of one
    served = project.served.get(task)
    if served is None:
        served = project.served[task] = ServedRows(project.database, project.query, task)
    if not served.update():
        return None
    mature = served.mature()
    down = outages(project, task)
    # An outage is not a change of quality, and it is told by itself. While one goes on, what is served without the
    # upstream is compared with itself.
    spans = [(one.since, one.opened if one.until is None else one.until) for one in down]
    mature = mature.outside([*spans, *_ramps(project, task)])
    still_open = [alarm for alarm in alarms(project, task) if alarm.open]
    for alarm in still_open:
        mature = _without(project, task, served, mature, alarm.key)
    changed = find(_stream_rows(project, task, served, mature, down), _known(project, task, mature))
    if changed is None:
        return None
    key = ""
    for name in _suspects(project, task, served, mature):
        others = _without(project, task, served, mature, name)
        same = find(_stream_rows(project, task, served, others, down), _known(project, task, others), LIMIT / 2)
        if same is None or same.change.fall != changed.change.fall:
            key = name
            break
    change = changed.change
    detail: AlarmDetail = {
        "stream": changed.stream,
        "action": changed.action,
        "segment": changed.segment,
        "since": float(mature.at[changed.row]),
        "from_decision": int(mature.seq[changed.row]),
        "before": round(change.before, 6),
        "after": round(change.after, 6),
        "rows": list(change.rows),
        "explore": EXPLORE
        if changed.matters and not key
        else max((alarm.explore for alarm in still_open), default=0.0),
        "key": key,
    }
    return raise_alarm(project, task, detail, who=who)


def _ramps(project: Opened, task: str) -> list[tuple[float, float]]:
    """When promotions that did not end well were on their way: their steps have a test of their own.

    What an action earns may depend on its share of the traffic, which is not a change of the world.
    """
    spans: list[tuple[float, float]] = []
    since = 0.0
    for entry in project.ledger.entries(task, "canary", "promote", "rollback", "retire"):
        if since and (entry.kind != "canary" or entry.ramp is None):
            spans += [(since, entry.at)] if entry.kind != "promote" else []
            since = 0.0
        elif entry.ramp is not None:
            since = since or entry.at
    return [*spans, (since, inf)] if since else spans


def _suspects(project: Opened, task: str, served: ServedRows, rows: MatureRows) -> list[str]:
    """The keys that are not trusted, those with most outcomes first."""
    trusted = project.settings.task(task).trust_keys
    if all(is_own(name) or name in trusted for name in project.query.names("rater")):
        return []
    shares = _shares(project, task, served, rows)
    counts = Counter(name for seq in rows.seq.tolist() for name in shares[seq])
    return [name for name, _ in counts.most_common() if not is_own(name) and name not in trusted][:_MOST_KEYS]


def _without(project: Opened, task: str, served: ServedRows, rows: MatureRows, key: str) -> MatureRows:
    """The rows as they are without the signals of a key."""
    if not key:
        return rows
    shares = _shares(project, task, served, rows)
    given = zip(rows.seq.tolist(), rows.reward.tolist(), strict=True)
    return rows.rated([shares[seq].get(key, reward) for seq, reward in given])


def _shares(project: Opened, task: str, served: ServedRows, rows: MatureRows) -> dict[int, dict[str, float]]:
    """By decision: its reward without each of its raters, NaN if there is none; read once per outcome."""
    from headway.reward import reward_without

    rewards = project.rewards(task)
    unread = [seq for seq in rows.seq.tolist() if seq not in served.without]
    for row in project.query.outcomes(unread, raters=rewards.counting or True):
        several = len(row.said) > 1
        served.without[row.decision.seq] = {
            name: reward_without(row, name, rewards) if several else nan for name in row.said
        }
    return served.without


def _stream_rows(
    project: Opened, task: str, served: ServedRows, rows: MatureRows, down: Sequence[Outage]
) -> StreamRows:
    from headway.prove import StreamRows

    changes = project.ledger.entries(task, "promote", "rollback")
    bodies = served.configurations(rows.configurations())
    settings: dict[str, int] = {}
    of_config = {number: settings.setdefault(settings_of(body), len(settings)) for number, body in bodies.items()}
    return StreamRows(
        reward=rows.reward,
        action=rows.action,
        role=rows.role,
        likely=rows.likely,
        own=rows.own,
        policy=rows.changes_before([entry.at for entry in changes]),
        settings=rows.by_configuration(of_config) * (len(down) + 1)
        + rows.changes_before(sorted(outage.opened for outage in down if outage.open)),
        actions=rows.actions,
        roles=rows.roles,
    )


def settings_of(body: str) -> str:
    """A configuration without what the loop changes by itself."""
    return dumps({key: value for key, value in loads(body).items() if key not in _BY_THE_LOOP}) if body else ""


def _known(project: Opened, task: str, rows: MatureRows) -> list[Known]:
    """Earlier alarms: what they touch is compared from the change on, and not at all while they are open.

    An open one of a single key touches nothing: its outcomes are left out.
    """
    from headway.prove import Known

    return [
        Known(action=alarm.action, row=None if alarm.open else rows.first_from(alarm.since))
        for alarm in alarms(project, task)
        if not (alarm.open and alarm.key)
    ]


def raise_alarm(project: Opened, task: str, detail: AlarmDetail, *, who: str) -> Entry:
    """Write the row of an alarm; serving, proofs and learning read it from the ledger."""
    current = current_policy(project, project.settings.task(task))
    means = (detail["before"], detail["after"])
    why = sentence(detail["action"], detail["segment"], detail["since"], means, detail["rows"], detail.get("key", ""))
    return record_change(
        project, task, "alarm", current.ref, current.digest, expects=current.expects, why=why, who=who, detail=detail
    )


def end_alarm(project: Opened, task: str, *, why: str, who: str = "") -> Entry | None:
    """End every open alarm of a task; None if there is none. A promotion or rollback ends them as well."""
    if project.ledger.heads(task).alarm is None:
        return None
    current = current_policy(project, project.settings.task(task))
    return record_change(
        project, task, "alarm", current.ref, current.digest, expects=current.expects, why=why, who=who,
        detail={"ended": why},
    )  # fmt: skip


def alarms(project: Opened, task: str) -> list[Alarm]:
    """Every alarm of a task, oldest first, with the reason why it ended."""
    raised: list[Alarm] = []
    for entry in project.ledger.entries(task, "alarm", "promote", "rollback"):
        if entry.kind == "alarm" and "ended" not in entry.detail:
            raised.append(_alarm(entry))
            continue
        why = str(entry.detail.get("ended") or f"{entry.kind} of {entry.policy}")
        raised = [replace(alarm, ended=why, ended_at=entry.at) if alarm.open else alarm for alarm in raised]
    return raised


def open_alarms(project: Opened, task: str, newest: Entry | None) -> list[Alarm]:
    """The open alarms of a task, oldest first; none without `Heads.alarm`."""
    return [] if newest is None else [alarm for alarm in alarms(project, task) if alarm.open]


def alert_failure(project: Opened) -> str:
    """Why the last alert about an alarm failed; empty if it did not."""
    job = project.jobs.last("alert")
    return "" if job is None or job.state != "failed" else str(job.result["error"]["message"])


def _alarm(entry: Entry) -> Alarm:
    detail = entry.detail
    before, after = detail["rows"]
    return Alarm(
        task=entry.task,
        stream=detail["stream"],
        action=detail["action"],
        segment=detail["segment"],
        since=detail["since"],
        from_decision=detail["from_decision"],
        before=detail["before"],
        after=detail["after"],
        rows=(before, after),
        explore=detail["explore"],
        policy=entry.policy,
        at=entry.at,
        seq=entry.seq,
        key=detail.get("key", ""),
    )
