// Calls to the service. The browser sends the session's cookie along; no key is kept here.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.status = status;
    this.errors = problem.errors ?? [];
  }
}

export async function call(path, { method = "GET", body, signal } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", signal });
  if (answer.ok) return answer.json();
  throw new Refused(answer.status, await answer.json().catch(() => ({})));
}

// One sentence for people, whatever went wrong.
export function sentence(error) {
  if (!error.status) return "The service does not answer. Nothing was changed; try again.";
  return `${error.message[0].toUpperCase()}${error.message.slice(1)}${/[.!?]$/.test(error.message) ? "" : "."}`;
}

export const poolAddress = (pool_id) => `/dashboard/pools/${encodeURIComponent(pool_id)}`;
