// Compiled, not run: what the types accept and refuse.
import { type DecisionAnswer, GateRefused, Headway, RLTrainer } from "../dist/index.js";

export async function uses(headway: Headway): Promise<void> {
  const pick: DecisionAnswer = await headway.decide("route", "text", ["small", { name: "large", features: { usd: 1 } }]);
  const fresh: number = await headway.signal(pick.id, { solved: true, cost_usd: 0.004, rating: null });
  const reports = await headway.request("GET /v1/reports", { query: { days: 7 } });
  const mean: number | null | undefined = reports.reports[0]?.days[0]?.reward;
  for await (const event of headway.events()) if (event.name === "stopping") break;
  try {
    await headway.promote("bandit@4f2a");
  } catch (error) {
    if (error instanceof GateRefused) console.error(error.code, error.hint, fresh, mean);
  }
  // @ts-expect-error a client cannot set a propensity
  await headway.decide("route", "text", ["small"], { propensity: 0.5 });
  // @ts-expect-error there is no such route
  await headway.request("GET /v1/nothing", {});
  // @ts-expect-error a signal is a number
  await headway.signal(pick.id, { solved: "yes" });
  const trainer = new RLTrainer({ embed: (prompt) => [prompt.length] });
  await trainer.train(["a"], { onProgress: ({ episode, update }) => console.log(episode, update?.policyLoss) });
}
