// Calls to the service. The browser sends the session's cookie along; no key is kept here.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.status = status;
    this.errors = problem.errors ?? [];
  }
}

// With a `revision` nothing is changed if somebody else changed it since that revision was read.
async function ask(path, { method = "GET", body, signal, revision } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  if (revision !== undefined) headers["If-Match"] = `"${revision}"`;
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", signal });
  if (answer.ok) return answer;
  throw new Refused(answer.status, await answer.json().catch(() => ({})));
}

export const callForRevision = async (path) => {
  const answer = await ask(path);
  return [await answer.json(), answer.headers.get("ETag").replaceAll('"', "")];
};

export const call = async (path, options) => (await ask(path, options)).json();

// An answer that comes in lines of JSON: `take` gets each as soon as it is there.
export async function callForLines(path, options, take) {
  const reader = (await ask(path, options)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop();
    for (const line of lines) take(JSON.parse(line));
  }
}

// One sentence for people, whatever went wrong.
export function sentence(error) {
  if (error.status === 412) return "Somebody else changed this: reload.";
  if (!error.status) return "The service does not answer. Nothing was changed; try again.";
  return `${error.message[0].toUpperCase()}${error.message.slice(1)}${/[.!?]$/.test(error.message) ? "" : "."}`;
}

export const poolAddress = (pool_id) => `/dashboard/pools/${encodeURIComponent(pool_id)}`;
