// One conversation with a local model: what was asked, what it said, and what the user says about that.
import { post, Problem, put, remove, segment, stream, type GeneratedReply, type Reply, type ReplyRating } from "../../lib/api";

export type Mark = "1" | "2" | "3" | "4" | "5" | "+" | "-";
export type CommentKind = "edit" | "critique";

const UNRATED: ReplyRating = { stars: null, thumb: null, edit: "", critique: "" };

const asProblem = (error: unknown): Problem => (error instanceof Problem ? error : new Problem(0, "page", String(error), ""));

/** A prompt and its reply. A rating is shown at once and sent behind the back of whoever goes on writing. */
export class Exchange {
  id = $state("");
  prompt: string;
  text = $state("");
  policy = $state("");
  tokens = $state(0);
  seconds = $state(0);
  dropped = $state(0);
  cut = $state(false);
  writing = $state(false);
  mine = $state.raw<ReplyRating>(UNRATED);
  problem = $state.raw<Problem>();
  #named: () => void = () => undefined;
  #sending = new Promise<void>((named) => (this.#named = named)); // what is said of a reply waits until it is stored
  #unsent = 0;

  constructor(prompt: string) {
    this.prompt = prompt;
  }

  static of(row: Reply): Exchange {
    const exchange = new Exchange(row.prompt);
    exchange.stored(row.id);
    exchange.text = row.text;
    exchange.policy = row.policy;
    exchange.tokens = row.tokens;
    exchange.seconds = row.latency_s;
    exchange.dropped = row.dropped_turns;
    exchange.cut = row.finish === "length";
    exchange.mine = row.mine;
    return exchange;
  }

  stored(id: string): void {
    this.id = id;
    this.#named();
  }

  get rated(): boolean {
    const { stars, thumb, edit, critique } = this.mine;
    return stars !== null || thumb !== null || Boolean(edit || critique);
  }

  rate(mark: Mark): void {
    const thumb = mark === "+" ? 1 : mark === "-" ? -1 : null;
    this.#send({ ...this.mine, thumb, stars: thumb === null ? Number(mark) : null }, (path) =>
      put<ReplyRating>(`${path}/rating`, { mark }),
    );
  }

  comment(kind: CommentKind, text: string): void {
    this.#send({ ...this.mine, [kind]: text }, (path) => post<ReplyRating>(`${path}/comments`, { kind, text }));
  }

  withdraw(): void {
    this.#send(UNRATED, (path) => remove<ReplyRating>(`${path}/rating`));
  }

  /** What the server knows, unless something newer is on its way to it. */
  told(mine: ReplyRating): void {
    if (this.#unsent === 0) this.mine = mine;
  }

  #send(shown: ReplyRating, request: (path: string) => Promise<ReplyRating>): void {
    const before = this.mine;
    this.mine = shown;
    this.problem = undefined;
    this.#unsent++;
    // One after another, so that the last one counts.
    this.#sending = this.#sending.then(async () => {
      try {
        const stored = await request(`/v1/decisions/${segment(this.id)}`);
        if (--this.#unsent === 0) this.mine = stored;
      } catch (error) {
        if (--this.#unsent === 0) this.mine = before;
        this.problem = asProblem(error);
      }
    });
  }
}

/** A conversation is an episode of its task: one policy answers all of it. */
export class Conversation {
  episode: string;
  exchanges = $state<Exchange[]>([]);
  problem = $state.raw<Problem>();
  #abort: AbortController | undefined;

  constructor(
    readonly task: string,
    episode = `page-${[...crypto.getRandomValues(new Uint8Array(10))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`,
  ) {
    this.episode = episode;
  }

  get writing(): boolean {
    return this.exchanges.at(-1)?.writing ?? false;
  }

  /** Asks and shows the reply while it is written. True: it is complete. */
  async ask(prompt: string): Promise<boolean> {
    const messages = this.exchanges.flatMap((each) => [
      { role: "user", content: each.prompt },
      { role: "assistant", content: each.text },
    ]);
    const exchange = new Exchange(prompt);
    this.exchanges.push(exchange);
    exchange.writing = true;
    this.problem = undefined;
    this.#abort = new AbortController();
    const body = { task: this.task, episode: this.episode, stream: true, messages: [...messages, { role: "user", content: prompt }] };
    try {
      await stream<Partial<GeneratedReply>>("/generate", body, this.#abort.signal, (event) => {
        if (event.id === undefined) exchange.text += event.text ?? "";
        else this.#finish(exchange, event as GeneratedReply);
      });
      if (!exchange.id) throw new Problem(0, "cut_off", "The reply was cut off.", "Send it again.");
      return true;
    } catch (error) {
      this.exchanges.pop(); // what is not complete is not stored either
      if (!this.#abort.signal.aborted) this.problem = asProblem(error);
      return false;
    } finally {
      exchange.writing = false;
    }
  }

  stop(): void {
    this.#abort?.abort();
  }

  #finish(exchange: Exchange, reply: GeneratedReply): void {
    exchange.stored(reply.id);
    exchange.text = reply.text;
    exchange.policy = reply.policy;
    exchange.tokens = reply.completion_tokens;
    exchange.seconds = reply.latency_s;
    exchange.dropped = reply.dropped_turns;
    exchange.cut = reply.finish === "length";
  }
}
