// Calls to the service. Keys live in this file's memory and nowhere else.

export const keys = { read: "", admin: "" };

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export async function call(path, { method = "GET", key = keys.read, body, signal } = {}) {
  const headers = {};
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", signal });
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, problem.detail || problem.title || `the service answered ${answer.status}`);
}

export const poolAddress = (pool_id) => `/dashboard/pools/${encodeURIComponent(pool_id)}`;
