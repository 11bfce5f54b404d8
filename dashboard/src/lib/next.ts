// What to do next for a task: one sentence, and a command or a link.
import type { EvidenceRow, Task } from "./api";
import { plural, whole } from "./format";
import { link } from "./route.svelte";

export interface Next {
  text: string;
  command?: string;
  href?: string;
  action?: string;
}

export function nextStep(task: Task, evidence: EvidenceRow[]): Next {
  const name = task.task;
  if (task.decisions === 0) return { text: "Nothing was decided yet.", command: decideCommand(name) };
  if (task.signals === 0) {
    return {
      text: "Say how decisions went: nothing can be learned without a signal.",
      command: `headway signal DECISION_ID reward=1`,
    };
  }
  const mine = evidence.filter((each) => each.task === name);
  if (task.canary) {
    return { text: `${task.canary} decides on a share of the traffic.`, href: "#/ledger", action: "See the ledger" };
  }
  const candidate = task.candidates.at(-1);
  const proof = mine.find((each) => each.candidate === candidate && each.against === task.current);
  if (candidate && proof) return fromProof(task, candidate, proof);
  if (candidate) return { text: `${candidate} waits for a proof.`, command: `headway prove ${name}` };
  if (task.until_retrain <= 0) {
    return { text: "Enough has settled to learn a new candidate.", command: `headway learn ${name}` };
  }
  return { text: `${plural(task.until_retrain, "more settled decision")} until the next candidate is learned.` };
}

function fromProof(task: Task, candidate: string, proof: EvidenceRow): Next {
  const href = link("evidence", proof.id);
  switch (proof.state) {
    case "pass":
      return { text: `${candidate} is proven better than ${proof.against}. It waits for you.`, href, action: "Promote it" };
    case "wait":
      return { text: `${candidate} is not proven yet, on ${whole(proof.n)} decisions.`, href, action: "See how far it is" };
    case "worse":
      return { text: `${candidate} is proven worse. ${task.current} stays.`, href, action: "See why" };
    default:
      return { text: `${candidate} was refused. ${task.current} stays.`, href, action: "See why" };
  }
}

export function decideCommand(task = "route"): string {
  return `headway decide ${task} "Summarise this page" --candidates small,large`;
}
