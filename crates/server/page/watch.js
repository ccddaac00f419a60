// Shows what the server is doing, again every two seconds; the fragment comes from the server, which escapes all in it.
"use strict";
(() => {
  const KEY = "gradus-key";
  const PAUSE = 2000;
  const [status, result, start] = ["#status", "#result", "#start"].map((name) => document.querySelector(name));
  const headers = () => {
    const key = sessionStorage.getItem(KEY);
    return key ? { Authorization: `Bearer ${key}` } : {};
  };
  // Jobs are started by who may, with the models that generate.
  const offerStart = (manage) => {
    const names = JSON.parse(manage?.dataset.generators ?? "[]");
    start.hidden = names.length === 0;
    const select = start.querySelector("select[name=model]");
    if (select.options.length !== names.length) select.replaceChildren(...names.map((name) => new Option(name, name)));
  };
  const show = async () => {
    try {
      const response = await fetch("/page/watch", { headers: headers() });
      if (response.status === 401) {
        status.textContent = "This server needs a key: give it on the page Look.";
        return;
      }
      const fragment = new DOMParser().parseFromString(await response.text(), "text/html");
      const focused = document.activeElement?.dataset;
      result.replaceChildren(...fragment.body.childNodes);
      // What had the focus has it again.
      for (const name of ["cancel", "result"]) {
        if (focused?.[name]) result.querySelector(`[data-${name}="${CSS.escape(focused[name])}"]`)?.focus();
      }
      offerStart(result.querySelector("#manage"));
      if (!status.dataset.kept) status.textContent = "";
    } catch {
      status.textContent = "The server does not answer.";
    }
  };
  const say = (text) => {
    status.textContent = text;
    status.dataset.kept = text;
    setTimeout(() => delete status.dataset.kept, 10 * PAUSE);
  };
  const download = async (job) => {
    const response = await fetch(`/v1/jobs/${encodeURIComponent(job)}`, { headers: headers() });
    const records = (await response.json()).result?.records ?? [];
    const lines = records.map((record) => `${JSON.stringify(record)}\n`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
    link.download = `${job}.jsonl`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  result.addEventListener("click", async (event) => {
    const { cancel, result: finished } = event.target.closest("button")?.dataset ?? {};
    if (finished) await download(finished);
    if (cancel) {
      await fetch(`/v1/jobs/${encodeURIComponent(cancel)}`, { method: "DELETE", headers: headers() });
      show();
    }
    // A browser that opens a page sends no key: the server gives a ticket for it.
    const page = event.target.closest("a[data-page]");
    if (page && sessionStorage.getItem(KEY)) {
      event.preventDefault();
      const body = JSON.stringify({ path: new URL(page.href).pathname });
      const response = await fetch("/page/ticket", { method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body });
      location.assign((await response.json()).path);
    }
  });
  start.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const file = form.get("file");
    const query = new URLSearchParams({ name: file.name, method: form.get("method"), model: form.get("model") });
    const response = await fetch(`/page/annotate?${query}`, { method: "POST", headers: headers(), body: file });
    const answer = await response.json();
    say(response.ok ? `Started ${answer.id}.` : answer.error.message);
    show();
  });
  const again = async () => {
    if (!document.hidden) await show();
    setTimeout(again, PAUSE);
  };
  again();
})();
