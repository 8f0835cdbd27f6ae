// Scripts of the web page: forms that change something, live runs, pages that stay up to date.
// A page of another site cannot send this header, so the director asks for it (api/cross_site).
const OURS = { "Strongroom-Request": "1" };

// As strongroom.base.printable: no control characters, and none that turn the direction of writing.
function printable(text) {
  return String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (letter) =>
    "\\u{" + letter.codePointAt(0).toString(16) + "}");
}

const SIGNS = {
  done: "✓", incomplete: "!", failed: "✗", cancelled: "×", running: "▶", queued: "…", waiting: "…",
};

function size(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; Math.abs(count) >= 1024 && unit < units.length - 1; unit += 1) count /= 1024;
  return unit === 0 ? `${count} B` : `${count.toFixed(1)} ${units[unit]}`;
}

function bodyOf(form) {
  const whole = form.querySelector("[data-body]");
  if (whole) return JSON.parse(whole.dataset.body);
  return Object.fromEntries(new FormData(form));
}

async function send(form) {
  const answer = form.querySelector(".answer");
  const button = form.querySelector("button");
  if (form.dataset.confirm && !window.confirm(form.dataset.confirm)) return;
  button.disabled = true;
  answer.textContent = "Asking the director …";
  try {
    const response = await fetch(form.getAttribute("action"), {
      method: "POST",
      headers: { ...OURS, "Content-Type": "application/json" },
      body: JSON.stringify(bodyOf(form)),
    });
    const body = await response.json();
    answer.classList.toggle("failed", !response.ok);
    answer.textContent = body.message ? body.message.split("\n").map(printable).join("\n") : "";
    if (response.ok && body.go === "") window.location.reload();
    else if (response.ok && body.go) window.location.assign(new URL(body.go, window.location.origin).pathname);
    else if (response.status === 401 && form.getAttribute("action") !== "/login") window.location.reload();
  } catch {
    answer.classList.add("failed");
    answer.textContent = "The director did not answer. Try again.";
  } finally {
    button.disabled = false;
  }
}

document.addEventListener("submit", (event) => {
  if (event.target.matches("form.action")) {
    event.preventDefault();
    send(event.target);
  }
});

// A region with data-refresh is fetched again every so many seconds while no one uses it.
function keepFresh(region) {
  const seconds = Number(region.dataset.refresh);
  const bar = document.createElement("p");
  const label = document.createElement("label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.id = "refresh";
  box.checked = sessionStorage.getItem("refresh") !== "no";
  box.addEventListener("change", () => sessionStorage.setItem("refresh", box.checked ? "yes" : "no"));
  label.append(box, ` Refresh every ${seconds} seconds`);
  bar.className = "hint";
  bar.append(label);
  region.before(bar);
  window.setInterval(async () => {
    const isUsed = region.contains(document.activeElement) || !document.getSelection().isCollapsed;
    if (!box.checked || document.hidden || isUsed) return;
    try {
      const answer = await fetch(window.location.href, { headers: OURS });
      if (answer.status === 401) window.location.reload();
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("[data-refresh]");
      if (fresh) region.replaceChildren(...fresh.childNodes);
    } catch {
      // The next time will show whether the director is back.
    }
  }, seconds * 1000);
}

class LiveRun {
  constructor(page) {
    this.page = page;
    this.after = Number(page.dataset.after);
    // Of the director's time zone, which the lines before these are shown in.
    this.offset = Number(page.dataset.offset) * 1000;
    this.log = document.getElementById("run-log");
    this.waitSeconds = 1;
  }

  async follow() {
    for (;;) {
      try {
        const answer = await fetch(`${this.page.dataset.events}?after=${this.after}`, { headers: OURS });
        if (!answer.ok) { window.location.reload(); return; }
        if (await this.read(answer.body)) { window.location.reload(); return; }
        this.waitSeconds = 1;
      } catch {
        this.waitSeconds = Math.min(30, 2 * this.waitSeconds);
      }
      await new Promise((resolve) => { window.setTimeout(resolve, this.waitSeconds * 1000); });
    }
  }

  // Whether the stream came to its end.
  async read(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return false;
      text += value;
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const isLast = this.take(text.slice(0, end));
        text = text.slice(end + 2);
        if (isLast) return true;
      }
    }
  }

  take(text) {
    let kind = "";
    let data = "";
    for (const line of text.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (kind === "end" || kind === "denied") return true;
    if (data) {
      const event = JSON.parse(data);
      if (event.run) this.show(event.run);
      if (event.line) this.add(event.line);
    }
    return false;
  }

  show(run) {
    const state = document.querySelector("#run-state .state");
    if (state.dataset.state !== run.state) {
      state.dataset.state = run.state;
      state.className = `state state-${printable(run.state)}`;
      const sign = document.createElement("span");
      sign.ariaHidden = "true";
      sign.textContent = SIGNS[run.state] ?? "";
      state.replaceChildren(sign, ` ${printable(run.state)}`);
    }
    const put = (name, value) => { document.getElementById(`run-${name}`).textContent = value; };
    put("files", run.files.toLocaleString("en"));
    put("bytes", size(run.bytes));
    put("stored", size(run.stored_bytes));
    put("errors", run.errors.toLocaleString("en"));
    const bar = document.getElementById("run-progress");
    if (bar && run.total_bytes) {
      bar.max = run.total_bytes;
      bar.value = Math.min(run.bytes, run.total_bytes);
    }
  }

  add(line) {
    if (line.sequence <= this.after) return;
    this.after = line.sequence;
    if (!this.log) return;
    const atEnd = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 4;
    const entry = document.createElement("li");
    const time = document.createElement("time");
    time.dateTime = line.time;
    const local = new Date(Date.parse(line.time) + this.offset).toISOString();
    time.textContent = `${local.slice(0, 10)} ${local.slice(11, 16)}`;
    entry.className = printable(line.level);
    entry.append(time, ` ${printable(line.text)}`);
    this.log.append(entry);
    while (this.log.childElementCount > 5000) this.log.firstElementChild.remove();
    if (atEnd) this.log.scrollTop = this.log.scrollHeight;
  }
}

for (const region of document.querySelectorAll("[data-refresh]")) keepFresh(region);
for (const page of document.querySelectorAll("[data-events]")) new LiveRun(page).follow();
