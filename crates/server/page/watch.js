// Shows what the server is doing, again every two seconds; the fragment comes from the server, which escapes all in it.
"use strict";
(() => {
  const KEY = "gradus-key";
  const PAUSE = 2000;
  const [status, result] = ["#status", "#result"].map((name) => document.querySelector(name));
  const headers = () => {
    const key = sessionStorage.getItem(KEY);
    return key ? { Authorization: `Bearer ${key}` } : {};
  };
  const show = async () => {
    try {
      const response = await fetch("/page/watch", { headers: headers() });
      if (response.status === 401) {
        status.textContent = "This server needs a key: give it on the page Look.";
        return;
      }
      const fragment = new DOMParser().parseFromString(await response.text(), "text/html");
      result.replaceChildren(...fragment.body.childNodes);
      status.textContent = "";
    } catch {
      status.textContent = "The server does not answer.";
    }
  };
  result.addEventListener("click", async (event) => {
    const job = event.target.closest("button[data-cancel]")?.dataset.cancel;
    if (!job) return;
    await fetch(`/v1/jobs/${encodeURIComponent(job)}`, { method: "DELETE", headers: headers() });
    show();
  });
  const again = async () => {
    if (!document.hidden) await show();
    setTimeout(again, PAUSE);
  };
  again();
})();
