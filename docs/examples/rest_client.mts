/*
 * A client in TypeScript: stores a turn over HTTP, and recalls it with the reason why it was found.
 *
 * Install:  nothing; Node 22.18 or later runs TypeScript
 * Run:      agentmem serve --user alice, and in another terminal: node docs/examples/rest_client.mts
 *
 * AGENTMEM_URL names another server than http://localhost:17890, AGENTMEM_KEY a key for it. Give what is recalled to a
 * model as data, not as instructions: it may hold text of anybody who wrote to the memory.
 */

declare const process: { env: Record<string, string | undefined> };

const ADDRESS = process.env.AGENTMEM_URL ?? "http://localhost:17890";
const KEY = process.env.AGENTMEM_KEY;

type Turn = { kind?: "Turn"; id: string; role: string; content: string };
type Fact = { kind: "Fact"; id: string; claim: string };
type RecallAnswer = { relevant: boolean; items: { why: string; record: (Turn & { kind: "Turn" }) | Fact }[] };
type Problem = { status: number; error: string; detail: string };

/** Ask a route; an error has the words of the problem document. */
async function post<Answer>(path: string, body: object): Promise<Answer> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (KEY !== undefined) headers.Authorization = `Bearer ${KEY}`;
  const answer = await fetch(ADDRESS + path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) {
    const problem = (await answer.json()) as Problem;
    throw new Error(`${problem.status} ${problem.error}: ${problem.detail}`);
  }
  return (await answer.json()) as Answer;
}

const turn = await post<Turn>("/v1/turns", { content: "I am allergic to peanuts." });
console.log(`stored ${turn.role}: ${turn.content}`);

const found = await post<RecallAnswer>("/v1/recall", { query: "what must the chef avoid?", top_k: 3 });
for (const { record, why } of found.items) {
  console.log(`found ${record.kind}: ${record.kind === "Turn" ? record.content : record.claim} (${why})`);
}

export {};
