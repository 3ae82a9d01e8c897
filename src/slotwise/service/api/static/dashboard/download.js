// Tables as CSV files, made in the browser from the figures that are shown.

// A spreadsheet takes a text that begins like this for a formula, and would run it.
const FORMULA = /^[=+\-@\t\r]/;

function cell(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const toCsv = (rows) => rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";

export function download(name, rows) {
  const address = URL.createObjectURL(new Blob(["\ufeff", toCsv(rows)], { type: "text/csv" }));
  const link = document.createElement("a");
  Object.assign(link, { href: address, download: `${name.replace(/[^\w.-]+/g, "-")}.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export const moment = (us) => new Date(us / 1000).toISOString();
export const amount = (micros) => (micros === null || micros === undefined ? null : micros / 1e6);
export const range = (rate) => [rate?.mean, rate?.low, rate?.high];
